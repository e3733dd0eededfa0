//! Fetch and its neighbours (ListOffsets, DeleteRecords, OffsetForLeaderEpoch) against a scripted
//! Queen, through their handlers. Time is paused: it moves when everybody waits.

mod bounds;
mod limits;
mod offsets;
mod refusals;
mod sessions;
mod versions;
mod waiting;

use std::sync::Arc;
use std::time::Duration;

use host::shutdown::Trigger;
use kafka_protocol::messages::fetch_request::{FetchPartition, FetchTopic, ForgottenTopic};
use kafka_protocol::messages::fetch_response::PartitionData;
use kafka_protocol::messages::{FetchRequest, FetchResponse};
use kafka_wire::records::{Batches, Budget, Compression};
use serde_json::{Value, json};

use crate::context::Node;
use crate::handlers;
use crate::scripted_queen::{ScriptedQueen, node, request};
use crate::topics::wire_name;

/// A facade over a scripted Queen.
struct Rig {
    queen: ScriptedQueen,
    node: Arc<Node>,
    stop: Option<Trigger>,
    version: i16,
}

impl Rig {
    fn new() -> Self {
        let queen = ScriptedQueen::start();
        let (node, stop) = node(&queen, |_| {});
        Self {
            queen,
            node,
            stop: Some(stop),
            version: 12,
        }
    }

    async fn fetch(&self, request: FetchRequest) -> FetchResponse {
        handlers::fetch::handle(&self::request(&self.node, self.version), request).await
    }

    /// Stores records with these values and timestamps, as a facade would.
    fn store(&self, topic: &str, partition: i32, values: &[&str]) {
        for value in values {
            self.queen.store(topic, partition, envelope(value, 1_000));
        }
    }

    fn fetch_calls(&self) -> usize {
        self.queen.calls("fetch").len()
    }
}

fn envelope(value: &str, timestamp: i64) -> Value {
    let value = base64_simd::STANDARD.encode_to_string(value);
    json!({"k": null, "t": timestamp, "v": value})
}

/// A request without a session for partitions of "orders" from these offsets.
fn from(partitions: impl IntoIterator<Item = (i32, i64)>) -> FetchRequest {
    let partitions = partitions.into_iter().map(|(partition, offset)| {
        FetchPartition::default()
            .with_partition(partition)
            .with_fetch_offset(offset)
            .with_partition_max_bytes(1 << 20)
    });
    FetchRequest::default()
        .with_max_wait_ms(500)
        .with_min_bytes(1)
        .with_max_bytes(50 << 20)
        .with_session_epoch(-1)
        .with_topics(vec![
            FetchTopic::default()
                .with_topic(wire_name("orders"))
                .with_partitions(partitions.collect()),
        ])
}

fn forget(partitions: Vec<i32>) -> Vec<ForgottenTopic> {
    vec![
        ForgottenTopic::default()
            .with_topic(wire_name("orders"))
            .with_partitions(partitions),
    ]
}

/// Every partition of a response, in order.
fn partitions(response: &FetchResponse) -> Vec<&PartitionData> {
    response
        .responses
        .iter()
        .flat_map(|topic| &topic.partitions)
        .collect()
}

fn codes(response: &FetchResponse) -> Vec<(i32, i16)> {
    let codes = partitions(response).into_iter();
    codes
        .map(|partition| (partition.partition_index, partition.error_code))
        .collect()
}

/// The values of a partition's records, with the offsets.
fn values(partition: &PartitionData) -> Vec<(i64, String)> {
    let mut values = Vec::new();
    for batch in Batches::new(partition.records.clone().expect("never null")) {
        let batch = batch.expect("a whole batch");
        let records = batch
            .records(&mut Budget::new(1 << 30, 1 << 20))
            .expect("records");
        for record in &records {
            let record = record.expect("a record");
            let value = String::from_utf8_lossy(record.value.unwrap_or(b"null")).into_owned();
            values.push((record.offset, value));
        }
    }
    values
}

fn codec(partition: &PartitionData) -> Compression {
    let mut batches = Batches::new(partition.records.clone().expect("never null"));
    batches
        .next()
        .expect("a batch")
        .expect("whole")
        .header()
        .compression
}

fn now(rig: &Rig) -> Duration {
    rig.node.host.clock.monotonic().since_origin()
}
