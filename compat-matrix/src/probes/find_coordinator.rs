//! FindCoordinator (10).

use kafka_wire::{ApiKey, ErrorCode};
use serde_json::{Value as Json, json};

use super::case::{Api, Case};

const GROUP: i8 = 0;
const TRANSACTION: i8 = 1;

pub(super) fn api() -> Api {
    Api {
        key: ApiKey::FIND_COORDINATOR,
        sample: || request("sample", GROUP),
        legal: &[
            ErrorCode::CoordinatorNotAvailable,
            ErrorCode::InvalidRequest,
            ErrorCode::InvalidGroupId,
            ErrorCode::UnsupportedVersion,
            ErrorCode::GroupAuthorizationFailed,
            ErrorCode::TransactionalIdAuthorizationFailed,
        ],
        cases: vec![
            Case::new(
                "group",
                "names the coordinator of a group",
                |p| async move {
                    let group = p.group().await?;
                    p.ask(request(&group, GROUP)).await?.is(found(&group))
                },
            ),
            Case::new(
                "always-the-same",
                "names the same coordinator again",
                |p| async move {
                    let group = p.group().await?;
                    let first = p.ask(request(&group, GROUP)).await?;
                    let again = p.ask(request(&group, GROUP)).await?;
                    crate::spec::expect_eq("the second answer", &first.value, &again.value)
                },
            ),
            Case::new(
                "transaction",
                "names the coordinator of a transactional id",
                |p| async move {
                    let id = p.unique("txn");
                    p.ask_until(
                        request(&id, TRANSACTION),
                        found(&id),
                        std::time::Duration::from_secs(10),
                    )
                    .await
                    .map(|_| ())
                },
            )
            .from(1),
            Case::new(
                "many",
                "names several coordinators at once",
                |p| async move {
                    let groups = [p.group().await?, p.group().await?];
                    p.ask(json!({"KeyType": GROUP, "CoordinatorKeys": groups}))
                        .await?
                        .is(json!({
                            "Coordinators": [
                                {"Key": groups[0], "ErrorCode": "NONE"},
                                {"Key": groups[1], "ErrorCode": "NONE"},
                            ],
                        }))
                },
            )
            .from(4)
            .kips(&[699]),
            Case::new(
                "none",
                "answers an empty list with an empty list",
                |p| async move {
                    p.ask(json!({"KeyType": GROUP, "CoordinatorKeys": []}))
                        .await?
                        .is(json!({"Coordinators": []}))
                },
            )
            .from(4)
            .kips(&[699]),
            Case::new(
                "unknown-kind",
                "refuses kinds of key it does not know",
                |p| async move {
                    p.ask(request("x", 99))
                        .await?
                        .is(refused("INVALID_REQUEST"))
                },
            )
            .from(1),
        ],
    }
}

fn request(key: &str, kind: i8) -> Json {
    json!({"Key": key, "KeyType": kind, "CoordinatorKeys": [key]})
}

fn found(key: &str) -> Json {
    json!({
        "ErrorCode": "NONE",
        "Host": "<not empty>",
        "Port": "<at least 1>",
        "NodeId": "<at least 0>",
        "Coordinators": [{
            "Key": key,
            "ErrorCode": "NONE",
            "Host": "<not empty>",
            "Port": "<at least 1>",
            "NodeId": "<at least 0>",
        }],
    })
}

fn refused(code: &str) -> Json {
    json!({
        "ErrorCode": code,
        "NodeId": -1,
        "Coordinators": [{"ErrorCode": code, "NodeId": -1}],
    })
}
