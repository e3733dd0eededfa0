//! OffsetDelete (47).

use kafka_wire::{ApiKey, ErrorCode};
use serde_json::{Value as Json, json};

use super::case::{Api, Case};

pub(super) fn api() -> Api {
    Api {
        key: ApiKey::OFFSET_DELETE,
        sample: || request("no-such-group", "not a topic"),
        legal: &[
            ErrorCode::InvalidGroupId,
            ErrorCode::GroupIdNotFound,
            ErrorCode::NonEmptyGroup,
            ErrorCode::GroupSubscribedToTopic,
            ErrorCode::UnknownTopicOrPartition,
            ErrorCode::CoordinatorNotAvailable,
            ErrorCode::CoordinatorLoadInProgress,
            ErrorCode::NotCoordinator,
            ErrorCode::GroupAuthorizationFailed,
            ErrorCode::TopicAuthorizationFailed,
        ],
        cases: vec![
            Case::new("deletes", "forgets a committed offset", |p| async move {
                let (topic, group) = (p.topic(1).await?, p.group().await?);
                p.commit(&group, &topic, 0, 7, "").await?;
                p.ask(request(&group, &topic.name)).await?.is(json!({
                    "ErrorCode": "NONE",
                    "Topics": [{"Name": topic.name, "Partitions": [{"PartitionIndex": 0, "ErrorCode": "NONE"}]}],
                }))?;
                p.committed(&group, &topic).await?.is(
                    json!({"Groups": [{"Topics": [{"Partitions": [{"CommittedOffset": -1}]}]}]}),
                )
            }),
            Case::new(
                "unknown-group",
                "says that a group is not there",
                |p| async move {
                    let (topic, group) = (p.topic(1).await?, p.group().await?);
                    p.ask(request(&group, &topic.name))
                        .await?
                        .is(json!({"ErrorCode": "GROUP_ID_NOT_FOUND"}))
                },
            ),
            Case::new(
                "unknown-topic",
                "refuses a topic that is not there",
                |p| async move {
                    let (topic, group) = (p.topic(1).await?, p.group().await?);
                    p.commit(&group, &topic, 0, 7, "").await?;
                    p.ask(request(&group, &p.unique("nowhere"))).await?.is(json!({
                    "ErrorCode": "NONE",
                    "Topics": [{"Partitions": [{"ErrorCode": "UNKNOWN_TOPIC_OR_PARTITION"}]}],
                }))
                },
            ),
        ],
    }
}

fn request(group: &str, topic: &str) -> Json {
    json!({"GroupId": group, "Topics": [{"Name": topic, "Partitions": [{"PartitionIndex": 0}]}]})
}
