//! Fetch (1).

use std::time::Duration;

use kafka_wire::{ApiKey, ErrorCode};
use serde_json::{Value as Json, json};
use tokio::time::{Instant, sleep};

use super::case::{Api, Case};
use super::stage::{Topic, offsets_of};
use super::{Answer, Probe};
use crate::spec::{Stop, Verdict, ensure, expect_eq};

const NOW: i64 = 1_700_000_000_000;
const PATH: &str = "Responses[0].Partitions[0]";

pub(super) fn api() -> Api {
    Api {
        key: ApiKey::FETCH,
        sample: || request(&nowhere(), 0, 0, 0),
        // The Java consumer takes any other code for a broken broker and dies.
        legal: &[
            ErrorCode::OffsetOutOfRange,
            ErrorCode::UnknownTopicOrPartition,
            ErrorCode::UnknownTopicId,
            ErrorCode::InconsistentTopicId,
            ErrorCode::NotLeaderOrFollower,
            ErrorCode::ReplicaNotAvailable,
            ErrorCode::KafkaStorageError,
            ErrorCode::FencedLeaderEpoch,
            ErrorCode::UnknownLeaderEpoch,
            ErrorCode::OffsetNotAvailable,
            ErrorCode::TopicAuthorizationFailed,
            ErrorCode::UnknownServerError,
            ErrorCode::CorruptMessage,
            ErrorCode::FetchSessionIdNotFound,
            ErrorCode::InvalidFetchSessionEpoch,
            ErrorCode::FetchSessionTopicIdError,
        ],
        cases: cases(),
    }
}

fn nowhere() -> Topic {
    Topic {
        name: "not a topic".into(),
        id: "_____________________w".into(),
    }
}

/// A fetch outside any session.
fn request(topic: &Topic, partition: i32, offset: i64, max_wait_ms: i32) -> Json {
    json!({
        "ReplicaId": -1,
        "MaxWaitMs": max_wait_ms,
        "MinBytes": 1,
        "MaxBytes": 50_000_000,
        "SessionEpoch": -1,
        "Topics": [{
            "Topic": topic.name,
            "TopicId": topic.id,
            "Partitions": [{
                "Partition": partition,
                "CurrentLeaderEpoch": -1,
                "FetchOffset": offset,
                "LastFetchedEpoch": -1,
                "LogStartOffset": -1,
                "PartitionMaxBytes": 1_000_000,
            }],
        }],
    })
}

fn one(expected: Json) -> Json {
    json!({"ErrorCode": "NONE", "Responses": [{"Partitions": [expected]}]})
}

async fn refuses(p: &Probe, request: Json, code: &str) -> Verdict {
    p.ask(request).await?.is(one(json!({"ErrorCode": code})))
}

/// The offsets of the records at [`PATH`].
fn offsets(answer: &Answer) -> Result<Vec<i64>, Stop> {
    offsets_of(answer.at(&format!("{PATH}.Records"))?)
}

/// A topic with `count` records in its only partition.
async fn filled(p: &Probe, count: usize) -> Result<Topic, Stop> {
    let topic = p.topic(1).await?;
    p.append(&topic, 0, count, NOW).await?;
    Ok(topic)
}

fn cases() -> Vec<Case> {
    let mut cases = reading();
    cases.extend(refusing());
    cases.extend(waiting());
    cases.extend(sessions());
    cases
}

