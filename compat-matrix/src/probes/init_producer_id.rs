//! InitProducerId (22).

use kafka_wire::{ApiKey, ErrorCode};
use serde_json::{Value as Json, json};

use super::case::{Api, Case};
use super::transaction::init;
use crate::spec::ensure;

pub(super) fn api() -> Api {
    Api {
        key: ApiKey::INIT_PRODUCER_ID,
        sample: || request(-1, -1),
        legal: &[
            ErrorCode::InvalidRequest,
            ErrorCode::InvalidProducerEpoch,
            ErrorCode::ProducerFenced,
            ErrorCode::InvalidTransactionTimeout,
            ErrorCode::ConcurrentTransactions,
            ErrorCode::InvalidTxnState,
            ErrorCode::CoordinatorNotAvailable,
            ErrorCode::CoordinatorLoadInProgress,
            ErrorCode::NotCoordinator,
            ErrorCode::TransactionalIdAuthorizationFailed,
            ErrorCode::ClusterAuthorizationFailed,
        ],
        cases: vec![
            Case::new("new", "gives every producer an id of its own", |p| async move {
                let fresh = json!({"ErrorCode": "NONE", "ProducerId": "<at least 0>", "ProducerEpoch": 0});
                let first = p.ask(request(-1, -1)).await?;
                first.is(fresh.clone())?;
                let second = p.ask(request(-1, -1)).await?;
                second.is(fresh)?;
                ensure(first.int("ProducerId")? != second.int("ProducerId")?, || {
                    "two producers were given the same id".into()
                })
            })
            .kips(&[98]),
            Case::new("bump", "lets a producer go on after an error", |p| async move {
                let id = p.producer_id().await?;
                p.ask(request(id, 0)).await?.is(json!({
                    "ErrorCode": "NONE",
                    "ProducerId": "<at least 0>",
                    "ProducerEpoch": "<at least 0>",
                }))
            })
            .from(3)
            .kips(&[360]),
            Case::new("transactional", "raises the epoch of a transactional id each time", |p| async move {
                let mine = p.transactional().await?;
                for next in 1..=2 {
                    p.ask(init(&mine.id, -1, -1)).await?.is(json!({
                        "ErrorCode": "NONE",
                        "ProducerId": mine.producer,
                        "ProducerEpoch": mine.epoch + next,
                    }))?;
                }
                Ok(())
            })
            .kips(&[98]),
            Case::new("transactional-bump", "raises the epoch of who is current and fences the others", |p| async move {
                let mine = p.transactional().await?;
                let bumped = json!({
                    "ErrorCode": "NONE",
                    "ProducerId": mine.producer,
                    "ProducerEpoch": mine.epoch + 1,
                });
                // The second time it's a repetition.
                for _ in 0..2 {
                    p.ask(init(&mine.id, mine.producer, mine.epoch)).await?.is(bumped.clone())?;
                }
                p.ask(init(&mine.id, -1, -1)).await?.is(json!({"ErrorCode": "NONE"}))?;
                let code = if p.version < 4 { "INVALID_PRODUCER_EPOCH" } else { "PRODUCER_FENCED" };
                p.ask(init(&mine.id, mine.producer, mine.epoch)).await?.is(json!({"ErrorCode": code}))
            })
            .from(3)
            .kips(&[360]),
            Case::new("timeout", "bounds the transaction timeout", |p| async move {
                let mine = p.transactional().await?;
                let mut request = init(&mine.id, -1, -1);
                request["TransactionTimeoutMs"] = json!(i32::MAX);
                p.ask(request).await?.is(json!({"ErrorCode": "INVALID_TRANSACTION_TIMEOUT"}))
            })
            .kips(&[98]),
            Case::new("half-an-identity", "refuses an id without an epoch and the reverse", |p| async move {
                for (id, epoch) in [(5, -1), (-1, 5)] {
                    p.ask(request(id, epoch)).await?.is(json!({"ErrorCode": "INVALID_REQUEST"}))?;
                }
                Ok(())
            })
            .from(3)
            .kips(&[360]),
        ],
    }
}

fn request(id: i64, epoch: i16) -> Json {
    json!({
        "TransactionalId": null,
        "TransactionTimeoutMs": 60_000,
        "ProducerId": id,
        "ProducerEpoch": epoch,
    })
}
