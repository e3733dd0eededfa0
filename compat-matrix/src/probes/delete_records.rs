//! DeleteRecords (21).

use kafka_wire::{ApiKey, ErrorCode};
use serde_json::{Value as Json, json};

use super::Probe;
use super::case::{Api, Case};
use super::stage::Topic;
use crate::spec::{Stop, Verdict};

const NOW: i64 = 1_700_000_000_000;

pub(super) fn api() -> Api {
    Api {
        key: ApiKey::DELETE_RECORDS,
        sample: || request("not a topic", 0, 0),
        legal: &[
            ErrorCode::UnknownTopicOrPartition,
            ErrorCode::OffsetOutOfRange,
            ErrorCode::NotLeaderOrFollower,
            ErrorCode::PolicyViolation,
            ErrorCode::RequestTimedOut,
            ErrorCode::TopicAuthorizationFailed,
        ],
        cases: vec![
            Case::new("deletes", "moves the start of the log", |p| async move {
                let topic = filled(&p).await?;
                p.ask(request(&topic.name, 0, 2)).await?.is(one(json!({
                    "PartitionIndex": 0, "LowWatermark": 2, "ErrorCode": "NONE",
                })))?;
                starts_at(&p, &topic, 2).await?;
                // What is deleted already is no error and brings nothing back.
                p.ask(request(&topic.name, 0, 1))
                    .await?
                    .is(one(json!({"LowWatermark": 2, "ErrorCode": "NONE"})))
            }),
            Case::new(
                "all",
                "deletes up to the end when asked for -1",
                |p| async move {
                    let topic = filled(&p).await?;
                    p.ask(request(&topic.name, 0, -1))
                        .await?
                        .is(one(json!({"LowWatermark": 5, "ErrorCode": "NONE"})))?;
                    starts_at(&p, &topic, 5).await
                },
            ),
            Case::new(
                "out-of-range",
                "refuses offsets behind the end",
                |p| async move {
                    let topic = filled(&p).await?;
                    for offset in [6, i64::MAX, -2] {
                        p.ask(request(&topic.name, 0, offset))
                            .await?
                            .is(one(json!({"ErrorCode": "OFFSET_OUT_OF_RANGE"})))?;
                    }
                    starts_at(&p, &topic, 0).await
                },
            ),
            Case::new(
                "unknown-partition",
                "refuses what is not there",
                |p| async move {
                    let topic = filled(&p).await?;
                    p.ask(request(&topic.name, 9, 0)).await?.is(one(
                        json!({"ErrorCode": "UNKNOWN_TOPIC_OR_PARTITION", "LowWatermark": -1}),
                    ))?;
                    p.ask(request(&p.unique("nowhere"), 0, 0))
                        .await?
                        .is(one(json!({"ErrorCode": "UNKNOWN_TOPIC_OR_PARTITION"})))
                },
            ),
            Case::new(
                "no-topics",
                "answers an empty list with an empty list",
                |p| async move {
                    p.ask(json!({"Topics": [], "TimeoutMs": 1_000}))
                        .await?
                        .is(json!({"Topics": []}))
                },
            ),
        ],
    }
}

fn request(topic: &str, partition: i32, offset: i64) -> Json {
    json!({
        "Topics": [{"Name": topic, "Partitions": [{"PartitionIndex": partition, "Offset": offset}]}],
        "TimeoutMs": 10_000,
    })
}

fn one(expected: Json) -> Json {
    json!({"Topics": [{"Partitions": [expected]}]})
}

async fn filled(p: &Probe) -> Result<Topic, Stop> {
    let topic = p.topic(1).await?;
    p.append(&topic, 0, 5, NOW).await?;
    Ok(topic)
}

async fn starts_at(p: &Probe, topic: &Topic, offset: i64) -> Verdict {
    let route = p.route().await;
    p.stage_at(
        &route,
        ApiKey::LIST_OFFSETS,
        json!({
            "ReplicaId": -1,
            "Topics": [{"Name": topic.name, "Partitions": [{
                "PartitionIndex": 0, "CurrentLeaderEpoch": -1, "Timestamp": -2,
            }]}],
        }),
    )
    .await?
    .is(json!({"Topics": [{"Partitions": [{"ErrorCode": "NONE", "Offset": offset}]}]}))
}
