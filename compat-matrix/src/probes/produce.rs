//! Produce (0). Versions 0 to 2, advertised and closed, are asked by `outside`.

use std::time::Duration;

use kafka_wire::records::{BatchOptions, Compression, ProducerFields};
use kafka_wire::{ApiKey, ErrorCode};
use serde_json::{Value as Json, json};

use super::case::{Api, Case};
use super::stage::{Topic, batch};
use super::{Answer, Probe};
use crate::spec::{Stop, Verdict, expect_eq};

const NOW: i64 = 1_700_000_000_000;

pub(super) fn api() -> Api {
    Api {
        key: ApiKey::PRODUCE,
        sample: || {
            json!({
                "Acks": -1,
                "TimeoutMs": 1_000,
                "TopicData": [{
                    "Name": "not a topic",
                    "TopicId": "_____________________w",
                    "PartitionData": [{"Index": 0, "Records": batch(1, NOW, BatchOptions::default()).unwrap_or_default()}],
                }],
            })
        },
        // What the Java producer and librdkafka answer with a retry or hand to the caller.
        legal: &[
            ErrorCode::CorruptMessage,
            ErrorCode::UnknownTopicOrPartition,
            ErrorCode::UnknownTopicId,
            ErrorCode::LeaderNotAvailable,
            ErrorCode::NotLeaderOrFollower,
            ErrorCode::RequestTimedOut,
            ErrorCode::MessageTooLarge,
            ErrorCode::RecordListTooLarge,
            ErrorCode::InvalidTopicException,
            ErrorCode::InvalidRequiredAcks,
            ErrorCode::InvalidRecord,
            ErrorCode::InvalidTimestamp,
            ErrorCode::UnsupportedForMessageFormat,
            ErrorCode::UnsupportedCompressionType,
            ErrorCode::OutOfOrderSequenceNumber,
            ErrorCode::DuplicateSequenceNumber,
            ErrorCode::InvalidProducerEpoch,
            ErrorCode::UnknownProducerId,
            ErrorCode::TopicAuthorizationFailed,
            ErrorCode::ClusterAuthorizationFailed,
            ErrorCode::KafkaStorageError,
        ],
        cases: cases(),
    }
}

fn request(topic: &Topic, acks: i16, partitions: Json) -> Json {
    json!({
        "Acks": acks,
        "TimeoutMs": 10_000,
        "TopicData": [{"Name": topic.name, "TopicId": topic.id, "PartitionData": partitions}],
    })
}

/// Produces `records` to partition 0 of `topic` with acks of all.
async fn produce(p: &Probe, topic: &Topic, records: Json) -> Result<Answer, Stop> {
    p.ask(request(
        topic,
        -1,
        json!([{"Index": 0, "Records": records}]),
    ))
    .await
}

fn one(expected: Json) -> Json {
    json!({"Responses": [{"PartitionResponses": [expected]}]})
}

/// Demands that producing `records` fails with `code`, and that nothing is stored.
async fn refuses(p: &Probe, topic: &Topic, records: Json, code: &str) -> Verdict {
    let before = p.end_offset(topic, 0).await?;
    produce(p, topic, records)
        .await?
        .is(one(json!({"Index": 0, "ErrorCode": code})))?;
    expect_eq("the end offset", &before, &p.end_offset(topic, 0).await?)
}

fn cases() -> Vec<Case> {
    let mut cases = appending();
    cases.extend(refusing());
    cases.extend(idempotent());
    cases
}

