//! OffsetForLeaderEpoch (23).

use kafka_wire::{ApiKey, ErrorCode};
use serde_json::{Value as Json, json};

use super::case::{Api, Case};

const NOW: i64 = 1_700_000_000_000;

pub(super) fn api() -> Api {
    Api {
        key: ApiKey::OFFSET_FOR_LEADER_EPOCH,
        sample: || request("not a topic", 0, 0),
        legal: &[
            ErrorCode::UnknownTopicOrPartition,
            ErrorCode::NotLeaderOrFollower,
            ErrorCode::FencedLeaderEpoch,
            ErrorCode::UnknownLeaderEpoch,
            ErrorCode::OffsetNotAvailable,
            ErrorCode::KafkaStorageError,
            ErrorCode::TopicAuthorizationFailed,
        ],
        cases: vec![
            Case::new(
                "current",
                "answers the end of the log for the epoch it leads in",
                |p| async move {
                    let topic = p.topic(1).await?;
                    p.append(&topic, 0, 5, NOW).await?;
                    let epoch = p
                        .metadata(&topic.name)
                        .await?
                        .int("Topics[0].Partitions[0].LeaderEpoch")?;
                    // A server that names no epoch has one all the same, the first.
                    let epoch = epoch.max(0);
                    p.ask(request(&topic.name, 0, epoch)).await?.is(one(json!({
                        "Partition": 0, "ErrorCode": "NONE", "EndOffset": 5,
                    })))
                },
            )
            .kips(&[101, 320]),
            Case::new("future", "knows nothing of a later epoch", |p| async move {
                let topic = p.topic(1).await?;
                p.ask(request(&topic.name, 0, 1_000_000))
                    .await?
                    .is(one(json!({
                        "ErrorCode": "NONE", "LeaderEpoch": -1, "EndOffset": -1,
                    })))
            }),
            Case::new(
                "unknown-partition",
                "refuses what is not there",
                |p| async move {
                    let topic = p.topic(1).await?;
                    for (name, partition) in [(topic.name, 9), (p.unique("nowhere"), 0)] {
                        p.ask(request(&name, partition, 0)).await?.is(one(json!({
                            "ErrorCode": "UNKNOWN_TOPIC_OR_PARTITION", "EndOffset": -1,
                        })))?;
                    }
                    Ok(())
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
        ],
    }
}

/// Replica -1 is a consumer.
fn request(topic: &str, partition: i32, epoch: i64) -> Json {
    json!({
        "ReplicaId": -1,
        "Topics": [{"Topic": topic, "Partitions": [{
            "Partition": partition, "CurrentLeaderEpoch": -1, "LeaderEpoch": epoch,
        }]}],
    })
}

fn one(expected: Json) -> Json {
    json!({"Topics": [{"Partitions": [expected]}]})
}
