//! What the three config APIs share.

use serde_json::{Value as Json, json};

use super::Probe;
use crate::spec::{Stop, Verdict};
use kafka_wire::ApiKey;

/// Resource type of a topic.
pub(super) const TOPIC: i8 = 2;
/// Resource type of a broker.
pub(super) const BROKER: i8 = 4;

/// Demands that a topic's config has this value.
pub(super) async fn config_is(p: &Probe, topic: &str, name: &str, value: &str) -> Verdict {
    p.until(std::time::Duration::from_secs(5), || async {
        p.stage(
            ApiKey::DESCRIBE_CONFIGS,
            json!({"Resources": [{
                "ResourceType": TOPIC, "ResourceName": topic, "ConfigurationKeys": [name],
            }]}),
        )
        .await?
        .is(json!({"Results": [{"ErrorCode": "NONE", "Configs": [{"Name": name, "Value": value}]}]}))
    })
    .await
}

/// The id of some broker, as the config APIs name it.
pub(super) async fn broker_name(p: &Probe) -> Result<String, Stop> {
    let answer = p
        .stage(
            ApiKey::METADATA,
            json!({"Topics": [], "AllowAutoTopicCreation": false}),
        )
        .await?;
    Ok(answer.int("Brokers[0].NodeId")?.to_string())
}

/// A resource with configs to set.
pub(super) fn set(kind: i8, name: &str, configs: Json) -> Json {
    json!({"Resources": [{"ResourceType": kind, "ResourceName": name, "Configs": configs}]})
}