fn appending() -> Vec<Case> {
    let mut cases = vec![
        Case::new(
            "acks-all",
            "appends and answers the first offset",
            |p| async move {
                let topic = p.topic(1).await?;
                for first in [0, 3] {
                    produce(&p, &topic, batch(3, NOW, BatchOptions::default())?)
                        .await?
                        .is(one(json!({
                            "Index": 0,
                            "ErrorCode": "NONE",
                            "BaseOffset": first,
                            "LogAppendTimeMs": -1,
                            "RecordErrors": [],
                            "ErrorMessage": null,
                        })))?;
                }
                expect_eq("the end offset", &6, &p.end_offset(&topic, 0).await?)
            },
        ),
        Case::new(
            "acks-one",
            "appends when the leader's word is enough",
            |p| async move {
                let topic = p.topic(1).await?;
                let records = batch(1, NOW, BatchOptions::default())?;
                p.ask(request(
                    &topic,
                    1,
                    json!([{"Index": 0, "Records": records}]),
                ))
                .await?
                .is(one(json!({"ErrorCode": "NONE", "BaseOffset": 0})))
            },
        ),
        Case::new("acks-none", "appends without an answer", |p| async move {
            let topic = p.topic(1).await?;
            let records = batch(2, NOW, BatchOptions::default())?;
            p.tell(request(
                &topic,
                0,
                json!([{"Index": 0, "Records": records}]),
            ))
            .await?;
            p.until(Duration::from_secs(5), || async {
                expect_eq("the end offset", &2, &p.end_offset(&topic, 0).await?)
            })
            .await?;
            // The next answer on this connection belongs to the next request.
            produce(&p, &topic, records_of(1)?)
                .await?
                .is(one(json!({"BaseOffset": 2})))
        }),
        Case::new(
            "no-topics",
            "answers an empty list with an empty list",
            |p| async move {
                p.ask(json!({"Acks": -1, "TimeoutMs": 1_000, "TopicData": []}))
                    .await?
                    .is(json!({"Responses": []}))
            },
        ),
        Case::new(
            "each-partition",
            "answers for each partition by itself",
            |p| async move {
                let topic = p.topic(1).await?;
                let records = records_of(1)?;
                p.ask(request(
                    &topic,
                    -1,
                    json!([{"Index": 0, "Records": records}, {"Index": 7, "Records": records}]),
                ))
                .await?
                .is(json!({"Responses": [{"PartitionResponses": {
                    "<count>": 2,
                    "<some>": {"Index": 0, "ErrorCode": "NONE", "BaseOffset": 0},
                }}]}))
            },
        ),
    ];
    for (name, title, codec, from) in [
        (
            "gzip",
            "takes batches compressed with gzip",
            Compression::Gzip,
            3,
        ),
        (
            "snappy",
            "takes batches compressed with snappy",
            Compression::Snappy,
            3,
        ),
        (
            "lz4",
            "takes batches compressed with lz4",
            Compression::Lz4,
            3,
        ),
        (
            "zstd",
            "takes batches compressed with zstd",
            Compression::Zstd,
            7,
        ),
    ] {
        let case = Case::new(name, title, move |p| async move {
            let topic = p.topic(1).await?;
            let options = BatchOptions {
                compression: codec,
                ..BatchOptions::default()
            };
            let records = batch(500, NOW, options)?;
            produce(&p, &topic, records)
                .await?
                .is(one(json!({"ErrorCode": "NONE", "BaseOffset": 0})))?;
            expect_eq("the end offset", &500, &p.end_offset(&topic, 0).await?)
        });
        cases.push(case.from(from));
    }
    cases
}

fn records_of(count: usize) -> Result<Json, Stop> {
    batch(count, NOW, BatchOptions::default())
}

fn refusing() -> Vec<Case> {
    vec![
        Case::new(
            "illegal-acks",
            "knows only acks of 0, 1 and all",
            |p| async move {
                let topic = p.topic(1).await?;
                let records = records_of(1)?;
                for acks in [2, -2, i16::MAX] {
                    p.ask(request(
                        &topic,
                        acks,
                        json!([{"Index": 0, "Records": records}]),
                    ))
                    .await?
                    .is(one(json!({"ErrorCode": "INVALID_REQUIRED_ACKS"})))?;
                }
                Ok(())
            },
        ),
        Case::new(
            "unknown-partition",
            "refuses a partition that is not there",
            |p| async move {
                let topic = p.topic(1).await?;
                for index in [1, 1_000_000, i32::MAX, -1] {
                    p.ask(request(
                        &topic,
                        -1,
                        json!([{"Index": index, "Records": records_of(1)?}]),
                    ))
                    .await?
                    .is(one(
                        json!({"Index": index, "ErrorCode": "UNKNOWN_TOPIC_OR_PARTITION"}),
                    ))?;
                }
                Ok(())
            },
        ),
        Case::new(
            "unknown-topic-id",
            "refuses an id of no topic",
            |p| async move {
                let topic = Topic {
                    name: String::new(),
                    id: "_____________________w".into(),
                };
                produce(&p, &topic, records_of(1)?)
                    .await?
                    .is(one(json!({"ErrorCode": "UNKNOWN_TOPIC_ID"})))
            },
        )
        .from(13)
        .kips(&[516]),
        Case::new(
            "corrupt",
            "refuses a batch whose checksum is wrong",
            |p| async move {
                let topic = p.topic(1).await?;
                let broken = spoiled(&records_of(3)?, |bytes| {
                    let last = bytes.len() - 1;
                    bytes[last] ^= 1;
                });
                refuses(&p, &topic, broken, "CORRUPT_MESSAGE").await
            },
        ),
        Case::new(
            "old-format",
            "refuses message formats before version 2",
            |p| async move {
                let topic = p.topic(1).await?;
                let old = spoiled(&records_of(1)?, |bytes| bytes[16] = 1);
                produce(&p, &topic, old).await?.is(one(json!({
                    "ErrorCode": "INVALID_RECORD",
                })))
            },
        ),
        Case::new(
            "two-batches",
            "takes one batch per partition",
            |p| async move {
                let topic = p.topic(1).await?;
                let text = records_of(1)?;
                let text = text.as_str().unwrap_or_default();
                let twice = format!("{text}{}", text.trim_start_matches("hex:"));
                refuses(&p, &topic, json!(twice), "INVALID_RECORD").await
            },
        ),
        Case::new(
            "no-batch",
            "refuses a partition without a batch",
            |p| async move {
                let topic = p.topic(1).await?;
                refuses(&p, &topic, json!(""), "INVALID_RECORD").await
            },
        ),
        Case::new(
            "control-batch",
            "lets no client write control records",
            |p| async move {
                let topic = p.topic(1).await?;
                let options = BatchOptions {
                    control: true,
                    ..BatchOptions::default()
                };
                refuses(&p, &topic, batch(1, NOW, options)?, "INVALID_RECORD").await
            },
        ),
        Case::new(
            "zstd-too-early",
            "refuses zstd from clients that may not read it",
            |p| async move {
                let topic = p.topic(1).await?;
                let options = BatchOptions {
                    compression: Compression::Zstd,
                    ..BatchOptions::default()
                };
                refuses(
                    &p,
                    &topic,
                    batch(500, NOW, options)?,
                    "UNSUPPORTED_COMPRESSION_TYPE",
                )
                .await
            },
        )
        .to(6)
        .kips(&[110]),
    ]
}

