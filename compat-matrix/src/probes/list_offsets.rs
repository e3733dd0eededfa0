//! ListOffsets (2).

use kafka_wire::{ApiKey, ErrorCode};
use serde_json::{Value as Json, json};

use super::Probe;
use super::case::{Api, Case};
use super::stage::Topic;
use crate::spec::{Stop, Verdict};

const NOW: i64 = 1_700_000_000_000;
const LATEST: i64 = -1;
const EARLIEST: i64 = -2;
const MAX_TIMESTAMP: i64 = -3;
const EARLIEST_LOCAL: i64 = -4;

pub(super) fn api() -> Api {
    Api {
        key: ApiKey::LIST_OFFSETS,
        sample: || request("not a topic", 0, LATEST),
        legal: &[
            ErrorCode::UnknownTopicOrPartition,
            ErrorCode::NotLeaderOrFollower,
            ErrorCode::LeaderNotAvailable,
            ErrorCode::ReplicaNotAvailable,
            ErrorCode::KafkaStorageError,
            ErrorCode::FencedLeaderEpoch,
            ErrorCode::UnknownLeaderEpoch,
            ErrorCode::OffsetNotAvailable,
            ErrorCode::UnsupportedForMessageFormat,
            ErrorCode::UnsupportedVersion,
            ErrorCode::InvalidRequest,
            ErrorCode::RequestTimedOut,
            ErrorCode::TopicAuthorizationFailed,
            ErrorCode::UnknownServerError,
        ],
        cases: cases(),
    }
}

fn request(topic: &str, partition: i32, timestamp: i64) -> Json {
    json!({
        "ReplicaId": -1,
        "TimeoutMs": 5_000,
        "Topics": [{"Name": topic, "Partitions": [{
            "PartitionIndex": partition,
            "CurrentLeaderEpoch": -1,
            "Timestamp": timestamp,
        }]}],
    })
}

fn one(expected: Json) -> Json {
    json!({"Topics": [{"Partitions": [expected]}]})
}

async fn finds(p: &Probe, topic: &Topic, timestamp: i64, offset: i64, at: i64) -> Verdict {
    p.ask(request(&topic.name, 0, timestamp))
        .await?
        .is(one(json!({
            "PartitionIndex": 0,
            "ErrorCode": "NONE",
            "Offset": offset,
            "Timestamp": at,
        })))
}

/// Ten records, one a millisecond, from [`NOW`] on.
async fn filled(p: &Probe) -> Result<Topic, Stop> {
    let topic = p.topic(1).await?;
    p.append(&topic, 0, 10, NOW).await?;
    Ok(topic)
}

fn cases() -> Vec<Case> {
    vec![
        Case::new("ends", "knows both ends of a log", |p| async move {
            let topic = filled(&p).await?;
            finds(&p, &topic, EARLIEST, 0, -1).await?;
            finds(&p, &topic, LATEST, 10, -1).await
        }),
        Case::new("empty", "knows the ends of an empty log", |p| async move {
            let topic = p.topic(1).await?;
            finds(&p, &topic, EARLIEST, 0, -1).await?;
            finds(&p, &topic, LATEST, 0, -1).await?;
            finds(&p, &topic, NOW, -1, -1).await
        }),
        Case::new(
            "by-time",
            "finds the first record of a time or later",
            |p| async move {
                let topic = filled(&p).await?;
                finds(&p, &topic, NOW - 1_000, 0, NOW).await?;
                finds(&p, &topic, NOW, 0, NOW).await?;
                finds(&p, &topic, NOW + 4, 4, NOW + 4).await?;
                finds(&p, &topic, NOW + 9, 9, NOW + 9).await?;
                finds(&p, &topic, NOW + 10, -1, -1).await
            },
        ),
        Case::new(
            "by-time-unordered",
            "finds the first in offset order when times go back",
            |p| async move {
                let topic = p.topic(1).await?;
                p.append(&topic, 0, 2, NOW + 1_000).await?;
                p.append(&topic, 0, 2, NOW).await?;
                finds(&p, &topic, NOW, 0, NOW + 1_000).await?;
                finds(&p, &topic, NOW + 1_001, 1, NOW + 1_001).await
            },
        ),
        Case::new(
            "max-timestamp",
            "finds the record with the greatest time",
            |p| async move {
                let topic = p.topic(1).await?;
                p.append(&topic, 0, 3, NOW + 1_000).await?;
                p.append(&topic, 0, 3, NOW).await?;
                finds(&p, &topic, MAX_TIMESTAMP, 2, NOW + 1_002).await
            },
        )
        .from(7)
        .kips(&[734]),
        Case::new(
            "earliest-local",
            "knows the first offset that is stored here",
            |p| async move {
                let topic = filled(&p).await?;
                p.ask(request(&topic.name, 0, EARLIEST_LOCAL))
                    .await?
                    .is(one(json!({"ErrorCode": "NONE", "Offset": 0})))
            },
        )
        .from(8)
        .kips(&[405]),
        Case::new(
            "committed",
            "answers the last stable offset when only committed records are wanted",
            |p| async move {
                let topic = filled(&p).await?;
                let mut request = request(&topic.name, 0, LATEST);
                request["IsolationLevel"] = json!(1);
                p.ask(request)
                    .await?
                    .is(one(json!({"ErrorCode": "NONE", "Offset": 10})))
            },
        )
        .from(2),
        Case::new(
            "unknown-partition",
            "refuses what is not there",
            |p| async move {
                let topic = p.topic(1).await?;
                for partition in [1, i32::MAX, -1] {
                    p.ask(request(&topic.name, partition, LATEST))
                        .await?
                        .is(one(
                            json!({"ErrorCode": "UNKNOWN_TOPIC_OR_PARTITION", "Offset": -1}),
                        ))?;
                }
                p.ask(request(&p.unique("nowhere"), 0, LATEST))
                    .await?
                    .is(one(json!({"ErrorCode": "UNKNOWN_TOPIC_OR_PARTITION"})))
            },
        ),
        Case::new(
            "no-topics",
            "answers an empty list with an empty list",
            |p| async move {
                p.ask(json!({"ReplicaId": -1, "Topics": []}))
                    .await?
                    .is(json!({"Topics": []}))
            },
        ),
    ]
}
