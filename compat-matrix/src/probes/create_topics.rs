//! CreateTopics (19).

use std::time::Duration;

use kafka_wire::{ApiKey, ErrorCode};
use serde_json::{Value as Json, json};

use super::Probe;
use super::case::{Api, Case};

pub(super) fn api() -> Api {
    Api {
        key: ApiKey::CREATE_TOPICS,
        sample: || {
            json!({
                "Topics": [{
                    "Name": "not a topic",
                    "NumPartitions": 1,
                    "ReplicationFactor": 1,
                    "Configs": [{"Name": "retention.ms", "Value": "1000"}],
                }],
                "timeoutMs": 1_000,
                "validateOnly": true,
            })
        },
        legal: &[
            ErrorCode::TopicAlreadyExists,
            ErrorCode::InvalidTopicException,
            ErrorCode::InvalidPartitions,
            ErrorCode::InvalidReplicationFactor,
            ErrorCode::InvalidReplicaAssignment,
            ErrorCode::InvalidConfig,
            ErrorCode::InvalidRequest,
            ErrorCode::NotController,
            ErrorCode::PolicyViolation,
            ErrorCode::RequestTimedOut,
            ErrorCode::ThrottlingQuotaExceeded,
            ErrorCode::TopicAuthorizationFailed,
            ErrorCode::ClusterAuthorizationFailed,
        ],
        cases: cases(),
    }
}

fn request(topics: Json) -> Json {
    json!({"Topics": topics, "timeoutMs": 10_000})
}

/// A name that is deleted at the end of the run if it came to be.
fn fresh(p: &Probe) -> String {
    let name = p.unique("created");
    p.cx.target.remember_topic(&name);
    name
}

fn cases() -> Vec<Case> {
    vec![
        Case::new(
            "creates",
            "makes a topic as wide as asked",
            |p| async move {
                let name = fresh(&p);
                p.ask(request(
                    json!([{"Name": name, "NumPartitions": 3, "ReplicationFactor": 1}]),
                ))
                .await?
                .is(json!({
                    "Topics": [{
                        "Name": name,
                        "TopicId": "<not empty>",
                        "ErrorCode": "NONE",
                        "ErrorMessage": null,
                        "NumPartitions": 3,
                        "ReplicationFactor": 1,
                        "Configs": "<not empty>",
                    }],
                }))?;
                p.until(Duration::from_secs(5), || async {
                    p.metadata(&name).await?.is(json!({
                        "Topics": [{"ErrorCode": "NONE", "Partitions": {"<count>": 3}}],
                    }))
                })
                .await
            },
        ),
        Case::new(
            "defaults",
            "chooses width and replication itself",
            |p| async move {
                let name = fresh(&p);
                p.ask(request(
                    json!([{"Name": name, "NumPartitions": -1, "ReplicationFactor": -1}]),
                ))
                .await?
                .is(json!({"Topics": [{"ErrorCode": "NONE", "NumPartitions": "<at least 1>"}]}))
            },
        )
        .from(4)
        .kips(&[464]),
        Case::new(
            "exists",
            "does not touch a topic that exists",
            |p| async move {
                let topic = p.topic(1).await?;
                p.ask(request(json!([{"Name": topic.name, "NumPartitions": 5, "ReplicationFactor": 1}])))
                .await?
                .is(json!({"Topics": [{"ErrorCode": "TOPIC_ALREADY_EXISTS", "ErrorMessage": "<not empty>"}]}))?;
                p.metadata(&topic.name)
                    .await?
                    .is(json!({"Topics": [{"Partitions": {"<count>": 1}}]}))
            },
        ),
        Case::new(
            "validate-only",
            "makes nothing when it only validates",
            |p| async move {
                let name = fresh(&p);
                let mut only =
                    request(json!([{"Name": name, "NumPartitions": 1, "ReplicationFactor": 1}]));
                only["validateOnly"] = json!(true);
                p.ask(only)
                    .await?
                    .is(json!({"Topics": [{"ErrorCode": "NONE"}]}))?;
                p.metadata(&name).await?.is(json!({
                    "Topics": [{"ErrorCode": "UNKNOWN_TOPIC_OR_PARTITION"}],
                }))
            },
        ),
        Case::new(
            "no-topics",
            "answers an empty list with an empty list",
            |p| async move { p.ask(request(json!([]))).await?.is(json!({"Topics": []})) },
        ),
        Case::new(
            "twice",
            "refuses a name that stands twice in a request",
            |p| async move {
                let name = fresh(&p);
                let topic = json!({"Name": name, "NumPartitions": 1, "ReplicationFactor": 1});
                p.ask(request(json!([topic, topic]))).await?.is(json!({
                "Topics": {"<each>": {"Name": name, "ErrorCode": "INVALID_REQUEST"}, "<some>": {"Name": name}},
            }))
            },
        ),
        Case::new(
            "illegal-names",
            "refuses names that no topic can have",
            |p| async move {
                let long = "x".repeat(250);
                for name in ["a b", "", ".", "..", "ä", &long] {
                    p.ask(request(
                        json!([{"Name": name, "NumPartitions": 1, "ReplicationFactor": 1}]),
                    ))
                    .await?
                    .is(json!({"Topics": [{"ErrorCode": "INVALID_TOPIC_EXCEPTION"}]}))?;
                }
                Ok(())
            },
        ),
        Case::new(
            "illegal-width",
            "refuses widths that cannot be",
            |p| async move {
                for width in [0, -2] {
                    p.ask(request(json!([{"Name": p.unique("x"), "NumPartitions": width, "ReplicationFactor": 1}])))
                    .await?
                    .is(json!({"Topics": [{"ErrorCode": "INVALID_PARTITIONS"}]}))?;
                }
                Ok(())
            },
        ),
        Case::new(
            "replication",
            "refuses more replicas than there are brokers, or says how many it made",
            |p| async move {
                let name = fresh(&p);
                let topic = json!({"Name": name, "NumPartitions": 1, "ReplicationFactor": 1_000});
                let answer = p.ask(request(json!([topic]))).await?;
                answer.is(json!({"Topics": [{
                    "ErrorCode": "INVALID_REPLICATION_FACTOR | NONE",
                }]}))?;
                p.cx.record.fact(
                    "asked for 1,000 replicas",
                    answer.first_code().unwrap_or("NONE".into()),
                );
                if answer.first_code().is_some() {
                    return Ok(());
                }
                let brokers = p.metadata(&name).await?.at("Brokers")?.list().len();
                answer.is(json!({"Topics": [{"ReplicationFactor": brokers}]}))
            },
        ),
        Case::new(
            "illegal-config",
            "refuses configs that do not exist or cannot be",
            |p| async move {
                for (name, value) in [("no.such.config", "1"), ("retention.ms", "soon")] {
                    p.ask(request(json!([{
                        "Name": p.unique("x"),
                        "NumPartitions": 1,
                        "ReplicationFactor": 1,
                        "Configs": [{"Name": name, "Value": value}],
                    }])))
                    .await?
                    .is(json!({"Topics": [{"ErrorCode": "INVALID_CONFIG"}]}))?;
                }
                Ok(())
            },
        ),
    ]
}
