//! DeleteGroups (42).

use kafka_wire::{ApiKey, ErrorCode};
use serde_json::{Value as Json, json};

use super::case::{Api, Case};
use super::consumer_group_heartbeat::{beat, joining};
use super::probe::Probe;
use crate::spec::Verdict;

pub(super) fn api() -> Api {
    Api {
        key: ApiKey::DELETE_GROUPS,
        sample: || request(&["no-such-group"]),
        legal: &[
            ErrorCode::InvalidGroupId,
            ErrorCode::NonEmptyGroup,
            ErrorCode::GroupIdNotFound,
            ErrorCode::CoordinatorNotAvailable,
            ErrorCode::CoordinatorLoadInProgress,
            ErrorCode::NotCoordinator,
            ErrorCode::GroupAuthorizationFailed,
        ],
        cases: vec![
            Case::new(
                "empty",
                "deletes a group without members and its offsets",
                |p| async move {
                    let (topic, group) = (p.topic(1).await?, p.group().await?);
                    p.commit(&group, &topic, 0, 1, "").await?;
                    p.ask(request(&[&group])).await?.is(one(&group, "NONE"))?;
                    p.committed(&group, &topic).await?.is(json!({"Groups": [{"Topics": [{"Partitions": [{"CommittedOffset": -1}]}]}]}))
                },
            ),
            Case::new(
                "with-members",
                "keeps a group that has members",
                |p| async move {
                    let member = p.member().await?;
                    p.ask(request(&[&member.group]))
                        .await?
                        .is(one(&member.group, "NON_EMPTY_GROUP"))
                },
            ),
            Case::new(
                "consumer-protocol",
                "keeps a group of the consumer protocol until its last member has left",
                |p| async move {
                    let (topic, group) = (p.topic(1).await?, p.group().await?);
                    heartbeat(&p, joining(&group, "a", &[&topic.name])).await?;
                    p.ask(request(&[&group]))
                        .await?
                        .is(one(&group, "NON_EMPTY_GROUP"))?;
                    heartbeat(&p, beat(&group, "a", -1)).await?;
                    p.ask(request(&[&group])).await?.is(one(&group, "NONE"))
                },
            )
            .kips(&[848]),
            Case::new(
                "unknown",
                "says that a group is not there",
                |p| async move {
                    let group = p.group().await?;
                    p.ask(request(&[&group]))
                        .await?
                        .is(one(&group, "GROUP_ID_NOT_FOUND"))
                },
            ),
            Case::new(
                "none",
                "answers an empty list with an empty list",
                |p| async move { p.ask(request(&[])).await?.is(json!({"Results": []})) },
            ),
        ],
    }
}

fn request(groups: &[&str]) -> Json {
    json!({"GroupsNames": groups})
}

fn one(group: &str, code: &str) -> Json {
    json!({"Results": [{"GroupId": group, "ErrorCode": code}]})
}

/// A heartbeat of the consumer protocol, which the group's coordinator must take.
async fn heartbeat(p: &Probe, request: Json) -> Verdict {
    p.stage_here(ApiKey::CONSUMER_GROUP_HEARTBEAT, request)
        .await?
        .is(json!({"ErrorCode": "NONE"}))
}
