//! DescribeConfigs (32).

use kafka_wire::{ApiKey, ErrorCode};
use serde_json::{Value as Json, json};

use super::case::{Api, Case};
use super::configs::{BROKER, TOPIC, broker_name};

pub(super) fn api() -> Api {
    Api {
        key: ApiKey::DESCRIBE_CONFIGS,
        sample: || request(TOPIC, "not a topic", json!(["retention.ms"])),
        legal: &[
            ErrorCode::UnknownTopicOrPartition,
            ErrorCode::InvalidTopicException,
            ErrorCode::InvalidRequest,
            ErrorCode::TopicAuthorizationFailed,
            ErrorCode::ClusterAuthorizationFailed,
            ErrorCode::GroupIdNotFound,
        ],
        cases: vec![
            Case::new(
                "topic",
                "shows what a topic was made with",
                |p| async move {
                    let topic = p
                        .topic_with(1, json!([{"Name": "retention.ms", "Value": "3600000"}]))
                        .await?;
                    p.ask(request(TOPIC, &topic.name, json!(null))).await?.is(json!({"Results": [{
                    "ErrorCode": "NONE",
                    "ResourceType": TOPIC,
                    "ResourceName": topic.name,
                    "Configs": {
                        "<some>": {"Name": "retention.ms", "Value": "3600000", "ReadOnly": false, "IsSensitive": false},
                        "<each>": {"Name": "<not empty>"},
                    },
                }]}))
                },
            ),
            Case::new(
                "one-key",
                "shows only the configs asked for",
                |p| async move {
                    let topic = p.topic(1).await?;
                    p.ask(request(TOPIC, &topic.name, json!(["cleanup.policy"])))
                        .await?
                        .is(json!({"Results": [{
                            "ErrorCode": "NONE",
                            "Configs": [{"Name": "cleanup.policy", "Value": "delete"}],
                        }]}))
                },
            ),
            Case::new("broker", "shows a broker's configs", |p| async move {
                let broker = broker_name(&p).await?;
                p.ask(request(BROKER, &broker, json!(null)))
                    .await?
                    .is(json!({"Results": [{
                        "ErrorCode": "NONE", "ResourceName": broker, "Configs": "<not empty>",
                    }]}))
            }),
            Case::new(
                "unknown-topic",
                "says that a topic is not there",
                |p| async move {
                    p.ask(request(TOPIC, &p.unique("nowhere"), json!(null)))
                        .await?
                        .is(json!({"Results": [{
                            "ErrorCode": "UNKNOWN_TOPIC_OR_PARTITION", "Configs": [],
                        }]}))
                },
            ),
            Case::new(
                "unknown-kind",
                "refuses kinds of resource it does not know",
                |p| async move {
                    p.ask(request(99, "x", json!(null)))
                        .await?
                        .is(json!({"Results": [{"ErrorCode": "INVALID_REQUEST"}]}))
                },
            ),
            Case::new(
                "none",
                "answers an empty list with an empty list",
                |p| async move {
                    p.ask(json!({"Resources": []}))
                        .await?
                        .is(json!({"Results": []}))
                },
            ),
        ],
    }
}

fn request(kind: i8, name: &str, keys: Json) -> Json {
    json!({"Resources": [{"ResourceType": kind, "ResourceName": name, "ConfigurationKeys": keys}]})
}
