//! OffsetFetch (9).

use kafka_wire::{ApiKey, ErrorCode};
use serde_json::{Value as Json, json};

use super::case::{Api, Case};
use super::consumer_group_heartbeat::joining;
use super::stage::Topic;

pub(super) fn api() -> Api {
    Api {
        key: ApiKey::OFFSET_FETCH,
        sample: || {
            let topic = Topic {
                name: "not a topic".into(),
                id: "_____________________w".into(),
            };
            request("sample", &topic, &[0])
        },
        legal: &[
            ErrorCode::UnknownTopicOrPartition,
            ErrorCode::UnknownTopicId,
            ErrorCode::UnstableOffsetCommit,
            ErrorCode::InvalidGroupId,
            ErrorCode::GroupIdNotFound,
            ErrorCode::UnknownMemberId,
            ErrorCode::StaleMemberEpoch,
            ErrorCode::CoordinatorNotAvailable,
            ErrorCode::CoordinatorLoadInProgress,
            ErrorCode::NotCoordinator,
            ErrorCode::GroupAuthorizationFailed,
            ErrorCode::TopicAuthorizationFailed,
        ],
        cases: cases(),
    }
}

/// The old and the new shape of the request in one.
pub(super) fn request(group: &str, topic: &Topic, partitions: &[i32]) -> Json {
    let topics = json!([{"Name": topic.name, "PartitionIndexes": partitions}]);
    json!({
        "GroupId": group,
        "Topics": topics,
        "Groups": [{
            "GroupId": group,
            "MemberId": null,
            "MemberEpoch": -1,
            "Topics": [{"Name": topic.name, "TopicId": topic.id, "PartitionIndexes": partitions}],
        }],
        "RequireStable": true,
    })
}

fn partitions(expected: Json) -> Json {
    json!({
        "ErrorCode": "NONE",
        "Topics": [{"Partitions": expected}],
        "Groups": [{"ErrorCode": "NONE", "Topics": [{"Partitions": expected}]}],
    })
}

fn cases() -> Vec<Case> {
    vec![
        Case::new("committed", "answers what was committed", |p| async move {
            let (topic, group) = (p.topic(2).await?, p.group().await?);
            p.commit(&group, &topic, 1, 42, "note").await?;
            p.ask(request(&group, &topic, &[0, 1]))
                .await?
                .is(partitions(json!({
                    "<count>": 2,
                    "<each>": {"ErrorCode": "NONE"},
                    "<some>": {"PartitionIndex": 1, "CommittedOffset": 42, "Metadata": "note"},
                })))
        }),
        Case::new(
            "nothing",
            "answers -1 where nothing was committed",
            |p| async move {
                let (topic, group) = (p.topic(1).await?, p.group().await?);
                p.ask(request(&group, &topic, &[0]))
                    .await?
                    .is(partitions(json!([{
                        "PartitionIndex": 0,
                        "CommittedOffset": -1,
                        "CommittedLeaderEpoch": -1,
                        "Metadata": "",
                        "ErrorCode": "NONE",
                    }])))
            },
        ),
        Case::new(
            "all-topics",
            "answers everything that the group committed",
            |p| async move {
                let (topic, group) = (p.topic(3).await?, p.group().await?);
                p.commit(&group, &topic, 0, 1, "").await?;
                p.commit(&group, &topic, 2, 3, "").await?;
                let mut all = request(&group, &topic, &[]);
                all["Topics"] = json!(null);
                all["Groups"][0]["Topics"] = json!(null);
                p.ask(all).await?.is(partitions(json!({
                    "<count>": 2,
                    "<some>": {"PartitionIndex": 2, "CommittedOffset": 3},
                })))
            },
        )
        .from(2)
        .kips(&[88]),
        Case::new(
            "no-topics",
            "answers an empty list with an empty list",
            |p| async move {
                let group = p.group().await?;
                p.ask(json!({
                "GroupId": group,
                "Topics": [],
                "Groups": [{"GroupId": group, "MemberEpoch": -1, "Topics": []}],
            }))
            .await?
            .is(json!({"ErrorCode": "NONE", "Topics": [], "Groups": [{"GroupId": group, "ErrorCode": "NONE", "Topics": []}]}))
            },
        ),
        Case::new(
            "member-epoch",
            "lets a member of the consumer protocol read at its epoch only",
            |p| async move {
                let (topic, group) = (p.topic(1).await?, p.group().await?);
                let joined = p
                    .stage_here(
                        ApiKey::CONSUMER_GROUP_HEARTBEAT,
                        joining(&group, "a", &[&topic.name]),
                    )
                    .await?;
                let epoch = joined.int("MemberEpoch")?;
                for (member, epoch, code) in [
                    (json!("a"), epoch, "NONE"),
                    (json!("a"), epoch + 1, "STALE_MEMBER_EPOCH"),
                    (json!("nobody"), epoch, "UNKNOWN_MEMBER_ID"),
                    (json!(null), -1, "NONE"),
                ] {
                    let mut asked = request(&group, &topic, &[0]);
                    asked["Groups"][0]["MemberId"] = member;
                    asked["Groups"][0]["MemberEpoch"] = json!(epoch);
                    p.ask(asked)
                        .await?
                        .is(json!({"Groups": [{"GroupId": group, "ErrorCode": code}]}))?;
                }
                Ok(())
            },
        )
        .from(9)
        .kips(&[848]),
        Case::new(
            "unknown-topic-id",
            "knows no topic of an id that nobody has",
            |p| async move {
                let group = p.group().await?;
                let topic = Topic {
                    name: String::new(),
                    id: "_____________________w".into(),
                };
                p.ask(request(&group, &topic, &[0]))
                    .await?
                    .is(json!({"Groups": [{
                        "ErrorCode": "NONE",
                        "Topics": [{"TopicId": topic.id, "Partitions": [{
                            "PartitionIndex": 0, "ErrorCode": "UNKNOWN_TOPIC_ID",
                        }]}],
                    }]}))
            },
        )
        .from(10)
        .kips(&[848]),
        Case::new(
            "many-groups",
            "answers for several groups at once",
            |p| async move {
                let topic = p.topic(1).await?;
                let groups = [p.group().await?, p.group().await?];
                p.commit(&groups[1], &topic, 0, 9, "").await?;
                let mut both = request(&groups[0], &topic, &[0]);
                let other = request(&groups[1], &topic, &[0]);
                both["Groups"] = json!([both["Groups"][0], other["Groups"][0]]);
                p.ask(both).await?.is(json!({"Groups": [
                    {"GroupId": groups[0], "Topics": [{"Partitions": [{"CommittedOffset": -1}]}]},
                    {"GroupId": groups[1], "Topics": [{"Partitions": [{"CommittedOffset": 9}]}]},
                ]}))
            },
        )
        .from(8)
        .kips(&[709]),
    ]
}
