//! DescribeTopicPartitions (75).

use kafka_wire::{ApiKey, ErrorCode};
use serde_json::{Value as Json, json};

use super::case::{Api, Case};

pub(super) fn api() -> Api {
    Api {
        key: ApiKey::DESCRIBE_TOPIC_PARTITIONS,
        sample: || request("not a topic", 100),
        legal: &[
            ErrorCode::UnknownTopicOrPartition,
            ErrorCode::InvalidTopicException,
            ErrorCode::InvalidRequest,
            ErrorCode::TopicAuthorizationFailed,
        ],
        cases: vec![
            Case::new("topic", "describes a topic and its partitions", |p| async move {
                let topic = p.topic(3).await?;
                p.ask(request(&topic.name, 100)).await?.is(json!({
                    "Topics": [{
                        "ErrorCode": "NONE",
                        "Name": topic.name,
                        "TopicId": topic.id,
                        "IsInternal": false,
                        "Partitions": {
                            "<count>": 3,
                            "<each>": {"ErrorCode": "NONE", "LeaderId": "<at least 0>", "ReplicaNodes": "<not empty>"},
                        },
                    }],
                    "NextCursor": null,
                }))
            })
            .kips(&[966]),
            Case::new("pages", "goes on where a full page ended", |p| async move {
                let topic = p.topic(3).await?;
                let mut request = request(&topic.name, 2);
                p.ask(request.clone()).await?.is(json!({
                    "Topics": [{"Partitions": [{"PartitionIndex": 0}, {"PartitionIndex": 1}]}],
                    "NextCursor": {"TopicName": topic.name, "PartitionIndex": 2},
                }))?;
                request["Cursor"] = json!({"TopicName": topic.name, "PartitionIndex": 2});
                p.ask(request).await?.is(json!({
                    "Topics": [{"Partitions": [{"PartitionIndex": 2}]}],
                    "NextCursor": null,
                }))
            })
            .kips(&[966]),
            Case::new("unknown-topic", "says that a topic is not there", |p| async move {
                let name = p.unique("nowhere");
                p.ask(request(&name, 100)).await?.is(json!({
                    "Topics": [{"ErrorCode": "UNKNOWN_TOPIC_OR_PARTITION", "Name": name, "Partitions": []}],
                }))
            }),
        ],
    }
}

fn request(topic: &str, limit: i32) -> Json {
    json!({"Topics": [{"Name": topic}], "ResponsePartitionLimit": limit, "Cursor": null})
}
