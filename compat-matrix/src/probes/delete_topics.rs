//! DeleteTopics (20).

use std::time::Duration;

use kafka_wire::{ApiKey, ErrorCode};
use serde_json::{Value as Json, json};

use super::case::{Api, Case};

const NO_ID: &str = "AAAAAAAAAAAAAAAAAAAAAA";
const STRANGE_ID: &str = "_____________________w";

pub(super) fn api() -> Api {
    Api {
        key: ApiKey::DELETE_TOPICS,
        sample: || by_name("not a topic"),
        legal: &[
            ErrorCode::UnknownTopicOrPartition,
            ErrorCode::UnknownTopicId,
            ErrorCode::InvalidTopicException,
            ErrorCode::InvalidRequest,
            ErrorCode::NotController,
            ErrorCode::RequestTimedOut,
            ErrorCode::TopicDeletionDisabled,
            ErrorCode::ThrottlingQuotaExceeded,
            ErrorCode::TopicAuthorizationFailed,
            ErrorCode::ClusterAuthorizationFailed,
        ],
        cases: vec![
            Case::new("deletes", "deletes a topic", |p| async move {
                let topic = p.topic(1).await?;
                p.ask(by_name(&topic.name)).await?.is(json!({
                    "Responses": [{"Name": topic.name, "ErrorCode": "NONE", "ErrorMessage": null}],
                }))?;
                p.until(Duration::from_secs(10), || async {
                    p.metadata(&topic.name).await?.is(json!({
                        "Topics": [{"ErrorCode": "UNKNOWN_TOPIC_OR_PARTITION"}],
                    }))
                })
                .await
            }),
            Case::new("unknown", "says that a topic is not there", |p| async move {
                let name = p.unique("nowhere");
                p.ask(by_name(&name)).await?.is(json!({
                    "Responses": [{"Name": name, "ErrorCode": "UNKNOWN_TOPIC_OR_PARTITION"}],
                }))
            }),
            Case::new("twice", "refuses a topic that is asked for twice, once", |p| async move {
                let topic = p.topic(1).await?;
                let named = json!({"Name": topic.name});
                p.ask(json!({
                    "Topics": [named, named],
                    "TopicNames": [topic.name, topic.name],
                    "TimeoutMs": 10_000,
                }))
                .await?
                .is(json!({
                    "Responses": [{"Name": topic.name, "ErrorCode": "INVALID_REQUEST"}],
                }))?;
                p.metadata(&topic.name)
                    .await?
                    .is(json!({"Topics": [{"ErrorCode": "NONE"}]}))
            }),
            Case::new("none", "answers an empty list with an empty list", |p| async move {
                p.ask(json!({"Topics": [], "TopicNames": [], "TimeoutMs": 1_000}))
                    .await?
                    .is(json!({"Responses": []}))
            }),
            Case::new("by-id", "deletes a topic by its id", |p| async move {
                let topic = p.topic(1).await?;
                p.ask(json!({"Topics": [{"Name": null, "TopicId": topic.id}], "TimeoutMs": 10_000}))
                    .await?
                    .is(json!({"Responses": [{"TopicId": topic.id, "ErrorCode": "NONE"}]}))
            })
            .from(6)
            .kips(&[516]),
            Case::new("unknown-id", "says that an id is of no topic", |p| async move {
                p.ask(json!({"Topics": [{"Name": null, "TopicId": STRANGE_ID}], "TimeoutMs": 10_000}))
                    .await?
                    .is(json!({"Responses": [{"TopicId": STRANGE_ID, "ErrorCode": "UNKNOWN_TOPIC_ID"}]}))
            })
            .from(6)
            .kips(&[516]),
            Case::new("neither-or-both", "wants a name or an id, not neither or both", |p| async move {
                let topic = p.topic(1).await?;
                for wrong in [
                    json!({"Name": null, "TopicId": NO_ID}),
                    json!({"Name": topic.name, "TopicId": topic.id}),
                ] {
                    p.ask(json!({"Topics": [wrong], "TimeoutMs": 10_000}))
                        .await?
                        .is(json!({"Responses": [{"ErrorCode": "INVALID_REQUEST"}]}))?;
                }
                Ok(())
            })
            .from(6)
            .kips(&[516]),
        ],
    }
}

fn by_name(name: &str) -> Json {
    json!({"Topics": [{"Name": name}], "TopicNames": [name], "TimeoutMs": 10_000})
}
