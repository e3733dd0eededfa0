//! LeaveGroup (13).

use kafka_wire::{ApiKey, ErrorCode};
use serde_json::{Value as Json, json};

use super::case::{Api, Case};

pub(super) fn api() -> Api {
    Api {
        key: ApiKey::LEAVE_GROUP,
        sample: || request("sample", "nobody"),
        legal: &[
            ErrorCode::UnknownMemberId,
            ErrorCode::InvalidGroupId,
            ErrorCode::FencedInstanceId,
            ErrorCode::CoordinatorNotAvailable,
            ErrorCode::CoordinatorLoadInProgress,
            ErrorCode::NotCoordinator,
            ErrorCode::GroupAuthorizationFailed,
        ],
        cases: cases(),
    }
}

fn request(group: &str, member: &str) -> Json {
    json!({"GroupId": group, "MemberId": member, "Members": [{"MemberId": member, "GroupInstanceId": null}]})
}

fn cases() -> Vec<Case> {
    vec![
        Case::new(
            "leaves",
            "lets a member go, and knows it no more",
            |p| async move {
                let member = p.member().await?;
                p.ask(request(&member.group, &member.id)).await?.is(json!({
                    "ErrorCode": "NONE",
                    "Members": [{"MemberId": member.id, "ErrorCode": "NONE"}],
                }))?;
                let route = p.route().await;
                p.stage_at(
                &route,
                ApiKey::HEARTBEAT,
                json!({"GroupId": member.group, "GenerationId": member.generation, "MemberId": member.id}),
            )
            .await?
            .is(json!({"ErrorCode": "UNKNOWN_MEMBER_ID"}))
            },
        ),
        Case::new("unknown-member", "refuses a stranger", |p| async move {
            let member = p.member().await?;
            p.ask(request(&member.group, "nobody"))
                .await?
                .is(unknown(p.version))
        }),
        Case::new(
            "unknown-group",
            "knows no member of a group that is not there",
            |p| async move {
                let group = p.group().await?;
                p.ask(request(&group, "nobody"))
                    .await?
                    .is(unknown(p.version))
            },
        ),
        Case::new(
            "several",
            "answers for each member by itself",
            |p| async move {
                let member = p.member().await?;
                let members = json!([{"MemberId": "nobody"}, {"MemberId": member.id}]);
                p.ask(json!({"GroupId": member.group, "Members": members}))
                    .await?
                    .is(json!({
                        "ErrorCode": "NONE",
                        "Members": [
                            {"MemberId": "nobody", "ErrorCode": "UNKNOWN_MEMBER_ID"},
                            {"MemberId": member.id, "ErrorCode": "NONE"},
                        ],
                    }))
            },
        )
        .from(3)
        .kips(&[345]),
    ]
}

/// Since version 3 each member has its own code.
fn unknown(version: i16) -> Json {
    if version < 3 {
        json!({"ErrorCode": "UNKNOWN_MEMBER_ID"})
    } else {
        json!({"ErrorCode": "NONE", "Members": [{"MemberId": "nobody", "ErrorCode": "UNKNOWN_MEMBER_ID"}]})
    }
}
