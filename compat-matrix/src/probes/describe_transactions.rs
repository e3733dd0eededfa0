//! DescribeTransactions (65).

use kafka_wire::{ApiKey, ErrorCode};
use serde_json::{Value as Json, json};

use super::case::{Api, Case};

pub(super) fn api() -> Api {
    Api {
        key: ApiKey::DESCRIBE_TRANSACTIONS,
        sample: || request("sample"),
        legal: &[
            ErrorCode::TransactionalIdNotFound,
            ErrorCode::InvalidRequest,
            ErrorCode::CoordinatorNotAvailable,
            ErrorCode::CoordinatorLoadInProgress,
            ErrorCode::NotCoordinator,
            ErrorCode::TransactionalIdAuthorizationFailed,
        ],
        cases: vec![
            Case::new("ongoing", "describes an open transaction", |p| async move {
                let (topic, mine) = p.begun().await?;
                p.ask(request(&mine.id)).await?.is(json!({
                    "TransactionStates": [{
                        "ErrorCode": "NONE",
                        "TransactionalId": mine.id,
                        "TransactionState": "Ongoing",
                        "TransactionTimeoutMs": 60_000,
                        "TransactionStartTimeMs": "<at least 1>",
                        "ProducerId": mine.producer,
                        "ProducerEpoch": mine.epoch,
                        "Topics": [{"Topic": topic.name, "Partitions": [0]}],
                    }],
                }))
            })
            .kips(&[664]),
            Case::new(
                "empty",
                "describes a producer that did nothing",
                |p| async move {
                    let mine = p.transactional().await?;
                    p.ask(request(&mine.id)).await?.is(json!({
                        "TransactionStates": [{
                            "ErrorCode": "NONE",
                            "TransactionState": "Empty",
                            "Topics": [],
                        }],
                    }))
                },
            ),
            Case::new("unknown", "says that an id is not there", |p| async move {
                let id = p.transactional().await?.id + "-not";
                p.ask(request(&id)).await?.is(json!({
                    "TransactionStates": [{"ErrorCode": "TRANSACTIONAL_ID_NOT_FOUND"}],
                }))
            }),
        ],
    }
}

fn request(id: &str) -> Json {
    json!({"TransactionalIds": [id]})
}
