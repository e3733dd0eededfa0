//! AddPartitionsToTxn (24). Versions from 4 on are between brokers.

use kafka_wire::{ApiKey, ErrorCode};
use serde_json::{Value as Json, json};

use super::case::{Api, Case};
use super::transaction::{Transactional, add_partitions, nobody};

pub(super) fn api() -> Api {
    Api {
        key: ApiKey::ADD_PARTITIONS_TO_TXN,
        sample: || add_partitions(&nobody(), "sample", &[0]),
        legal: &[
            ErrorCode::UnknownTopicOrPartition,
            ErrorCode::OperationNotAttempted,
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
            ErrorCode::TopicAuthorizationFailed,
        ],
        cases: cases(),
    }
}

fn codes(codes: &[&str]) -> Json {
    let each = |code: &&str| json!({"PartitionErrorCode": code});
    json!({"ResultsByTopicV3AndBelow": [{
        "ResultsByPartition": codes.iter().map(each).collect::<Vec<_>>(),
    }]})
}

fn one_of_two(partition: i32, code: &str) -> Json {
    json!({"ResultsByTopicV3AndBelow": [{"ResultsByPartition": {
        "<count>": 2,
        "<some>": {"PartitionIndex": partition, "PartitionErrorCode": code},
    }}]})
}

fn cases() -> Vec<Case> {
    vec![
        Case::new("add", "adds partitions, and again", |p| async move {
            let topic = p.topic(2).await?;
            let mine = p.transactional().await?;
            for _ in 0..2 {
                p.ask(add_partitions(&mine, &topic.name, &[0, 1]))
                    .await?
                    .is(codes(&["NONE", "NONE"]))?;
            }
            Ok(())
        })
        .to(3)
        .kips(&[98]),
        Case::new(
            "unknown-partition",
            "adds all partitions or none",
            |p| async move {
                let topic = p.topic(1).await?;
                let mine = p.transactional().await?;
                let answer = p
                    .ask(add_partitions(&mine, &topic.name, &[0, 1_000_000]))
                    .await?;
                // In any order: Kafka's is that of a hash map.
                answer.is(one_of_two(0, "OPERATION_NOT_ATTEMPTED"))?;
                answer.is(one_of_two(1_000_000, "UNKNOWN_TOPIC_OR_PARTITION"))
            },
        )
        .to(3),
        Case::new(
            "fenced",
            "refuses a producer that was replaced",
            |p| async move {
                let topic = p.topic(1).await?;
                let old = p.transactional().await?;
                p.initialised(&old.id).await?;
                let code = if p.version < 2 {
                    "INVALID_PRODUCER_EPOCH"
                } else {
                    "PRODUCER_FENCED"
                };
                p.ask(add_partitions(&old, &topic.name, &[0]))
                    .await?
                    .is(codes(&[code]))
            },
        )
        .to(3)
        .kips(&[98, 588]),
        Case::new(
            "unknown-producer",
            "refuses a producer that is not the transactional id's",
            |p| async move {
                let topic = p.topic(1).await?;
                let mine = p.transactional().await?;
                let other = Transactional {
                    producer: mine.producer + 1,
                    ..mine
                };
                p.ask(add_partitions(&other, &topic.name, &[0]))
                    .await?
                    .is(codes(&["INVALID_PRODUCER_ID_MAPPING"]))
            },
        )
        .to(3),
    ]
}
