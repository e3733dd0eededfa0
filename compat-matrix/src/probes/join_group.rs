//! JoinGroup (11).

use kafka_wire::{ApiKey, ErrorCode};
use serde_json::{Value as Json, json};

use super::case::{Api, Case};
use super::stage::{SUBSCRIPTION, join_request};
use super::{Answer, Probe};
use crate::spec::{Stop, expect_eq};

pub(super) fn api() -> Api {
    Api {
        key: ApiKey::JOIN_GROUP,
        sample: || join_request("sample", "nobody"),
        legal: &[
            ErrorCode::UnknownMemberId,
            ErrorCode::MemberIdRequired,
            ErrorCode::InvalidSessionTimeout,
            ErrorCode::InconsistentGroupProtocol,
            ErrorCode::InvalidGroupId,
            ErrorCode::FencedInstanceId,
            ErrorCode::GroupMaxSizeReached,
            ErrorCode::RebalanceInProgress,
            ErrorCode::CoordinatorNotAvailable,
            ErrorCode::CoordinatorLoadInProgress,
            ErrorCode::NotCoordinator,
            ErrorCode::GroupAuthorizationFailed,
            ErrorCode::UnsupportedVersion,
        ],
        cases: cases(),
    }
}

/// Joins in as many steps as the version needs.
async fn join(p: &Probe, mut request: Json) -> Result<Answer, Stop> {
    let answer = p.ask(request.clone()).await?;
    if answer.first_code().as_deref() != Some("MEMBER_ID_REQUIRED") {
        return Ok(answer);
    }
    request["MemberId"] = json!(answer.text("MemberId")?);
    p.ask(request).await
}

fn cases() -> Vec<Case> {
    vec![
        Case::new(
            "first-member",
            "makes the first member the leader of a generation",
            |p| async move {
                let group = p.group().await?;
                let answer = join(&p, join_request(&group, "")).await?;
                let me = answer.text("MemberId")?.to_owned();
                answer.is(json!({
                "ErrorCode": "NONE",
                "GenerationId": "<at least 1>",
                "ProtocolType": "consumer",
                "ProtocolName": "range",
                "Leader": me,
                "SkipAssignment": false,
                "MemberId": "<not empty>",
                "Members": [{"MemberId": me, "GroupInstanceId": null, "Metadata": "<not empty>"}],
            }))
            },
        ),
        Case::new(
            "member-id-required",
            "gives a new member its id before it joins",
            |p| async move {
                let group = p.group().await?;
                p.ask(join_request(&group, "")).await?.is(json!({
                    "ErrorCode": "MEMBER_ID_REQUIRED",
                    "GenerationId": -1,
                    "MemberId": "<not empty>",
                    "Members": [],
                }))
            },
        )
        .from(4)
        .kips(&[394]),
        Case::new(
            "unknown-member",
            "refuses a member id it did not give",
            |p| async move {
                let group = p.group().await?;
                p.ask(join_request(&group, "nobody"))
                    .await?
                    .is(json!({"ErrorCode": "UNKNOWN_MEMBER_ID", "Members": []}))
            },
        ),
        Case::new(
            "illegal-session",
            "refuses session timeouts out of bounds",
            |p| async move {
                let group = p.group().await?;
                for timeout in [0, 1, -1, i32::MAX] {
                    let mut request = join_request(&group, "");
                    request["SessionTimeoutMs"] = json!(timeout);
                    p.ask(request)
                        .await?
                        .is(json!({"ErrorCode": "INVALID_SESSION_TIMEOUT"}))?;
                }
                Ok(())
            },
        ),
        Case::new(
            "no-protocols",
            "refuses a member without a protocol",
            |p| async move {
                let group = p.group().await?;
                let mut request = join_request(&group, "");
                request["Protocols"] = json!([]);
                p.ask(request)
                    .await?
                    .is(json!({"ErrorCode": "INCONSISTENT_GROUP_PROTOCOL"}))
            },
        ),
        Case::new(
            "other-protocols",
            "refuses a member that shares no protocol with the others",
            |p| async move {
                let member = p.member().await?;
                for (kind, name) in [("connect", "range"), ("consumer", "nobody-elses")] {
                    let mut request = join_request(&member.group, "");
                    request["ProtocolType"] = json!(kind);
                    request["Protocols"] = json!([{"Name": name, "Metadata": SUBSCRIPTION}]);
                    p.ask(request)
                        .await?
                        .is(json!({"ErrorCode": "INCONSISTENT_GROUP_PROTOCOL"}))?;
                }
                Ok(())
            },
        ),
        Case::new(
            "empty-group-id",
            "refuses a group without a name",
            |p| async move {
                p.group().await?;
                p.ask(join_request("", ""))
                    .await?
                    .is(json!({"ErrorCode": "INVALID_GROUP_ID"}))
            },
        ),
        Case::new(
            "static-member",
            "lets a static member in at once and again in its old place",
            |p| async move {
                let group = p.group().await?;
                let mut request = join_request(&group, "");
                request["GroupInstanceId"] = json!("instance");
                let first = p.ask(request.clone()).await?;
                first.is(json!({
                    "ErrorCode": "NONE",
                    "MemberId": "<not empty>",
                    "Members": [{"GroupInstanceId": "instance"}],
                }))?;
                let fenced = first.text("MemberId")?.to_owned();
                let generation = first.int("GenerationId")?;
                p.sync_alone(&group, &fenced, generation, Some("instance"))
                    .await?;
                let again = p.ask(request.clone()).await?;
                again.is(json!({"ErrorCode": "NONE", "MemberId": "<not empty>"}))?;
                // Unchanged metadata of a stable group: nobody needs to rebalance.
                expect_eq("the generation", &generation, &again.int("GenerationId")?)?;
                request["MemberId"] = json!(fenced);
                p.ask(request)
                    .await?
                    .is(json!({"ErrorCode": "FENCED_INSTANCE_ID"}))
            },
        )
        .from(5)
        .kips(&[345]),
    ]
}
