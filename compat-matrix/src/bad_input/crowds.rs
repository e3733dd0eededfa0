//! Crowds that ask for the largest answers there are and read none of them, or a byte now and then.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use kafka_wire::ApiKey;
use kafka_wire::records::{BatchOptions, Record};
use serde_json::json;
use tokio::task::JoinSet;
use tokio::time::{Instant, sleep};

use super::frames::random_bytes;
use super::honest::{Honest, REQUEST, Watch};
use crate::cx::Cx;
use crate::probes::{Probe, encode_batch};
use crate::spec::{Lane, Spec, Stop, Verdict, WIRE, ensure};
use crate::target::Node;
use crate::wire::{Access, Connection, advertised};

/// Of each kind: half asks for records, half for metadata.
const CROWD: usize = 64;
/// How long they are at it.
const ATTACK: Duration = Duration::from_secs(4);
/// Stored before: 8 MiB, and a Fetch asks for all of it.
const STORED_BATCHES: usize = 16;
const VALUE_BYTES: usize = 512 * 1024;
/// A Metadata answer for these has 13 MB.
const WIDE_TOPICS: usize = 5;
const WIDE_PARTITIONS: i32 = 100_000;
/// Requests of one member of the crowd, sent without a look at the answers.
const REQUESTS: usize = 10;
/// What who reads little reads at a time, and how often: 10 KiB/s.
const SIP_BYTES: usize = 2 * 1024;
const SIPS_EVERY: Duration = Duration::from_millis(200);
/// What the honest neighbours may wait.
const SERVED_WITHIN: Duration = Duration::from_secs(1);
/// How many times the calm time of an answer comes on top.
const BUSY: u32 = 10;
/// What the crowd may cost the node, in KiB: its budget of 512 MiB, and some air. Unbounded, its
/// first answers alone would have 600 MiB and take ten times as much to build.
const MAY_COST_KIB: u64 = 640 * 1024;

/// How the node's log names the reason.
const KEPT_MEMORY: &str = "kept memory that others waited for";

/// How a member of the crowd reads.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Reads {
    Nothing,
    AByteNowAndThen,
}

pub(super) fn specs() -> Vec<Spec> {
    let spec = |id: &str, title: &str, reads: Reads| {
        Spec::new(id, title, WIRE, move |cx| run(cx, reads))
            .apis([ApiKey::FETCH, ApiKey::METADATA])
            .lane(Lane::Alone)
            .within(Duration::from_secs(60))
    };
    vec![
        spec(
            "bad-input/silent-crowd",
            "Sixty-four clients that read nothing of large answers keep nobody waiting, and cost a \
             bounded amount",
            Reads::Nothing,
        ),
        spec(
            "bad-input/trickling-crowd",
            "Sixty-four clients that read a byte now and then keep nobody waiting either",
            Reads::AByteNowAndThen,
        ),
    ]
}

async fn run(cx: Cx, reads: Reads) -> Verdict {
    let node = cx.own_node(&[]).await?;
    let (fetch, metadata) = stage(&cx, &node).await?;
    let ask = medium_fetch(&fetch.probe, &fetch.topic)?;
    let calm_client = Honest::calm(&cx, node.bootstrap(), "client", REQUEST).await?;
    let calm_consumer = Honest::calm(&cx, node.bootstrap(), "consumer", &ask).await?;
    let honest = Honest::start(node.bootstrap()).await?;
    let consumer = Honest::asking(node.bootstrap(), &ask).await?;
    let watch = Watch::start(&node).await?;
    let ended = Arc::new(AtomicU64::new(0));
    let mut crowd = JoinSet::new();
    for at in 0..CROWD {
        let frame = if at % 2 == 0 { &fetch.frame } else { &metadata };
        let (frame, ended) = (frame.clone(), Arc::clone(&ended));
        let bootstrap = node.bootstrap().to_owned();
        crowd.spawn(async move { misbehave(&bootstrap, &frame, reads, &ended).await });
    }
    sleep(ATTACK).await;
    crowd.shutdown().await;
    let ended = ended.load(Ordering::Relaxed);
    cx.record
        .fact("connections of the crowd that were ended", ended);
    cx.record.seen(ApiKey::FETCH, 4);
    // The crowd keeps the processors busy too.
    let limit = |calm: Duration| SERVED_WITHIN + BUSY * calm;
    let consumer = consumer.was_served_within(&cx, "consumer", limit(calm_consumer));
    let consumer = consumer.await;
    let honest = honest.was_served_within(&cx, "client", limit(calm_client));
    honest.await.and(consumer)?;
    watch.grew_at_most(&cx, &node, MAY_COST_KIB).await?;
    ensure(ended > 0 || says_who_was_ended(&node), || {
        "nobody of the crowd was ended: it did not spend the memory that it was to spend".into()
    })
}

