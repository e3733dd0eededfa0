//! IncrementalAlterConfigs (44).

use kafka_wire::ApiKey;
use serde_json::{Value as Json, json};

use super::alter_configs::LEGAL;
use super::case::{Api, Case};
use super::configs::{TOPIC, config_is, set};

const SET: i8 = 0;
const DELETE: i8 = 1;
const APPEND: i8 = 2;

pub(super) fn api() -> Api {
    Api {
        key: ApiKey::INCREMENTAL_ALTER_CONFIGS,
        sample: || set(TOPIC, "not a topic", change("retention.ms", SET, Some("1000"))),
        legal: LEGAL,
        cases: vec![
            Case::new("sets", "sets one config and leaves the others", |p| async move {
                let topic = p.topic_with(1, json!([{"Name": "max.message.bytes", "Value": "500000"}])).await?;
                p.ask(set(TOPIC, &topic.name, change("retention.ms", SET, Some("7200000"))))
                    .await?
                    .is(json!({"Responses": [{"ErrorCode": "NONE", "ErrorMessage": null, "ResourceName": topic.name}]}))?;
                config_is(&p, &topic.name, "retention.ms", "7200000").await?;
                config_is(&p, &topic.name, "max.message.bytes", "500000").await
            })
            .kips(&[339]),
            Case::new("deletes", "puts a config back to its default", |p| async move {
                let topic = p.topic_with(1, json!([{"Name": "cleanup.policy", "Value": "compact"}])).await?;
                p.ask(set(TOPIC, &topic.name, change("cleanup.policy", DELETE, None)))
                    .await?
                    .is(json!({"Responses": [{"ErrorCode": "NONE"}]}))?;
                config_is(&p, &topic.name, "cleanup.policy", "delete").await
            })
            .kips(&[339]),
            Case::new("appends", "appends to a list", |p| async move {
                let topic = p.topic(1).await?;
                p.ask(set(TOPIC, &topic.name, change("cleanup.policy", APPEND, Some("compact"))))
                    .await?
                    .is(json!({"Responses": [{"ErrorCode": "NONE"}]}))?;
                config_is(&p, &topic.name, "cleanup.policy", "delete,compact").await
            })
            .kips(&[339]),
            Case::new("append-to-a-number", "appends to lists only", |p| async move {
                let topic = p.topic(1).await?;
                p.ask(set(TOPIC, &topic.name, change("retention.ms", APPEND, Some("1"))))
                    .await?
                    .is(json!({"Responses": [{"ErrorCode": "INVALID_CONFIG"}]}))
            }),
            Case::new("twice", "refuses a config that stands twice", |p| async move {
                let topic = p.topic(1).await?;
                let one = change("retention.ms", SET, Some("7200000"))[0].clone();
                p.ask(set(TOPIC, &topic.name, json!([one, one])))
                    .await?
                    .is(json!({"Responses": [{"ErrorCode": "INVALID_REQUEST"}]}))
            }),
            Case::new("unknown-operation", "refuses operations it does not know", |p| async move {
                let topic = p.topic(1).await?;
                p.ask(set(TOPIC, &topic.name, change("retention.ms", 9, Some("1"))))
                    .await?
                    .is(json!({"Responses": [{"ErrorCode": "INVALID_REQUEST"}]}))
            }),
            Case::new("unknown-topic", "says that a topic is not there", |p| async move {
                p.ask(set(TOPIC, &p.unique("nowhere"), change("retention.ms", SET, Some("1000"))))
                    .await?
                    .is(json!({"Responses": [{"ErrorCode": "UNKNOWN_TOPIC_OR_PARTITION"}]}))
            }),
            Case::new("none", "answers an empty list with an empty list", |p| async move {
                p.ask(json!({"Resources": []})).await?.is(json!({"Responses": []}))
            }),
        ],
    }
}

fn change(name: &str, operation: i8, value: Option<&str>) -> Json {
    json!([{"Name": name, "ConfigOperation": operation, "Value": value}])
}