fn reading() -> Vec<Case> {
    vec![
        Case::new(
            "from-start",
            "reads every record and both ends of the log",
            |p| async move {
                let topic = filled(&p, 3).await?;
                let answer = p.ask(request(&topic, 0, 0, 1_000)).await?;
                answer.is(json!({
                    "ThrottleTimeMs": "<at least 0>",
                    "ErrorCode": "NONE",
                    "SessionId": 0,
                    "Responses": [{"Topic": topic.name, "TopicId": topic.id, "Partitions": [{
                        "PartitionIndex": 0,
                        "ErrorCode": "NONE",
                        "HighWatermark": 3,
                        "LastStableOffset": 3,
                        "LogStartOffset": 0,
                        "Records": "<not empty>",
                    }]}],
                }))?;
                expect_eq("the offsets read", &vec![0, 1, 2], &offsets(&answer)?)
            },
        ),
        Case::new("from-middle", "reads from any offset", |p| async move {
            let topic = filled(&p, 5).await?;
            p.append(&topic, 0, 5, NOW).await?;
            for from in [1, 4, 7, 9] {
                let answer = p.ask(request(&topic, 0, from, 1_000)).await?;
                answer.is(one(json!({"ErrorCode": "NONE", "HighWatermark": 10})))?;
                // A batch may be handed over whole: what stands before the offset is for the client to skip.
                let read: Vec<i64> = offsets(&answer)?
                    .into_iter()
                    .filter(|at| *at >= from)
                    .collect();
                expect_eq(
                    &format!("the offsets read from {from}"),
                    &(from..10).collect(),
                    &read,
                )?;
            }
            Ok(())
        }),
        Case::new(
            "at-end",
            "reads nothing at the end of the log",
            |p| async move {
                let topic = filled(&p, 3).await?;
                let answer = p.ask(request(&topic, 0, 3, 0)).await?;
                answer.is(one(json!({"ErrorCode": "NONE", "HighWatermark": 3})))?;
                expect_eq("the offsets read", &Vec::new(), &offsets(&answer)?)
            },
        ),
        Case::new(
            "committed",
            "reads the same when only committed records are wanted",
            |p| async move {
                let topic = filled(&p, 3).await?;
                let mut request = request(&topic, 0, 0, 1_000);
                request["IsolationLevel"] = json!(1);
                let answer = p.ask(request).await?;
                answer.is(one(json!({"ErrorCode": "NONE", "LastStableOffset": 3})))?;
                expect_eq("the offsets read", &vec![0, 1, 2], &offsets(&answer)?)
            },
        )
        .kips(&[98]),
        Case::new(
            "small-max-bytes",
            "hands over the first batch whatever its size",
            |p| async move {
                let topic = filled(&p, 100).await?;
                let mut request = request(&topic, 0, 0, 1_000);
                request["MaxBytes"] = json!(1);
                request["Topics"][0]["Partitions"][0]["PartitionMaxBytes"] = json!(1);
                let answer = p.ask(request).await?;
                answer.is(one(json!({"ErrorCode": "NONE"})))?;
                ensure(offsets(&answer)?.first() == Some(&0), || {
                    "a reader with small limits makes no progress".into()
                })
            },
        )
        .kips(&[74]),
        Case::new(
            "no-topics",
            "answers an empty list with an empty list",
            |p| async move {
                let mut request = request(&nowhere(), 0, 0, 0);
                request["Topics"] = json!([]);
                p.ask(request)
                    .await?
                    .is(json!({"ErrorCode": "NONE", "Responses": []}))
            },
        ),
    ]
}

fn refusing() -> Vec<Case> {
    vec![
        Case::new(
            "out-of-range",
            "refuses offsets outside the log",
            |p| async move {
                let topic = filled(&p, 3).await?;
                for offset in [4, i64::MAX, -1, i64::MIN] {
                    refuses(&p, request(&topic, 0, offset, 0), "OFFSET_OUT_OF_RANGE").await?;
                }
                Ok(())
            },
        ),
        Case::new(
            "unknown-partition",
            "refuses a partition that is not there",
            |p| async move {
                let topic = filled(&p, 1).await?;
                for partition in [1, i32::MAX, -1] {
                    refuses(
                        &p,
                        request(&topic, partition, 0, 0),
                        "UNKNOWN_TOPIC_OR_PARTITION",
                    )
                    .await?;
                }
                Ok(())
            },
        ),
        Case::new(
            "unknown-topic",
            "refuses a topic that is not there",
            |p| async move {
                let topic = Topic {
                    name: p.unique("nowhere"),
                    ..nowhere()
                };
                refuses(&p, request(&topic, 0, 0, 0), "UNKNOWN_TOPIC_OR_PARTITION").await
            },
        )
        .to(12),
        Case::new(
            "unknown-topic-id",
            "refuses an id of no topic",
            |p| async move { refuses(&p, request(&nowhere(), 0, 0, 0), "UNKNOWN_TOPIC_ID").await },
        )
        .from(13)
        .kips(&[516]),
        Case::new(
            "future-epoch",
            "knows that it has not led in a later epoch",
            |p| async move {
                let topic = filled(&p, 1).await?;
                let mut request = request(&topic, 0, 0, 0);
                request["Topics"][0]["Partitions"][0]["CurrentLeaderEpoch"] = json!(1_000_000);
                refuses(&p, request, "UNKNOWN_LEADER_EPOCH").await
            },
        )
        .from(9)
        .kips(&[320]),
    ]
}

