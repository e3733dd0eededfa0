//! SyncGroup (14).

use kafka_wire::{ApiKey, ErrorCode};
use serde_json::{Value as Json, json};

use super::case::{Api, Case};
use super::stage::Member;

pub(super) fn api() -> Api {
    Api {
        key: ApiKey::SYNC_GROUP,
        sample: || {
            request(&Member {
                group: "sample".into(),
                id: "nobody".into(),
                generation: 1,
            })
        },
        legal: &[
            ErrorCode::UnknownMemberId,
            ErrorCode::IllegalGeneration,
            ErrorCode::RebalanceInProgress,
            ErrorCode::InconsistentGroupProtocol,
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

fn request(member: &Member) -> Json {
    json!({
        "GroupId": member.group,
        "GenerationId": member.generation,
        "MemberId": member.id,
        "ProtocolType": "consumer",
        "ProtocolName": "range",
        "Assignments": [{"MemberId": member.id, "Assignment": "share"}],
    })
}

fn cases() -> Vec<Case> {
    vec![
        Case::new(
            "leader",
            "hands the leader the share that it gave itself",
            |p| async move {
                let group = p.group().await?;
                let joined = p.join(&group, "").await?;
                let member = Member {
                    group,
                    id: joined.text("MemberId")?.to_owned(),
                    generation: joined.int("GenerationId")?,
                };
                p.ask(request(&member)).await?.is(json!({
                    "ErrorCode": "NONE",
                    "ProtocolType": "consumer",
                    "ProtocolName": "range",
                    "Assignment": "share",
                }))
            },
        ),
        Case::new(
            "again",
            "answers the same share again once the group is stable",
            |p| async move {
                let member = p.member().await?;
                let mut request = request(&member);
                request["Assignments"] = json!([]);
                p.ask(request)
                    .await?
                    .is(json!({"ErrorCode": "NONE", "Assignment": "share"}))
            },
        ),
        Case::new(
            "illegal-generation",
            "refuses another generation",
            |p| async move {
                let mut member = p.member().await?;
                member.generation += 1;
                p.ask(request(&member))
                    .await?
                    .is(json!({"ErrorCode": "ILLEGAL_GENERATION", "Assignment": ""}))
            },
        ),
        Case::new("unknown-member", "refuses a stranger", |p| async move {
            let mut member = p.member().await?;
            member.id = "nobody".into();
            p.ask(request(&member))
                .await?
                .is(json!({"ErrorCode": "UNKNOWN_MEMBER_ID"}))
        }),
        Case::new(
            "unknown-group",
            "knows no member of a group that is not there",
            |p| async move {
                let member = Member {
                    group: p.group().await?,
                    id: "nobody".into(),
                    generation: 1,
                };
                p.ask(request(&member))
                    .await?
                    .is(json!({"ErrorCode": "UNKNOWN_MEMBER_ID"}))
            },
        ),
        Case::new(
            "other-protocol",
            "refuses a protocol that was not chosen",
            |p| async move {
                let member = p.member().await?;
                let mut request = request(&member);
                request["ProtocolName"] = json!("roundrobin");
                p.ask(request)
                    .await?
                    .is(json!({"ErrorCode": "INCONSISTENT_GROUP_PROTOCOL"}))
            },
        )
        .from(5)
        .kips(&[559]),
    ]
}
