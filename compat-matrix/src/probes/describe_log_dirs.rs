//! DescribeLogDirs (35).

use kafka_wire::{ApiKey, ErrorCode};
use serde_json::json;

use super::case::{Api, Case};

pub(super) fn api() -> Api {
    Api {
        key: ApiKey::DESCRIBE_LOG_DIRS,
        sample: || json!({"Topics": [{"Topic": "not a topic", "Partitions": [0]}]}),
        legal: &[ErrorCode::KafkaStorageError, ErrorCode::ClusterAuthorizationFailed],
        cases: vec![
            Case::new("topic", "shows where a topic's partitions are stored", |p| async move {
                let topic = p.topic(2).await?;
                p.append(&topic, 0, 10, 0).await?;
                p.ask(json!({"Topics": [{"Topic": topic.name, "Partitions": [0, 1]}]})).await?.is(json!({
                    "ErrorCode": "NONE",
                    "Results": {"<some>": {
                        "ErrorCode": "NONE",
                        "LogDir": "<not empty>",
                        "Topics": [{"Name": topic.name, "Partitions": {
                            "<count>": 2,
                            "<each>": {"PartitionSize": "<at least 0>", "OffsetLag": "<at least 0>", "IsFutureKey": false},
                            "<some>": {"PartitionIndex": 0, "PartitionSize": "<at least 1>"},
                        }}],
                    }},
                }))
            })
            .kips(&[113]),
            Case::new("all", "shows every partition", |p| async move {
                let topic = p.topic(1).await?;
                p.ask(json!({"Topics": null})).await?.is(json!({
                    "Results": {"<some>": {"Topics": {"<some>": {"Name": topic.name}}}},
                }))
            }),
            Case::new("unknown", "shows nothing of what is not there", |p| async move {
                p.ask(json!({"Topics": [{"Topic": p.unique("nowhere"), "Partitions": [0]}]})).await?.is(json!({
                    "ErrorCode": "NONE",
                    "Results": {"<each>": {"Topics": []}},
                }))
            }),
        ],
    }
}