/// The batch in `records` with its bytes changed.
fn spoiled(records: &Json, change: impl FnOnce(&mut Vec<u8>)) -> Json {
    let digits = records
        .as_str()
        .unwrap_or_default()
        .trim_start_matches("hex:");
    let mut bytes: Vec<u8> = (0..digits.len() / 2)
        .map(|at| u8::from_str_radix(&digits[2 * at..2 * at + 2], 16).unwrap_or_default())
        .collect();
    change(&mut bytes);
    super::stage::hex(&bytes)
}

fn idempotent() -> Vec<Case> {
    vec![
        Case::new(
            "idempotent",
            "stores a batch that is sent twice once",
            |p| async move {
                let (topic, id) = (p.topic(1).await?, p.producer_id().await?);
                for (sequence, offset) in [(0, 0), (2, 2), (2, 2), (0, 0), (4, 4)] {
                    produce(&p, &topic, sequenced(id, 0, sequence)?)
                        .await?
                        .is(one(json!({"ErrorCode": "NONE", "BaseOffset": offset})))?;
                }
                expect_eq("the end offset", &6, &p.end_offset(&topic, 0).await?)
            },
        )
        .kips(&[98]),
        Case::new(
            "sequence-gap",
            "refuses a batch after a lost one",
            |p| async move {
                let (topic, id) = (p.topic(1).await?, p.producer_id().await?);
                produce(&p, &topic, sequenced(id, 0, 0)?)
                    .await?
                    .is(one(json!({"ErrorCode": "NONE"})))?;
                refuses(
                    &p,
                    &topic,
                    sequenced(id, 0, 9)?,
                    "OUT_OF_ORDER_SEQUENCE_NUMBER",
                )
                .await?;
                produce(&p, &topic, sequenced(id, 0, 2)?)
                    .await?
                    .is(one(json!({"ErrorCode": "NONE", "BaseOffset": 2})))
            },
        )
        .kips(&[98]),
        Case::new(
            "stale-epoch",
            "fences a producer that was succeeded",
            |p| async move {
                let (topic, id) = (p.topic(1).await?, p.producer_id().await?);
                produce(&p, &topic, sequenced(id, 1, 0)?)
                    .await?
                    .is(one(json!({"ErrorCode": "NONE"})))?;
                refuses(&p, &topic, sequenced(id, 0, 2)?, "INVALID_PRODUCER_EPOCH").await
            },
        )
        .kips(&[98]),
        Case::new(
            "epoch-starts-at-zero",
            "demands sequence 0 after a new epoch",
            |p| async move {
                let (topic, id) = (p.topic(1).await?, p.producer_id().await?);
                produce(&p, &topic, sequenced(id, 0, 0)?)
                    .await?
                    .is(one(json!({"ErrorCode": "NONE"})))?;
                refuses(
                    &p,
                    &topic,
                    sequenced(id, 1, 2)?,
                    "OUT_OF_ORDER_SEQUENCE_NUMBER",
                )
                .await?;
                produce(&p, &topic, sequenced(id, 1, 0)?)
                    .await?
                    .is(one(json!({"ErrorCode": "NONE", "BaseOffset": 2})))
            },
        )
        .kips(&[360]),
    ]
}

/// Two records of an idempotent producer.
fn sequenced(id: i64, epoch: i16, base_sequence: i32) -> Result<Json, Stop> {
    let producer = ProducerFields {
        id,
        epoch,
        base_sequence,
    };
    batch(
        2,
        NOW,
        BatchOptions {
            producer,
            ..BatchOptions::default()
        },
    )
}
