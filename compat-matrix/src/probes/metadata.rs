//! Metadata (3).

use std::time::Duration;

use kafka_wire::{ApiKey, ErrorCode};
use serde_json::json;

use super::case::{Api, Case};

/// The longest legal topic name.
const LONGEST_NAME: usize = 249;

pub(super) fn api() -> Api {
    Api {
        key: ApiKey::METADATA,
        sample: || json!({"Topics": [{"Name": "no such topic"}], "AllowAutoTopicCreation": false}),
        legal: &[
            ErrorCode::UnknownTopicOrPartition,
            ErrorCode::LeaderNotAvailable,
            ErrorCode::InvalidTopicException,
            ErrorCode::UnknownTopicId,
            ErrorCode::InvalidRequest,
            ErrorCode::TopicAuthorizationFailed,
        ],
        cases: cases(),
    }
}

fn cases() -> Vec<Case> {
    vec![
        Case::new("topic", "describes a topic and its partitions", |p| async move {
            let topic = p.topic(3).await?;
            p.ask(json!({"Topics": [{"Name": topic.name}]})).await?.is(json!({
                "ThrottleTimeMs": "<at least 0>",
                "Brokers": "<not empty>",
                "ErrorCode": "NONE",
                "Topics": [{
                    "ErrorCode": "NONE",
                    "Name": topic.name,
                    "TopicId": topic.id,
                    "IsInternal": false,
                    "Partitions": {
                        "<count>": 3,
                        "<each>": {
                            "ErrorCode": "NONE",
                            "LeaderId": "<at least 0>",
                            "ReplicaNodes": "<not empty>",
                            "IsrNodes": "<not empty>",
                            "OfflineReplicas": [],
                        },
                        "<some>": {"PartitionIndex": 2},
                    },
                }],
            }))
        }),
        Case::new("all-topics", "lists every topic", |p| async move {
            let topic = p.topic(1).await?;
            // Version 0 has no null: an empty list asks for all.
            let all = if p.version == 0 { json!([]) } else { json!(null) };
            p.ask(json!({"Topics": all})).await?.is(json!({
                "Brokers": "<not empty>",
                "Topics": {"<some>": {"Name": topic.name, "ErrorCode": "NONE"}},
            }))
        }),
        Case::new("no-topics", "lists no topic when none is asked for", |p| async move {
            p.ask(json!({"Topics": []})).await?.is(json!({
                "Brokers": {
                    "<each>": {"NodeId": "<at least 0>", "Host": "<not empty>", "Port": "<at least 1>"},
                    "<some>": {"NodeId": "<at least 0>"},
                },
                "ClusterId": "<not empty>",
                "Topics": [],
            }))
        })
        .from(1),
        Case::new("unknown-topic", "does not make a topic unless it may", |p| async move {
            let name = p.unique("nowhere");
            let expected = json!({
                "Topics": [{"ErrorCode": "UNKNOWN_TOPIC_OR_PARTITION", "Name": name, "Partitions": []}],
            });
            let request = json!({"Topics": [{"Name": name}], "AllowAutoTopicCreation": false});
            p.ask(request.clone()).await?.is(expected.clone())?;
            p.ask(request).await?.is(expected)
        })
        .from(4),
        Case::new("auto-create", "makes a topic that is asked for", |p| async move {
            let name = p.unique("auto");
            p.cx.target.remember_topic(&name);
            p.ask_until(
                json!({"Topics": [{"Name": name}], "AllowAutoTopicCreation": true}),
                json!({"Topics": [{"ErrorCode": "NONE", "Name": name, "Partitions": "<not empty>"}]}),
                Duration::from_secs(10),
            )
            .await
            .map(|_| ())
        }),
        Case::new("illegal-names", "refuses names that no topic can have", |p| async move {
            for name in ["a b", "", "ä", "..", "."] {
                illegal_name(&p, name.to_owned()).await?;
            }
            illegal_name(&p, "x".repeat(LONGEST_NAME + 1)).await?;
            illegal_name(&p, "x".repeat(i16::MAX as usize)).await
        })
        .from(4),
        Case::new("longest-name", "knows names of 249 characters", |p| async move {
            let name = format!("{:x<LONGEST_NAME$}", p.unique("long"));
            p.ask(json!({"Topics": [{"Name": name}], "AllowAutoTopicCreation": false}))
                .await?
                .is(json!({"Topics": [{"ErrorCode": "UNKNOWN_TOPIC_OR_PARTITION", "Name": name}]}))
        })
        .from(4),
        Case::new("many-topics", "answers for each of a thousand names", |p| async move {
            let stem = p.unique("many");
            let topics: Vec<_> = (0..1_000).map(|n| json!({"Name": format!("{stem}-{n}")})).collect();
            p.ask(json!({"Topics": topics, "AllowAutoTopicCreation": false})).await?.is(json!({
                "Topics": {
                    "<count>": 1_000,
                    "<each>": {"ErrorCode": "UNKNOWN_TOPIC_OR_PARTITION"},
                },
            }))
        })
        .from(4),
        Case::new("topic-id", "finds a topic by its id", |p| async move {
            let topic = p.topic(1).await?;
            p.ask(json!({"Topics": [{"TopicId": topic.id, "Name": null}]})).await?.is(json!({
                "Topics": [{"ErrorCode": "NONE", "Name": topic.name, "TopicId": topic.id}],
            }))
        })
        .from(12)
        .kips(&[516]),
        Case::new("unknown-topic-id", "knows that an id is of no topic", |p| async move {
            let id = "_____________________w";
            p.ask(json!({"Topics": [{"TopicId": id, "Name": null}]})).await?.is(json!({
                "Topics": [{"ErrorCode": "UNKNOWN_TOPIC_ID", "TopicId": id, "Partitions": []}],
            }))
        })
        .from(12)
        .kips(&[516]),
    ]
}

async fn illegal_name(p: &super::Probe, name: String) -> crate::spec::Verdict {
    p.ask(json!({"Topics": [{"Name": name}], "AllowAutoTopicCreation": false}))
        .await?
        .is(json!({"Topics": [{"ErrorCode": "INVALID_TOPIC_EXCEPTION"}]}))
}
