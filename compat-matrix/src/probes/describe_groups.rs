//! DescribeGroups (15).

use kafka_wire::{ApiKey, ErrorCode};
use serde_json::json;

use super::case::{Api, Case};
use super::consumer_group_heartbeat::joining;

pub(super) fn api() -> Api {
    Api {
        key: ApiKey::DESCRIBE_GROUPS,
        sample: || json!({"Groups": ["sample"]}),
        legal: &[
            ErrorCode::InvalidGroupId,
            ErrorCode::GroupIdNotFound,
            ErrorCode::CoordinatorNotAvailable,
            ErrorCode::CoordinatorLoadInProgress,
            ErrorCode::NotCoordinator,
            ErrorCode::GroupAuthorizationFailed,
        ],
        cases: vec![
            Case::new(
                "stable",
                "describes a stable group and its member",
                |p| async move {
                    let member = p.member().await?;
                    p.ask(json!({"Groups": [member.group]}))
                        .await?
                        .is(json!({"Groups": [{
                            "ErrorCode": "NONE",
                            "GroupId": member.group,
                            "GroupState": "Stable",
                            "ProtocolType": "consumer",
                            "ProtocolData": "range",
                            "Members": [{
                                "MemberId": member.id,
                                "GroupInstanceId": null,
                                "ClientId": "compat-matrix",
                                "ClientHost": "<not empty>",
                                "MemberMetadata": "<not empty>",
                                "MemberAssignment": "share",
                            }],
                        }]}))
                },
            ),
            Case::new(
                "empty",
                "describes a group that only has offsets",
                |p| async move {
                    let (topic, group) = (p.topic(1).await?, p.group().await?);
                    p.commit(&group, &topic, 0, 1, "").await?;
                    p.ask(json!({"Groups": [group]})).await?.is(json!({"Groups": [{
                    "ErrorCode": "NONE", "GroupId": group, "GroupState": "Empty", "Members": [],
                }]}))
                },
            ),
            Case::new(
                "unknown",
                "says that a group is not there",
                |p| async move {
                    let group = p.group().await?;
                    let code = if p.version < 6 {
                        "NONE"
                    } else {
                        "GROUP_ID_NOT_FOUND"
                    };
                    p.ask(json!({"Groups": [group]})).await?.is(json!({"Groups": [{
                    "ErrorCode": code, "GroupId": group, "GroupState": "Dead", "Members": [],
                }]}))
                },
            )
            .kips(&[1043]),
            Case::new(
                "consumer-protocol",
                "shows nothing of a group of the consumer protocol",
                |p| async move {
                    let (topic, group) = (p.topic(1).await?, p.group().await?);
                    p.stage_here(
                        ApiKey::CONSUMER_GROUP_HEARTBEAT,
                        joining(&group, "a", &[&topic.name]),
                    )
                    .await?
                    .is(json!({"ErrorCode": "NONE"}))?;
                    let code = if p.version < 6 {
                        "NONE"
                    } else {
                        "GROUP_ID_NOT_FOUND"
                    };
                    p.ask(json!({"Groups": [group]})).await?.is(json!({"Groups": [{
                        "ErrorCode": code, "GroupId": group, "GroupState": "Dead", "Members": [],
                    }]}))
                },
            )
            .kips(&[848, 1043]),
            Case::new(
                "none",
                "answers an empty list with an empty list",
                |p| async move {
                    p.ask(json!({"Groups": []}))
                        .await?
                        .is(json!({"Groups": []}))
                },
            ),
        ],
    }
}
