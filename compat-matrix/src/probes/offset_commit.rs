//! OffsetCommit (8).

use kafka_wire::{ApiKey, ErrorCode};
use serde_json::{Value as Json, json};

use super::case::{Api, Case};
use super::consumer_group_heartbeat::joining;
use super::stage::{Member, Topic};

/// Kafka's `offset.metadata.max.bytes`.
const LONGEST_METADATA: usize = 4_096;

pub(super) fn api() -> Api {
    Api {
        key: ApiKey::OFFSET_COMMIT,
        sample: || {
            let topic = Topic {
                name: "not a topic".into(),
                id: "_____________________w".into(),
            };
            request(&nobody("sample".into()), &topic, 1, "")
        },
        legal: &[
            ErrorCode::UnknownTopicOrPartition,
            ErrorCode::UnknownTopicId,
            ErrorCode::OffsetMetadataTooLarge,
            ErrorCode::InvalidCommitOffsetSize,
            ErrorCode::UnknownMemberId,
            ErrorCode::IllegalGeneration,
            ErrorCode::RebalanceInProgress,
            ErrorCode::FencedInstanceId,
            ErrorCode::InvalidGroupId,
            ErrorCode::GroupIdNotFound,
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

/// A consumer that is in no group and keeps its offsets there all the same.
const fn nobody(group: String) -> Member {
    Member {
        group,
        id: String::new(),
        generation: -1,
    }
}

fn request(member: &Member, topic: &Topic, offset: i64, metadata: &str) -> Json {
    json!({
        "GroupId": member.group,
        "GenerationIdOrMemberEpoch": member.generation,
        "MemberId": member.id,
        "RetentionTimeMs": -1,
        "Topics": [{"Name": topic.name, "TopicId": topic.id, "Partitions": [{
            "PartitionIndex": 0,
            "CommittedOffset": offset,
            "CommittedLeaderEpoch": -1,
            "CommittedMetadata": metadata,
        }]}],
    })
}

fn one(code: &str) -> Json {
    json!({"Topics": [{"Partitions": [{"PartitionIndex": 0, "ErrorCode": code}]}]})
}

fn cases() -> Vec<Case> {
    vec![
        Case::new(
            "simple",
            "keeps the offset of a consumer without a group",
            |p| async move {
                let (topic, group) = (p.topic(1).await?, p.group().await?);
                for offset in [7, 3] {
                    p.ask(request(&nobody(group.clone()), &topic, offset, "note"))
                        .await?
                        .is(one("NONE"))?;
                    p.committed(&group, &topic).await?.is(
                        json!({"Groups": [{"Topics": [{"Partitions": [{
                            "PartitionIndex": 0,
                            "CommittedOffset": offset,
                            "Metadata": "note",
                            "ErrorCode": "NONE",
                        }]}]}]}),
                    )?;
                }
                Ok(())
            },
        ),
        Case::new("member", "keeps the offset of a member", |p| async move {
            let topic = p.topic(1).await?;
            let member = p.member().await?;
            p.ask(request(&member, &topic, 5, ""))
                .await?
                .is(one("NONE"))?;
            p.committed(&member.group, &topic).await?.is(
                json!({"Groups": [{"Topics": [{"Partitions": [{
                    "CommittedOffset": 5,
                }]}]}]}),
            )
        }),
        Case::new(
            "null-metadata",
            "takes a commit without a note",
            |p| async move {
                let (topic, group) = (p.topic(1).await?, p.group().await?);
                let mut request = request(&nobody(group), &topic, 1, "");
                request["Topics"][0]["Partitions"][0]["CommittedMetadata"] = json!(null);
                p.ask(request).await?.is(one("NONE"))
            },
        ),
        Case::new("long-metadata", "bounds the note", |p| async move {
            let (topic, group) = (p.topic(1).await?, p.group().await?);
            let member = nobody(group);
            p.ask(request(&member, &topic, 1, &"x".repeat(LONGEST_METADATA)))
                .await?
                .is(one("NONE"))?;
            p.ask(request(
                &member,
                &topic,
                2,
                &"x".repeat(LONGEST_METADATA + 1),
            ))
            .await?
            .is(one("OFFSET_METADATA_TOO_LARGE"))
        }),
        Case::new(
            "illegal-generation",
            "refuses another generation",
            |p| async move {
                let topic = p.topic(1).await?;
                let mut member = p.member().await?;
                member.generation += 1;
                p.ask(request(&member, &topic, 1, ""))
                    .await?
                    .is(one("ILLEGAL_GENERATION"))
            },
        ),
        Case::new("unknown-member", "refuses a stranger", |p| async move {
            let topic = p.topic(1).await?;
            let member = Member {
                id: "nobody".into(),
                ..p.member().await?
            };
            p.ask(request(&member, &topic, 1, ""))
                .await?
                .is(one("UNKNOWN_MEMBER_ID"))
        }),
        Case::new(
            "simple-beside-members",
            "keeps offsets of a live group for its members",
            |p| async move {
                let topic = p.topic(1).await?;
                let member = p.member().await?;
                p.ask(request(&nobody(member.group), &topic, 1, ""))
                    .await?
                    .is(one("UNKNOWN_MEMBER_ID"))
            },
        ),
        Case::new(
            "member-epoch",
            "keeps the offset of a member of the consumer protocol at its epoch only",
            |p| async move {
                let (topic, group) = (p.topic(1).await?, p.group().await?);
                let joined = p
                    .stage_here(
                        ApiKey::CONSUMER_GROUP_HEARTBEAT,
                        joining(&group, "a", &[&topic.name]),
                    )
                    .await?;
                let member = Member {
                    group,
                    id: "a".into(),
                    generation: joined.int("MemberEpoch")?,
                };
                p.ask(request(&member, &topic, 5, ""))
                    .await?
                    .is(one("NONE"))?;
                let ahead = Member {
                    generation: member.generation + 1,
                    ..member.clone()
                };
                p.ask(request(&ahead, &topic, 6, ""))
                    .await?
                    .is(one("STALE_MEMBER_EPOCH"))?;
                p.ask(request(&nobody(member.group), &topic, 6, ""))
                    .await?
                    .is(one("UNKNOWN_MEMBER_ID"))
            },
        )
        .from(9)
        .kips(&[848]),
        Case::new(
            "unknown-topic",
            "refuses a topic that is not there",
            |p| async move {
                let group = p.group().await?;
                let topic = Topic {
                    name: p.unique("nowhere"),
                    id: String::from("_____________________w"),
                };
                let code = if p.version < 10 {
                    "UNKNOWN_TOPIC_OR_PARTITION"
                } else {
                    "UNKNOWN_TOPIC_ID"
                };
                p.ask(request(&nobody(group), &topic, 1, ""))
                    .await?
                    .is(one(code))
            },
        ),
        Case::new(
            "no-topics",
            "answers an empty list with an empty list",
            |p| async move {
                let group = p.group().await?;
                p.ask(json!({"GroupId": group, "GenerationIdOrMemberEpoch": -1, "Topics": []}))
                    .await?
                    .is(json!({"Topics": []}))
            },
        ),
    ]
}
