//! ListOffsets (key 2): versions 1 to 11.
//!
//! - Earliest (−2, and −4: nothing is tiered) is the log start or the floor of deleted records;
//!   latest (−1) the high watermark, whatever the isolation level; latest tiered (−5) and
//!   earliest pending upload (−6) are none.
//! - A time finds the first offset, in offset order, whose timestamp is at least that, as Kafka's;
//!   −1 only when the log has none. MAX_TIMESTAMP (−3) finds the first record with the largest.
//! - A partition that is asked for twice is INVALID_REQUEST, each time, as Kafka's.
//! - A lookup that can't be finished in time is a retriable error, and goes on where it stopped.
//! - Leader epoch −1: unknown, as in Metadata; a client that knows a later one than 0 is told
//!   UNKNOWN_LEADER_EPOCH.
//!
//! v1: one offset. v2: isolation. v4: leader epoch. v6: flexible. v7: MAX_TIMESTAMP. v8: earliest
//! local. v9: latest tiered. v10: timeout. v11: earliest pending upload.

use std::sync::Arc;
use std::time::Duration;

use futures::future::BoxFuture;
use futures::{FutureExt, StreamExt, stream};
use indexmap::IndexMap;
use indexmap::map::Entry;
use kafka_protocol::messages::list_offsets_response::{
    ListOffsetsPartitionResponse, ListOffsetsTopicResponse,
};
use kafka_protocol::messages::{ListOffsetsRequest, ListOffsetsResponse};
use kafka_wire::ErrorCode;

use crate::context::Context;
use crate::fetch::bounds::{self, Asked, Bounds};
use crate::leader_epoch;
use crate::queen::{Error, FetchEntry};
use crate::time_index::PartitionKey;
use crate::time_index::lookup::{self, Found, Log, ReadTimes, TimedOffset};
use crate::upstream_errors::{self, Api};

const LATEST: i64 = -1;
const EARLIEST: i64 = -2;
const MAX_TIMESTAMP: i64 = -3;
const EARLIEST_LOCAL: i64 = -4;
const LATEST_TIERED: i64 = -5;
const EARLIEST_PENDING_UPLOAD: i64 = -6;
/// Kafka's "there is none".
const NONE: i64 = -1;

/// Lookups by time of one request that read at the same time.
const LOOKUPS_AT_ONCE: usize = 8;
/// How long the lookups of a request may take: below the clients' 30 s.
const LOOKUP_TIME: Duration = Duration::from_secs(20);
/// What one read of a lookup asks for, in Queen's compressed bytes.
const READ_BYTES: u32 = 1 << 20;

/// One partition of the request.
struct Question {
    topic: usize,
    partition: i32,
    timestamp: i64,
    asked: Result<Asked, ErrorCode>,
}

/// A timestamp and an offset, or why there's none.
type Answer = Result<(i64, i64), ErrorCode>;

/// Answers a ListOffsets request.
pub async fn handle(cx: &Context, request: ListOffsetsRequest) -> ListOffsetsResponse {
    let questions = questions(cx, &request).await;
    let known: Vec<Asked> = questions
        .iter()
        .filter_map(|q| q.asked.clone().ok())
        .collect();
    let mut bounds = bounds::read(cx, Api::ListOffsets, &known).await.into_iter();
    let deadline = tokio::time::Instant::now() + LOOKUP_TIME;
    let answers = questions.iter().map(|question| {
        let judged = match &question.asked {
            Ok(asked) => bounds
                .next()
                .unwrap_or(Err(ErrorCode::UnknownServerError))
                .map(|bounds| (asked.clone(), bounds)),
            Err(code) => Err(*code),
        };
        let timestamp = question.timestamp;
        async move {
            // There may be a hundred thousand of them, and none that waits.
            tokio::task::coop::consume_budget().await;
            let (asked, bounds) = judged?;
            let found = tokio::time::timeout_at(deadline, answer(cx, &asked, bounds, timestamp));
            found.await.unwrap_or(Err(ErrorCode::RequestTimedOut))
        }
        .boxed()
    });
    let answers: Vec<BoxFuture<'_, Answer>> = answers.collect();
    let answers: Vec<Answer> = stream::iter(answers)
        .buffered(LOOKUPS_AT_ONCE)
        .collect()
        .await;
    respond(request, &questions, answers)
}

