//! TxnOffsetCommit (28).

use kafka_wire::{ApiKey, ErrorCode};
use serde_json::{Value as Json, json};

use super::case::{Api, Case};
use super::probe::Probe;
use super::stage::Topic;
use super::transaction::{Transactional, add_offsets, nobody, offsets};
use crate::spec::Stop;

/// The first version that adds the group by itself (KIP-890).
const TRANSACTIONS_2: i16 = 5;

pub(super) fn api() -> Api {
    Api {
        key: ApiKey::TXN_OFFSET_COMMIT,
        sample: || {
            let topic = Topic {
                name: "sample".into(),
                id: "_____________________w".into(),
            };
            offsets(&nobody(), "sample", &topic, 1)
        },
        legal: &[
            ErrorCode::UnknownTopicOrPartition,
            ErrorCode::UnknownTopicId,
            ErrorCode::OffsetMetadataTooLarge,
            ErrorCode::InvalidCommitOffsetSize,
            ErrorCode::UnknownMemberId,
            ErrorCode::IllegalGeneration,
            ErrorCode::FencedInstanceId,
            ErrorCode::InvalidGroupId,
            ErrorCode::InvalidProducerIdMapping,
            ErrorCode::InvalidProducerEpoch,
            ErrorCode::ProducerFenced,
            ErrorCode::InvalidTxnState,
            ErrorCode::TransactionAbortable,
            ErrorCode::ConcurrentTransactions,
            ErrorCode::CoordinatorNotAvailable,
            ErrorCode::CoordinatorLoadInProgress,
            ErrorCode::NotCoordinator,
            ErrorCode::TransactionalIdAuthorizationFailed,
            ErrorCode::GroupAuthorizationFailed,
            ErrorCode::TopicAuthorizationFailed,
        ],
        cases: cases(),
    }
}

fn one(code: &str) -> Json {
    json!({"Topics": [{"Partitions": [{"PartitionIndex": 0, "ErrorCode": code}]}]})
}

/// A group whose offsets a transaction of a new producer commits; routes to the group.
async fn added(p: &Probe) -> Result<(Topic, String, Transactional), Stop> {
    let topic = p.topic(1).await?;
    let mine = p.transactional().await?;
    let coordinator = p.route().await;
    let group = p.group().await?;
    if p.version < TRANSACTIONS_2 {
        p.stage_at(
            &coordinator,
            ApiKey::ADD_OFFSETS_TO_TXN,
            add_offsets(&mine, &group),
        )
        .await?
        .is(json!({"ErrorCode": "NONE"}))?;
    }
    Ok((topic, group, mine))
}

fn cases() -> Vec<Case> {
    vec![
        Case::new(
            "commit",
            "commits offsets with the transaction, and not before",
            |p| async move {
                let (topic, group, mine) = added(&p).await?;
                p.ask(offsets(&mine, &group, &topic, 7))
                    .await?
                    .is(one("NONE"))?;
                let committed = |offset: i64| {
                    json!({"Groups": [{"Topics": [{"Partitions": [{"CommittedOffset": offset}]}]}]})
                };
                p.committed(&group, &topic).await?.is(committed(-1))?;
                p.ended(&mine, true).await?;
                p.until(std::time::Duration::from_secs(5), || async {
                    p.committed(&group, &topic).await?.is(committed(7))
                })
                .await
            },
        )
        .kips(&[98]),
        Case::new("abort", "forgets offsets with the transaction", |p| async move {
            let (topic, group, mine) = added(&p).await?;
            p.ask(offsets(&mine, &group, &topic, 7))
                .await?
                .is(one("NONE"))?;
            p.ended(&mine, false).await?;
            p.committed(&group, &topic).await?.is(
                json!({"Groups": [{"Topics": [{"Partitions": [{"CommittedOffset": -1}]}]}]}),
            )
        }),
        Case::new(
            "illegal-generation",
            "refuses a member of another generation",
            |p| async move {
                let (topic, group, mine) = added(&p).await?;
                let mut request = offsets(&mine, &group, &topic, 7);
                request["GenerationIdOrMemberEpoch"] = json!(3);
                request["MemberId"] = json!("nobody");
                p.ask(request).await?.is(one("ILLEGAL_GENERATION"))
            },
        )
        .from(3)
        .kips(&[447]),
        Case::new("fenced", "refuses a producer that was replaced", |p| async move {
            let (topic, group, old) = added(&p).await?;
            p.initialised(&old.id).await?;
            // The coordinator of a group knows epochs and no fences.
            p.ask(offsets(&old, &group, &topic, 7))
                .await?
                .is(one("INVALID_PRODUCER_EPOCH"))
        }),
        Case::new(
            "not-added",
            "refuses a group that is not in the transaction",
            |p| async move {
                let topic = p.topic(1).await?;
                let mine = p.transactional().await?;
                let group = p.group().await?;
                let code = match p.version {
                    ..=3 => "INVALID_TXN_STATE",
                    _ => "TRANSACTION_ABORTABLE",
                };
                p.ask(offsets(&mine, &group, &topic, 7))
                    .await?
                    .is(one(code))
            },
        )
        .to(4)
        .kips(&[890]),
    ]
}
