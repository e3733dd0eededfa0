//! CreatePartitions (37).

use std::time::Duration;

use kafka_wire::{ApiKey, ErrorCode};
use serde_json::{Value as Json, json};

use super::case::{Api, Case};

pub(super) fn api() -> Api {
    Api {
        key: ApiKey::CREATE_PARTITIONS,
        sample: || request("not a topic", 2),
        legal: &[
            ErrorCode::UnknownTopicOrPartition,
            ErrorCode::InvalidPartitions,
            ErrorCode::InvalidReplicaAssignment,
            ErrorCode::InvalidReplicationFactor,
            ErrorCode::InvalidTopicException,
            ErrorCode::InvalidRequest,
            ErrorCode::ReassignmentInProgress,
            ErrorCode::NotController,
            ErrorCode::RequestTimedOut,
            ErrorCode::ThrottlingQuotaExceeded,
            ErrorCode::TopicAuthorizationFailed,
            ErrorCode::ClusterAuthorizationFailed,
        ],
        cases: vec![
            Case::new("widens", "adds partitions to a topic", |p| async move {
                let topic = p.topic(1).await?;
                p.ask(request(&topic.name, 3)).await?.is(one("NONE"))?;
                p.until(Duration::from_secs(5), || async {
                    p.metadata(&topic.name)
                        .await?
                        .is(json!({"Topics": [{"Partitions": {"<count>": 3}}]}))
                })
                .await
            }),
            Case::new(
                "not-wider",
                "refuses to keep or narrow the width",
                |p| async move {
                    let topic = p.topic(2).await?;
                    for count in [2, 1, 0, -1] {
                        p.ask(request(&topic.name, count))
                            .await?
                            .is(one("INVALID_PARTITIONS"))?;
                    }
                    Ok(())
                },
            ),
            Case::new(
                "validate-only",
                "changes nothing when it only validates",
                |p| async move {
                    let topic = p.topic(1).await?;
                    let mut request = request(&topic.name, 3);
                    request["ValidateOnly"] = json!(true);
                    p.ask(request).await?.is(one("NONE"))?;
                    p.metadata(&topic.name)
                        .await?
                        .is(json!({"Topics": [{"Partitions": {"<count>": 1}}]}))
                },
            ),
            Case::new(
                "unknown-topic",
                "says that a topic is not there",
                |p| async move {
                    p.ask(request(&p.unique("nowhere"), 3))
                        .await?
                        .is(one("UNKNOWN_TOPIC_OR_PARTITION"))
                },
            ),
            Case::new(
                "none",
                "answers an empty list with an empty list",
                |p| async move {
                    p.ask(json!({"Topics": [], "TimeoutMs": 1_000}))
                        .await?
                        .is(json!({"Results": []}))
                },
            ),
        ],
    }
}

fn request(topic: &str, count: i32) -> Json {
    json!({
        "Topics": [{"Name": topic, "Count": count, "Assignments": null}],
        "TimeoutMs": 10_000,
    })
}

fn one(code: &str) -> Json {
    json!({"Results": [{"ErrorCode": code}]})
}