fn waiting() -> Vec<Case> {
    vec![
        Case::new(
            "waits",
            "waits for records as long as it may",
            |p| async move {
                let topic = filled(&p, 1).await?;
                let began = Instant::now();
                let answer = p.ask(request(&topic, 0, 1, 400)).await?;
                let waited = began.elapsed();
                answer.is(one(json!({"ErrorCode": "NONE", "HighWatermark": 1})))?;
                ensure(waited >= Duration::from_millis(350), || {
                    format!(
                        "asked to wait 400 ms, it answered after {} ms",
                        waited.as_millis()
                    )
                })
            },
        ),
        Case::new(
            "woken",
            "answers as soon as a record comes",
            |p| async move {
                let topic = filled(&p, 1).await?;
                let writer = p.another().await;
                let began = Instant::now();
                let (answer, written) = tokio::join!(p.ask(request(&topic, 0, 1, 8_000)), async {
                    sleep(Duration::from_millis(150)).await;
                    writer.append(&topic, 0, 1, NOW).await
                });
                written?;
                expect_eq("the offsets read", &vec![1], &offsets(&answer?)?)?;
                let waited = began.elapsed();
                p.cx.record.fact(
                    "woken after ms",
                    u64::try_from(waited.as_millis()).unwrap_or(u64::MAX),
                );
                ensure(waited < Duration::from_secs(4), || {
                    format!("it answered after {} ms", waited.as_millis())
                })
            },
        ),
    ]
}

fn sessions() -> Vec<Case> {
    vec![
        Case::new("session", "tells only what has changed since the last answer", |p| async move {
            let topic = filled(&p, 1).await?;
            let mut full = request(&topic, 0, 0, 0);
            full["SessionEpoch"] = json!(0);
            let answer = p.ask(full).await?;
            answer.is(json!({"ErrorCode": "NONE", "SessionId": "<at least 1>"}))?;
            expect_eq("the offsets read", &vec![0], &offsets(&answer)?)?;
            let session = answer.int("SessionId")?;
            let mut advanced = request(&topic, 0, 1, 0);
            advanced["SessionId"] = json!(session);
            advanced["SessionEpoch"] = json!(1);
            p.ask(advanced.clone()).await?.is(json!({"ErrorCode": "NONE", "SessionId": session, "Responses": []}))?;
            p.append(&topic, 0, 1, NOW).await?;
            let mut nothing_new = advanced.clone();
            nothing_new["SessionEpoch"] = json!(2);
            nothing_new["Topics"] = json!([]);
            let answer = p.ask(nothing_new).await?;
            answer.is(json!({"ErrorCode": "NONE", "SessionId": session, "Responses": [{"Partitions": [{"HighWatermark": 2}]}]}))?;
            expect_eq("the offsets read", &vec![1], &offsets(&answer)?)?;
            let mut forgets = advanced;
            forgets["SessionEpoch"] = json!(3);
            forgets["Topics"] = json!([]);
            forgets["ForgottenTopicsData"] = json!([{"Topic": topic.name, "TopicId": topic.id, "Partitions": [0]}]);
            p.ask(forgets).await?.is(json!({"ErrorCode": "NONE", "Responses": []}))
        })
        .from(7)
        .kips(&[227]),
        Case::new("session-epoch", "refuses a session out of step", |p| async move {
            let topic = filled(&p, 1).await?;
            let mut full = request(&topic, 0, 0, 0);
            full["SessionEpoch"] = json!(0);
            let session = p.ask(full).await?.int("SessionId")?;
            let mut late = request(&topic, 0, 1, 0);
            late["SessionId"] = json!(session);
            late["SessionEpoch"] = json!(5);
            p.ask(late).await?.is(json!({"ErrorCode": "INVALID_FETCH_SESSION_EPOCH"}))
        })
        .from(7)
        .kips(&[227]),
        Case::new("unknown-session", "refuses a session it does not hold", |p| async move {
            let mut request = request(&nowhere(), 0, 0, 0);
            request["SessionId"] = json!(1_234_567);
            request["SessionEpoch"] = json!(1);
            p.ask(request).await?.is(json!({"ErrorCode": "FETCH_SESSION_ID_NOT_FOUND", "Responses": []}))
        })
        .from(7)
        .kips(&[227]),
    ]
}
