//! EndTxn (26).

use kafka_wire::{ApiKey, ErrorCode};
use serde_json::json;

use super::case::{Api, Case};
use super::transaction::{Transactional, end, nobody};
use crate::spec::{ensure, expect_eq};

/// The first version that raises the epoch (KIP-890).
const TRANSACTIONS_2: i16 = 5;

pub(super) fn api() -> Api {
    Api {
        key: ApiKey::END_TXN,
        sample: || end(&nobody(), true),
        legal: &[
            ErrorCode::InvalidProducerIdMapping,
            ErrorCode::InvalidProducerEpoch,
            ErrorCode::ProducerFenced,
            ErrorCode::InvalidTxnState,
            ErrorCode::ConcurrentTransactions,
            ErrorCode::InvalidRequest,
            ErrorCode::CoordinatorNotAvailable,
            ErrorCode::CoordinatorLoadInProgress,
            ErrorCode::NotCoordinator,
            ErrorCode::TransactionalIdAuthorizationFailed,
        ],
        cases: cases(),
    }
}

fn cases() -> Vec<Case> {
    vec![
        Case::new("commit", "commits, and again", |p| async move {
            let (topic, mine) = p.begun().await?;
            p.append_in_transaction(&topic, &mine, 2, 0).await?;
            let first = p.ask(end(&mine, true)).await?;
            first.is(json!({"ErrorCode": "NONE"}))?;
            if p.version >= TRANSACTIONS_2 {
                expect_eq("the epoch", &(mine.epoch + 1), &first.int("ProducerEpoch")?)?;
            }
            let again = p.ask_until(
                end(&mine, true),
                json!({"ErrorCode": "NONE"}),
                std::time::Duration::from_secs(5),
            );
            again.await?;
            let end = p.end_offset(&topic, 0).await?;
            ensure(end >= 2, || format!("the log ends at {end}"))
        })
        .kips(&[98, 890]),
        Case::new("abort", "aborts, and again", |p| async move {
            let (topic, mine) = p.begun().await?;
            p.append_in_transaction(&topic, &mine, 2, 0).await?;
            for _ in 0..2 {
                let aborted = p.ask_until(
                    end(&mine, false),
                    json!({"ErrorCode": "NONE"}),
                    std::time::Duration::from_secs(5),
                );
                aborted.await?;
            }
            Ok(())
        })
        .kips(&[98, 890]),
        Case::new(
            "commit-nothing",
            "refuses to commit what was not begun",
            |p| async move {
                let mine = p.transactional().await?;
                p.ask(end(&mine, true))
                    .await?
                    .is(json!({"ErrorCode": "INVALID_TXN_STATE"}))
            },
        ),
        Case::new(
            "other-end",
            "refuses to commit what was aborted",
            |p| async move {
                let (_, mine) = p.begun().await?;
                p.ask(end(&mine, false))
                    .await?
                    .is(json!({"ErrorCode": "NONE"}))?;
                let refused = p.ask_until(
                    end(&mine, true),
                    json!({"ErrorCode": "INVALID_TXN_STATE"}),
                    std::time::Duration::from_secs(5),
                );
                refused.await.map(|_| ())
            },
        ),
        Case::new(
            "fenced",
            "refuses a producer that was replaced",
            |p| async move {
                let (_, old) = p.begun().await?;
                p.initialised(&old.id).await?;
                let code = if p.version < 2 {
                    "INVALID_PRODUCER_EPOCH"
                } else {
                    "PRODUCER_FENCED"
                };
                p.ask(end(&old, true)).await?.is(json!({"ErrorCode": code}))
            },
        )
        .kips(&[98]),
        Case::new(
            "unknown-producer",
            "refuses a producer that is not the transactional id's",
            |p| async move {
                let (_, mine) = p.begun().await?;
                let other = Transactional {
                    producer: mine.producer + 1,
                    ..mine
                };
                p.ask(end(&other, true))
                    .await?
                    .is(json!({"ErrorCode": "INVALID_PRODUCER_ID_MAPPING"}))
            },
        ),
    ]
}