struct Fetch {
    probe: Probe,
    topic: String,
    frame: Vec<u8>,
}

/// Stores what the crowd asks for; answers both requests.
async fn stage(cx: &Cx, node: &Node) -> Result<(Fetch, Vec<u8>), Stop> {
    let windows = advertised(node.bootstrap()).await.map_err(Stop::fail)?;
    let probe = Probe::at(
        cx.clone(),
        node.bootstrap(),
        ApiKey::FETCH,
        4,
        windows.into(),
    );
    let topic = probe.topic(1).await?;
    for seed in 1..=STORED_BATCHES {
        // Queen counts compressed bytes: what shrinks to nothing would be read whole each time.
        let value = random_bytes(seed as u64, VALUE_BYTES);
        let record = Record {
            value: Some(&value),
            ..Record::default()
        };
        let batch = encode_batch(&[record], BatchOptions::default())?;
        probe.append_batch(&topic, 0, &batch).await?;
    }
    let names: Vec<String> = (0..WIDE_TOPICS).map(|_| cx.unique("wide")).collect();
    let wide = names.iter().map(
        |name| json!({"Name": name, "NumPartitions": WIDE_PARTITIONS, "ReplicationFactor": 1}),
    );
    let wide: Vec<_> = wide.collect();
    let created = probe
        .stage(
            ApiKey::CREATE_TOPICS,
            json!({"Topics": wide, "timeoutMs": 10_000}),
        )
        .await?;
    created.is(json!({"Topics": {"<each>": {"ErrorCode": "NONE"}}}))?;
    let all: Vec<_> = names.iter().map(|name| json!({"Name": name})).collect();
    let metadata = probe.request_frame(ApiKey::METADATA, 4, &json!({"Topics": all}))?;
    let frame = fetch_frame(&probe, &topic.name, 50_000_000)?;
    let topic = topic.name;
    Ok((
        Fetch {
            probe,
            topic,
            frame,
        },
        metadata,
    ))
}

/// One record of the topic: the answer of an ordinary consumer.
fn medium_fetch(probe: &Probe, topic: &str) -> Result<Vec<u8>, Stop> {
    fetch_frame(probe, topic, VALUE_BYTES + 1_000)
}

fn fetch_frame(probe: &Probe, topic: &str, bytes: usize) -> Result<Vec<u8>, Stop> {
    probe.request_frame(
        ApiKey::FETCH,
        4,
        &json!({
            "ReplicaId": -1,
            "MaxWaitMs": 100,
            "MinBytes": 1,
            "MaxBytes": bytes,
            "Topics": [{"Topic": topic, "Partitions": [{
                "Partition": 0, "FetchOffset": 0, "PartitionMaxBytes": bytes,
            }]}],
        }),
    )
}

/// Reads a little, or finds out without reading whether the connection is still there: by a byte of
/// what would be one more request.
async fn sip(connection: &mut Connection, reads: Reads) -> std::io::Result<bool> {
    match reads {
        Reads::Nothing => connection.send_raw(&[0]).await.map(|()| true),
        Reads::AByteNowAndThen => connection.read_some(SIP_BYTES).await.map(|read| read > 0),
    }
}

/// Asks and does not read, again whenever it is ended.
/// Whether the node's log tells of a connection that it ended for the memory it kept. Who reads a byte
/// now and then sees the end of its connection only behind everything the kernels hold for it.
fn says_who_was_ended(node: &Node) -> bool {
    let log = node.log_path().map(std::fs::read_to_string);
    log.is_some_and(|log| log.is_ok_and(|log| log.contains(KEPT_MEMORY)))
}

async fn misbehave(bootstrap: &Access, frame: &[u8], reads: Reads, ended: &AtomicU64) {
    loop {
        let began = Instant::now();
        let opened = match reads {
            Reads::Nothing => Connection::open(bootstrap).await,
            Reads::AByteNowAndThen => Connection::open_narrow(bootstrap, SIP_BYTES).await,
        };
        if let Ok(mut connection) = opened {
            for _ in 0..REQUESTS {
                // Once it is ended, it is ended.
                if connection.send(frame).await.is_err() {
                    break;
                }
            }
            // It ends when the other side ends it.
            while let Ok(true) = sip(&mut connection, reads).await {
                sleep(SIPS_EVERY).await;
            }
            ended.fetch_add(1, Ordering::Relaxed);
        }
        // It is a crowd, not a flood of connections.
        sleep(Duration::from_millis(100).saturating_sub(began.elapsed())).await;
    }
}
