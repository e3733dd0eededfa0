//! ConsumerGroupDescribe (69).

use kafka_wire::{ApiKey, ErrorCode};
use serde_json::json;

use super::case::{Api, Case};
use super::consumer_group_heartbeat::joining;

pub(super) fn api() -> Api {
    Api {
        key: ApiKey::CONSUMER_GROUP_DESCRIBE,
        sample: || json!({"GroupIds": ["sample"], "IncludeAuthorizedOperations": false}),
        legal: &[
            ErrorCode::GroupAuthorizationFailed,
            ErrorCode::TopicAuthorizationFailed,
            ErrorCode::NotCoordinator,
            ErrorCode::CoordinatorNotAvailable,
            ErrorCode::CoordinatorLoadInProgress,
            ErrorCode::InvalidRequest,
            ErrorCode::InvalidGroupId,
            ErrorCode::GroupIdNotFound,
        ],
        cases: vec![
            Case::new(
                "live",
                "describes a group, its member, and what it has and should have",
                |p| async move {
                    let (topic, group) = (p.topic(2).await?, p.group().await?);
                    let mut request = joining(&group, "a", &[&topic.name]);
                    request["RackId"] = json!("rack");
                    p.stage_here(ApiKey::CONSUMER_GROUP_HEARTBEAT, request)
                        .await?
                        .is(json!({"ErrorCode": "NONE"}))?;
                    p.ask(json!({"GroupIds": [group]}))
                        .await?
                        .is(json!({"Groups": [{
                            "ErrorCode": "NONE",
                            "ErrorMessage": null,
                            "GroupId": group,
                            "GroupState": "<not empty>",
                            "GroupEpoch": "<at least 1>",
                            "AssignmentEpoch": "<at least 1>",
                            "AssignorName": "uniform",
                            "Members": [{
                                "MemberId": "a",
                                "InstanceId": null,
                                "RackId": "rack",
                                "MemberEpoch": "<at least 1>",
                                "ClientId": "compat-matrix",
                                "ClientHost": "<not empty>",
                                "SubscribedTopicNames": [topic.name],
                            }],
                            "AuthorizedOperations": i32::MIN,
                        }]}))
                },
            )
            .kips(&[848]),
            Case::new(
                "member-type",
                "tells which protocol a member uses",
                |p| async move {
                    let (topic, group) = (p.topic(1).await?, p.group().await?);
                    p.stage_here(
                        ApiKey::CONSUMER_GROUP_HEARTBEAT,
                        joining(&group, "a", &[&topic.name]),
                    )
                    .await?;
                    p.ask(json!({"GroupIds": [group]}))
                        .await?
                        .is(json!({"Groups": [{"Members": [{"MemberType": 1}]}]}))
                },
            )
            .from(1)
            .kips(&[1099]),
            Case::new(
                "classic",
                "does not know a group of the classic protocol",
                |p| async move {
                    let member = p.member().await?;
                    p.ask(json!({"GroupIds": [member.group]}))
                        .await?
                        .is(json!({"Groups": [{
                            "ErrorCode": "GROUP_ID_NOT_FOUND",
                            "ErrorMessage": "<not empty>",
                            "GroupId": member.group,
                            "Members": [],
                        }]}))
                },
            )
            .kips(&[848]),
            Case::new(
                "unknown",
                "says that a group is not there",
                |p| async move {
                    let group = p.group().await?;
                    p.ask(json!({"GroupIds": [group]}))
                        .await?
                        .is(json!({"Groups": [{
                            "ErrorCode": "GROUP_ID_NOT_FOUND", "GroupId": group, "Members": [],
                        }]}))
                },
            )
            .kips(&[848]),
            Case::new(
                "none",
                "answers an empty list with an empty list",
                |p| async move {
                    p.ask(json!({"GroupIds": []}))
                        .await?
                        .is(json!({"Groups": []}))
                },
            ),
        ],
    }
}
