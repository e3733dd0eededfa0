//! A client that asks for a lot and reads nothing.

use std::time::Duration;

use kafka_wire::ApiKey;
use kafka_wire::records::{BatchOptions, Record};
use tokio::time::{Instant, sleep};

use super::honest::{Honest, Watch};
use crate::cx::Cx;
use crate::probes::{Probe, encode_batch};
use crate::spec::{Lane, Spec, Stop, Verdict, WIRE, ensure};
use crate::wire::{Connection, advertised};

/// Stored before, and asked for again and again.
const STORED_BATCHES: usize = 24;
/// The value of each batch's one record.
const VALUE_BYTES: usize = 512 * 1024;
/// Requests that are sent without a look at the answers: 12 MiB each.
const REQUESTS: usize = 60;
/// The node's write time-out.
const WRITE_TIME_OUT: Duration = Duration::from_secs(2);
/// What this may cost the node, in KiB: 60 answers would be 720 MiB.
const MAY_COST_KIB: u64 = 256 * 1024;

pub(super) fn spec() -> Spec {
    Spec::new(
        "bad-input/silent-reader",
        "A client that reads nothing of large answers is closed in time and costs a bounded amount",
        WIRE,
        run,
    )
    .apis([ApiKey::FETCH])
    .lane(Lane::OwnNode)
    .within(Duration::from_secs(60))
}

async fn run(cx: Cx) -> Verdict {
    let time_out = WRITE_TIME_OUT.as_millis().to_string();
    let node = cx
        .own_node(&[("QUEEN_KAFKA_WRITE_TIMEOUT_MS", &time_out)])
        .await?;
    let windows = advertised(node.bootstrap()).await.map_err(Stop::fail)?;
    let probe = Probe::at(
        cx.clone(),
        node.bootstrap(),
        ApiKey::FETCH,
        4,
        windows.into(),
    );
    let topic = probe.topic(1).await?;
    let value = vec![b'x'; VALUE_BYTES];
    let record = Record {
        value: Some(&value),
        ..Record::default()
    };
    let batch = encode_batch(&[record], BatchOptions::default())?;
    for _ in 0..STORED_BATCHES {
        probe.append_batch(&topic, 0, &batch).await?;
    }
    let honest = Honest::start(node.bootstrap()).await?;
    let watch = Watch::start(&node).await?;
    let mut connection = Connection::open(node.bootstrap())
        .await
        .map_err(|error| Stop::fail(format!("cannot connect: {error}")))?;
    let frame = probe.request_frame(
        ApiKey::FETCH,
        4,
        &serde_json::json!({
            "ReplicaId": -1,
            "MaxWaitMs": 100,
            "MinBytes": 1,
            "MaxBytes": 50_000_000,
            "Topics": [{"Topic": topic.name, "Partitions": [{
                "Partition": 0, "FetchOffset": 0, "PartitionMaxBytes": 50_000_000,
            }]}],
        }),
    )?;
    cx.record.seen(ApiKey::FETCH, 4);
    for _ in 0..REQUESTS {
        // Once it is closed, it is closed.
        if connection.send(&frame).await.is_err() {
            break;
        }
    }
    // The time-out runs from the moment the node cannot write on, which is when the first answer is
    // there and what the kernels hold is full.
    connection
        .has_bytes(Duration::from_secs(20))
        .await
        .map_err(|error| Stop::fail(format!("the first answer did not come: {error}")))?;
    let silent_from = Instant::now();
    sleep(WRITE_TIME_OUT + Duration::from_secs(3)).await;
    watch.grew_at_most(&cx, &node, MAY_COST_KIB).await?;
    // What the kernels hold can still be read; behind it must be the end.
    let silent = silent_from.elapsed();
    let read = connection.read_to_end(Duration::from_secs(10)).await;
    cx.record.fact("bytes left to read", read.bytes);
    ensure(read.closed, || {
        format!(
            "after {} s without reading, {} bytes more were written to it",
            silent.as_secs(),
            read.bytes
        )
    })?;
    let all = REQUESTS * STORED_BATCHES * VALUE_BYTES;
    ensure(read.bytes < all / 2, || {
        format!("it was served on and on: {} bytes", read.bytes)
    })?;
    honest.was_well(&cx).await
}
