//! AlterConfigs (33): what is not named goes back to its default.

use kafka_wire::{ApiKey, ErrorCode};
use serde_json::json;

use super::case::{Api, Case};
use super::configs::{TOPIC, config_is, set};

pub(super) fn api() -> Api {
    Api {
        key: ApiKey::ALTER_CONFIGS,
        sample: || {
            set(
                TOPIC,
                "not a topic",
                json!([{"Name": "retention.ms", "Value": "1000"}]),
            )
        },
        legal: LEGAL,
        cases: vec![
            Case::new("sets", "sets a topic's config", |p| async move {
                let topic = p.topic(1).await?;
                p.ask(set(TOPIC, &topic.name, json!([{"Name": "retention.ms", "Value": "7200000"}])))
                    .await?
                    .is(json!({"Responses": [{"ErrorCode": "NONE", "ResourceType": TOPIC, "ResourceName": topic.name}]}))?;
                config_is(&p, &topic.name, "retention.ms", "7200000").await
            }),
            Case::new(
                "validate-only",
                "changes nothing when it only validates",
                |p| async move {
                    let topic = p
                        .topic_with(1, json!([{"Name": "retention.ms", "Value": "3600000"}]))
                        .await?;
                    let mut request = set(
                        TOPIC,
                        &topic.name,
                        json!([{"Name": "retention.ms", "Value": "7200000"}]),
                    );
                    request["ValidateOnly"] = json!(true);
                    p.ask(request)
                        .await?
                        .is(json!({"Responses": [{"ErrorCode": "NONE"}]}))?;
                    config_is(&p, &topic.name, "retention.ms", "3600000").await
                },
            ),
            Case::new(
                "illegal",
                "refuses configs that do not exist or cannot be",
                |p| async move {
                    let topic = p.topic(1).await?;
                    for (name, value) in [("no.such.config", "1"), ("retention.ms", "soon")] {
                        p.ask(set(
                            TOPIC,
                            &topic.name,
                            json!([{"Name": name, "Value": value}]),
                        ))
                        .await?
                        .is(json!({"Responses": [{"ErrorCode": "INVALID_CONFIG"}]}))?;
                    }
                    Ok(())
                },
            ),
            Case::new(
                "unknown-topic",
                "says that a topic is not there",
                |p| async move {
                    p.ask(set(
                        TOPIC,
                        &p.unique("nowhere"),
                        json!([{"Name": "retention.ms", "Value": "1000"}]),
                    ))
                    .await?
                    .is(json!({"Responses": [{"ErrorCode": "UNKNOWN_TOPIC_OR_PARTITION"}]}))
                },
            ),
            Case::new(
                "none",
                "answers an empty list with an empty list",
                |p| async move {
                    p.ask(json!({"Resources": []}))
                        .await?
                        .is(json!({"Responses": []}))
                },
            ),
        ],
    }
}

pub(super) const LEGAL: &[ErrorCode] = &[
    ErrorCode::UnknownTopicOrPartition,
    ErrorCode::InvalidTopicException,
    ErrorCode::InvalidConfig,
    ErrorCode::InvalidRequest,
    ErrorCode::PolicyViolation,
    ErrorCode::NotController,
    ErrorCode::RequestTimedOut,
    ErrorCode::TopicAuthorizationFailed,
    ErrorCode::ClusterAuthorizationFailed,
];
