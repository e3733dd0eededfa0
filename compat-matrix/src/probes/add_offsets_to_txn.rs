//! AddOffsetsToTxn (25).

use kafka_wire::{ApiKey, ErrorCode};
use serde_json::json;

use super::case::{Api, Case};
use super::transaction::{Transactional, add_offsets, nobody};

pub(super) fn api() -> Api {
    Api {
        key: ApiKey::ADD_OFFSETS_TO_TXN,
        sample: || add_offsets(&nobody(), "sample"),
        legal: &[
            ErrorCode::InvalidProducerIdMapping,
            ErrorCode::InvalidProducerEpoch,
            ErrorCode::ProducerFenced,
            ErrorCode::InvalidTxnState,
            ErrorCode::ConcurrentTransactions,
            ErrorCode::InvalidRequest,
            ErrorCode::InvalidGroupId,
            ErrorCode::CoordinatorNotAvailable,
            ErrorCode::CoordinatorLoadInProgress,
            ErrorCode::NotCoordinator,
            ErrorCode::TransactionalIdAuthorizationFailed,
            ErrorCode::GroupAuthorizationFailed,
        ],
        cases: vec![
            Case::new(
                "add",
                "adds the offsets of a group, and again",
                |p| async move {
                    let group = p.group().await?;
                    let mine = p.transactional().await?;
                    for _ in 0..2 {
                        p.ask(add_offsets(&mine, &group))
                            .await?
                            .is(json!({"ErrorCode": "NONE"}))?;
                    }
                    Ok(())
                },
            )
            .kips(&[98]),
            Case::new(
                "fenced",
                "refuses a producer that was replaced",
                |p| async move {
                    let group = p.group().await?;
                    let old = p.transactional().await?;
                    p.initialised(&old.id).await?;
                    let code = if p.version < 2 {
                        "INVALID_PRODUCER_EPOCH"
                    } else {
                        "PRODUCER_FENCED"
                    };
                    p.ask(add_offsets(&old, &group))
                        .await?
                        .is(json!({"ErrorCode": code}))
                },
            ),
            Case::new(
                "unknown-producer",
                "refuses a producer that is not the transactional id's",
                |p| async move {
                    let group = p.group().await?;
                    let mine = p.transactional().await?;
                    let other = Transactional {
                        producer: mine.producer + 1,
                        ..mine
                    };
                    p.ask(add_offsets(&other, &group))
                        .await?
                        .is(json!({"ErrorCode": "INVALID_PRODUCER_ID_MAPPING"}))
                },
            ),
        ],
    }
}
