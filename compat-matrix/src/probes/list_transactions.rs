//! ListTransactions (66).

use kafka_wire::{ApiKey, ErrorCode};
use serde_json::{Value as Json, json};

use super::case::{Api, Case};

pub(super) fn api() -> Api {
    Api {
        key: ApiKey::LIST_TRANSACTIONS,
        sample: || request(&[], &[]),
        legal: &[
            ErrorCode::InvalidRegularExpression,
            ErrorCode::CoordinatorNotAvailable,
            ErrorCode::CoordinatorLoadInProgress,
            ErrorCode::NotCoordinator,
        ],
        cases: vec![
            Case::new(
                "one",
                "lists the transaction of a producer",
                |p| async move {
                    let (_, mine) = p.begun().await?;
                    p.ask(request(&["Ongoing"], &[mine.producer]))
                        .await?
                        .is(json!({
                            "ErrorCode": "NONE",
                            "UnknownStateFilters": [],
                            "TransactionStates": [{
                                "TransactionalId": mine.id,
                                "ProducerId": mine.producer,
                                "TransactionState": "Ongoing",
                            }],
                        }))?;
                    p.ask(request(&["CompleteCommit"], &[mine.producer]))
                        .await?
                        .is(json!({"ErrorCode": "NONE", "TransactionStates": []}))
                },
            )
            .kips(&[664]),
            Case::new(
                "unknown-state",
                "names states it does not know",
                |p| async move {
                    p.ask(request(&["Nonsense"], &[1]))
                        .await?
                        .is(json!({"UnknownStateFilters": ["Nonsense"]}))
                },
            ),
            Case::new(
                "young",
                "lists none that is older than asked",
                |p| async move {
                    let (_, mine) = p.begun().await?;
                    let mut request = request(&[], &[mine.producer]);
                    request["DurationFilter"] = json!(3_600_000);
                    p.ask(request)
                        .await?
                        .is(json!({"ErrorCode": "NONE", "TransactionStates": []}))
                },
            )
            .from(1)
            .kips(&[994]),
            Case::new("pattern", "lists ids of a pattern", |p| async move {
                let (_, mine) = p.begun().await?;
                let mut request = request(&[], &[]);
                request["TransactionalIdPattern"] = json!(mine.id);
                p.ask(request.clone())
                    .await?
                    .is(json!({"TransactionStates": [{"TransactionalId": mine.id}]}))?;
                request["TransactionalIdPattern"] = json!("(");
                p.ask(request)
                    .await?
                    .is(json!({"ErrorCode": "INVALID_REGULAR_EXPRESSION"}))
            })
            .from(2)
            .kips(&[1152]),
        ],
    }
}

fn request(states: &[&str], producers: &[i64]) -> Json {
    json!({
        "StateFilters": states,
        "ProducerIdFilters": producers,
        "DurationFilter": -1,
        "TransactionalIdPattern": null,
    })
}