async fn questions(cx: &Context, request: &ListOffsetsRequest) -> Vec<Question> {
    let (scope, credential) = (&cx.session.scope, &cx.session.credential);
    let names = || request.topics.iter().map(|topic| topic.name.as_str());
    let view = cx
        .node
        .catalogue
        .view_for(scope, credential, |view| view.lacks(names()))
        .await;
    let mut questions = Vec::new();
    let mut seen: IndexMap<(&str, i32), usize> = IndexMap::new();
    for (index, topic) in request.topics.iter().enumerate() {
        for partition in &topic.partitions {
            let timestamp = partition.timestamp;
            let asked = if is_served(timestamp, cx.version) {
                let number = partition.partition_index;
                leader_epoch::check(partition.current_leader_epoch).and_then(|()| {
                    bounds::find(&view, Api::ListOffsets, cx.version, &topic.name, number)
                })
            } else {
                Err(ErrorCode::UnsupportedVersion)
            };
            let mut question = Question {
                topic: index,
                partition: partition.partition_index,
                timestamp,
                asked,
            };
            match seen.entry((&topic.name, question.partition)) {
                Entry::Vacant(first) => {
                    first.insert(questions.len());
                }
                Entry::Occupied(first) => {
                    question.asked = Err(ErrorCode::InvalidRequest);
                    let first: Option<&mut Question> = questions.get_mut(*first.get());
                    if let Some(first) = first {
                        first.asked = Err(ErrorCode::InvalidRequest);
                    }
                }
            }
            questions.push(question);
        }
    }
    questions
}

/// Whether a timestamp means something in `version`.
const fn is_served(timestamp: i64, version: i16) -> bool {
    match timestamp {
        LATEST | EARLIEST => true,
        MAX_TIMESTAMP => version >= 7,
        EARLIEST_LOCAL => version >= 8,
        LATEST_TIERED => version >= 9,
        EARLIEST_PENDING_UPLOAD => version >= 11,
        time => time >= 0,
    }
}

async fn answer(cx: &Context, asked: &Asked, bounds: Bounds, timestamp: i64) -> Answer {
    let node = &cx.node;
    let log = Log {
        partition: PartitionKey {
            topic_id: asked.topic.id,
            partition: asked.partition,
        },
        start: bounds.log_start,
        end: bounds.high_watermark,
    };
    let times = Times { cx, asked };
    let found = match timestamp {
        LATEST => return Ok((NONE, bounds.high_watermark)),
        EARLIEST | EARLIEST_LOCAL => return Ok((NONE, bounds.log_start)),
        LATEST_TIERED | EARLIEST_PENDING_UPLOAD => return Ok((NONE, NONE)),
        MAX_TIMESTAMP => lookup::largest(&node.time_index, &times, log).await,
        time => lookup::first_at_or_after(&node.time_index, &times, log, time).await,
    };
    match found {
        Ok(Found { record, guessed }) => {
            if guessed {
                node.fetching.metrics.guessed_times.inc();
            }
            Ok(record.map_or((NONE, NONE), |record| (record.timestamp, record.offset)))
        }
        Err(error) => Err(upstream_errors::answer(Api::ListOffsets, cx.version, &error).code),
    }
}

/// The times of one partition's records.
struct Times<'c> {
    cx: &'c Context,
    asked: &'c Asked,
}

impl ReadTimes for Times<'_> {
    type Error = Error;

    fn read(&self, offset: i64, most: bool) -> BoxFuture<'_, Result<Vec<TimedOffset>, Error>> {
        async move {
            let entry = FetchEntry {
                queue: &self.asked.topic.name,
                partition: self.asked.partition,
                offset,
                max_bytes: if most { READ_BYTES } else { 1 },
            };
            let credential = &self.cx.session.credential;
            let queen = Arc::clone(&self.cx.node.queen);
            let fetched = queen.fetch(credential, &[entry], Duration::ZERO, 0).await?;
            let records = fetched.lane(0).into_iter().flat_map(|lane| lane.records());
            let times = records.map(|record| TimedOffset {
                offset: record.offset(),
                timestamp: record.timestamp_ms(),
            });
            Ok(times.collect())
        }
        .boxed()
    }
}

fn respond(
    request: ListOffsetsRequest,
    questions: &[Question],
    answers: Vec<Answer>,
) -> ListOffsetsResponse {
    let mut topics: Vec<ListOffsetsTopicResponse> = request
        .topics
        .into_iter()
        .map(|topic| ListOffsetsTopicResponse::default().with_name(topic.name))
        .collect();
    for (question, answer) in questions.iter().zip(answers) {
        let response = ListOffsetsPartitionResponse::default()
            .with_partition_index(question.partition)
            .with_leader_epoch(-1);
        let response = match answer {
            Ok((timestamp, offset)) => response.with_timestamp(timestamp).with_offset(offset),
            Err(code) => response
                .with_error_code(code.code())
                .with_timestamp(NONE)
                .with_offset(NONE),
        };
        if let Some(topic) = topics.get_mut(question.topic) {
            topic.partitions.push(response);
        }
    }
    ListOffsetsResponse::default().with_topics(topics)
}
