//! DescribeLogDirs (35).

use std::time::Duration;

use kafka_wire::{ApiKey, ErrorCode};
use serde_json::json;

use super::case::{Api, Case};

/// When a new partition must be shown.
const SHOWN_WITHIN: Duration = Duration::from_secs(5);

pub(super) fn api() -> Api {
    Api {
        key: ApiKey::DESCRIBE_LOG_DIRS,
        sample: || json!({"Topics": [{"Topic": "not a topic", "Partitions": [0]}]}),
        legal: &[
            ErrorCode::KafkaStorageError,
            ErrorCode::ClusterAuthorizationFailed,
        ],
        cases: vec![
            Case::new(
                "topic",
                "shows where a topic's partitions are stored",
                |p| async move {
                    let topic = p.topic(2).await?;
                    p.append(&topic, 0, 10, 0).await?;
                    let answer = p
                        .ask_until(
                            json!({"Topics": [{"Topic": topic.name, "Partitions": [0, 1]}]}),
                            json!({
                                "ErrorCode": "NONE",
                                "Results": {"<some>": {
                                    "ErrorCode": "NONE",
                                    "LogDir": "<not empty>",
                                    "Topics": [{"Name": topic.name, "Partitions": {
                                        "<count>": 2,
                                        "<each>": {
                                            "PartitionSize": "<at least 0>",
                                            "OffsetLag": "<at least 0>",
                                            "IsFutureKey": false,
                                        },
                                        "<some>": {"PartitionIndex": 0},
                                    }}],
                                }},
                            }),
                            SHOWN_WITHIN,
                        )
                        .await?;
                    // A server over another store may not know sizes; it still says where things are.
                    let size = answer.int("Results[0].Topics[0].Partitions[0].PartitionSize");
                    p.cx.record.fact("bytes that 10 records take", size.ok());
                    Ok(())
                },
            )
            .kips(&[113]),
            Case::new("all", "shows every partition", |p| async move {
                let topic = p.topic(1).await?;
                p.ask_until(
                    json!({"Topics": null}),
                    json!({"Results": {"<some>": {"Topics": {"<some>": {"Name": topic.name}}}}}),
                    SHOWN_WITHIN,
                )
                .await
                .map(|_| ())
            }),
            Case::new(
                "unknown",
                "shows nothing of what is not there",
                |p| async move {
                    p.ask(json!({"Topics": [{"Topic": p.unique("nowhere"), "Partitions": [0]}]}))
                        .await?
                        .is(json!({
                            "ErrorCode": "NONE",
                            "Results": {"<each>": {"Topics": []}},
                        }))
                },
            ),
        ],
    }
}
