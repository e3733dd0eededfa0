//! Consumers that ask for everything of many partitions at the same time.

use std::time::Duration;

use futures::future::join_all;
use kafka_wire::ApiKey;
use kafka_wire::records::{BatchOptions, Record};
use serde_json::json;
use tokio::time::{Instant, sleep};

use super::honest::{Honest, Watch};
use crate::cx::Cx;
use crate::probes::{Probe, encode_batch};
use crate::spec::{Lane, Spec, Stop, Verdict, WIRE};
use crate::wire::{Access, Connection, Reply, advertised};

const CONSUMERS: usize = 50;
const PARTITIONS: i32 = 64;
/// Each partition's one record.
const VALUE_BYTES: usize = 256 * 1024;
/// What a consumer wants in one answer.
const MAX_BYTES: i32 = 8_000_000;
/// An answer with fewer bytes has no records worth the name.
const ENOUGH_BYTES: usize = 4_000_000;
/// When each must have had one answer with records.
const SERVED_WITHIN: Duration = Duration::from_secs(30);
/// What they may cost the node, in KiB. Unbounded, 50 answers of 16 MiB that are read as JSON, unpacked
/// and packed again have more than 2 GiB.
const MAY_COST_KIB: u64 = 720 * 1024;

pub(super) fn spec() -> Spec {
    Spec::new(
        "bad-input/wide-consumers",
        "Fifty consumers of everything at once are served for a bounded amount of memory",
        WIRE,
        run,
    )
    .apis([ApiKey::FETCH])
    .lane(Lane::OwnNode)
    .within(Duration::from_secs(60))
}

async fn run(cx: Cx) -> Verdict {
    let node = cx.own_node(&[]).await?;
    let windows = advertised(node.bootstrap()).await.map_err(Stop::fail)?;
    let probe = Probe::at(
        cx.clone(),
        node.bootstrap(),
        ApiKey::FETCH,
        4,
        windows.into(),
    );
    let topic = probe.topic(PARTITIONS).await?;
    let value = vec![b'x'; VALUE_BYTES];
    let record = Record {
        value: Some(&value),
        ..Record::default()
    };
    let batch = encode_batch(&[record], BatchOptions::default())?;
    for partition in 0..PARTITIONS {
        probe.append_batch(&topic, partition, &batch).await?;
    }
    let partitions = (0..PARTITIONS).map(
        |partition| json!({"Partition": partition, "FetchOffset": 0, "PartitionMaxBytes": 1 << 20}),
    );
    let frame = probe.request_frame(
        ApiKey::FETCH,
        4,
        &json!({
            "ReplicaId": -1,
            "MaxWaitMs": 500,
            "MinBytes": 1,
            "MaxBytes": MAX_BYTES,
            "Topics": [{"Topic": topic.name, "Partitions": partitions.collect::<Vec<_>>()}],
        }),
    )?;
    let honest = Honest::start(node.bootstrap()).await?;
    let watch = Watch::start(&node).await?;
    cx.record.seen(ApiKey::FETCH, 4);
    let consumers = (0..CONSUMERS).map(|_| consume(node.bootstrap(), &frame));
    let served = join_all(consumers).await.into_iter();
    let rounds = served.collect::<Result<Vec<u32>, Stop>>()?;
    cx.record
        .fact("answers without records", rounds.iter().sum::<u32>());
    watch.grew_at_most(&cx, &node, MAY_COST_KIB).await?;
    honest.was_well(&cx).await
}

/// Asks until records come, as consumers do; answers how often none came.
async fn consume(bootstrap: &Access, frame: &[u8]) -> Result<u32, Stop> {
    let began = Instant::now();
    let failed = |error: std::io::Error| Stop::fail(format!("a consumer failed: {error}"));
    let mut connection = Connection::open(bootstrap).await.map_err(failed)?;
    let mut without = 0;
    loop {
        connection.send(frame).await.map_err(failed)?;
        let left = SERVED_WITHIN.saturating_sub(began.elapsed());
        match connection.reply(left).await {
            Reply::Frame(answer) if answer.len() >= ENOUGH_BYTES => return Ok(without),
            Reply::Frame(_) => without += 1,
            other => {
                return Err(Stop::fail(format!(
                    "a consumer got no answer but {other:?}"
                )));
            }
        }
        sleep(Duration::from_millis(100)).await;
    }
}
