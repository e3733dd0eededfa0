//! Heartbeat (12).

use std::time::Duration;

use kafka_wire::{ApiKey, ErrorCode};
use serde_json::{Value as Json, json};

use super::case::{Api, Case};
use super::stage::Member;

pub(super) fn api() -> Api {
    Api {
        key: ApiKey::HEARTBEAT,
        sample: || json!({"GroupId": "sample", "GenerationId": 1, "MemberId": "nobody"}),
        legal: &[
            ErrorCode::UnknownMemberId,
            ErrorCode::IllegalGeneration,
            ErrorCode::RebalanceInProgress,
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
    json!({"GroupId": member.group, "GenerationId": member.generation, "MemberId": member.id})
}

fn cases() -> Vec<Case> {
    vec![
        Case::new(
            "stable",
            "tells a member of a stable group that all is well",
            |p| async move {
                let member = p.member().await?;
                p.ask(request(&member))
                    .await?
                    .is(json!({"ErrorCode": "NONE", "ThrottleTimeMs": "<at least 0>"}))
            },
        ),
        Case::new(
            "illegal-generation",
            "refuses another generation",
            |p| async move {
                let member = p.member().await?;
                for generation in [member.generation + 1, 0, -1] {
                    let other = Member {
                        generation,
                        ..member.clone()
                    };
                    p.ask(request(&other))
                        .await?
                        .is(json!({"ErrorCode": "ILLEGAL_GENERATION"}))?;
                }
                Ok(())
            },
        ),
        Case::new("unknown-member", "refuses a stranger", |p| async move {
            let member = Member {
                id: "nobody".into(),
                ..p.member().await?
            };
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
            "unknown-instance",
            "refuses an instance that is not a member",
            |p| async move {
                let member = p.member().await?;
                let mut request = request(&member);
                request["GroupInstanceId"] = json!("nobody");
                p.ask(request)
                    .await?
                    .is(json!({"ErrorCode": "UNKNOWN_MEMBER_ID"}))
            },
        )
        .from(3)
        .kips(&[345]),
        Case::new(
            "rebalance",
            "tells a member that another one wants to join",
            |p| async move {
                let member = p.member().await?;
                let newcomer = p.another().await;
                let joining = tokio::spawn({
                    let group = member.group.clone();
                    async move { newcomer.join(&group, "").await }
                });
                let told = p
                    .ask_until(
                        request(&member),
                        json!({"ErrorCode": "REBALANCE_IN_PROGRESS"}),
                        Duration::from_secs(5),
                    )
                    .await;
                joining.abort();
                told.map(|_| ())
            },
        ),
    ]
}
