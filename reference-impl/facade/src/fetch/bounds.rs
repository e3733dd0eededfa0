//! Asks for the bounds of logs, without records.

use std::sync::Arc;

use futures::StreamExt;
use futures::stream;
use kafka_wire::ErrorCode;

use crate::catalogue::{Lookup, Topic, View};
use crate::context::Context;
use crate::floors;
use crate::queen::{BOUNDS_PROBE, Error, FetchEntry, LaneStatus, MAX_FETCH_ENTRIES};
use crate::upstream_errors::{self, Api};
use std::time::Duration;

/// Calls of one request at a time.
const CALLS_AT_ONCE: usize = 4;

/// The bounds of one partition's log, as Kafka clients see them.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Bounds {
    /// The first offset that may be read.
    pub log_start: i64,
    /// The offset the next record will receive.
    pub high_watermark: i64,
}

/// A partition whose bounds are asked for.
#[derive(Clone, Debug)]
pub struct Asked {
    /// Its topic.
    pub topic: Arc<Topic>,
    /// Its number, inside the width.
    pub partition: i32,
}

/// Finds the partition of a topic named in a request.
///
/// # Errors
///
/// The code for one that can't be served.
pub fn find(
    view: &View,
    api: Api,
    version: i16,
    topic: &str,
    partition: i32,
) -> Result<Asked, ErrorCode> {
    match view.lookup(topic) {
        Lookup::Found(topic) if topic.has_partition(partition) => Ok(Asked { topic, partition }),
        Lookup::Found(_) | Lookup::Absent | Lookup::Illegal(_) => {
            Err(ErrorCode::UnknownTopicOrPartition)
        }
        Lookup::Failed(error) => Err(upstream_errors::answer(api, version, &error).code),
        Lookup::Later => Err(ErrorCode::LeaderNotAvailable),
    }
}

/// The bounds of `asked`, in that order, with the floors of the tenant applied.
pub async fn read(cx: &Context, api: Api, asked: &[Asked]) -> Vec<Result<Bounds, ErrorCode>> {
    let (scope, credential) = (&cx.session.scope, &cx.session.credential);
    let floors = match cx.node.floors.table(scope, credential).await {
        Ok(floors) => floors,
        Err(error) => {
            let code = upstream_errors::answer(api, cx.version, &error).code;
            // Nothing can be told without them.
            let code = match code {
                ErrorCode::None => ErrorCode::NotLeaderOrFollower,
                code => code,
            };
            return vec![Err(code); asked.len()];
        }
    };
    let chunks: Vec<Vec<Asked>> = asked
        .chunks(MAX_FETCH_ENTRIES)
        .map(<[Asked]>::to_vec)
        .collect();
    let calls = chunks.into_iter().map(|chunk| probe(cx, chunk));
    let answers: Vec<_> = stream::iter(calls).buffered(CALLS_AT_ONCE).collect().await;
    let mut bounds = Vec::with_capacity(asked.len());
    let mut unknown = false;
    for (chunk, answer) in answers {
        for (index, asked) in chunk.iter().enumerate() {
            let lane = match &answer {
                Ok(lanes) => lanes.get(index).copied(),
                Err(error) => {
                    bounds.push(Err(upstream_errors::answer(api, cx.version, error).code));
                    continue;
                }
            };
            let Some((status, log_start, high)) = lane else {
                bounds.push(Err(ErrorCode::UnknownServerError));
                continue;
            };
            unknown |= status == LaneStatus::Unknown;
            bounds.push(apply(&floors, asked, status, log_start, high));
        }
    }
    if unknown {
        confirm(cx, asked, &mut bounds).await;
    }
    bounds
}

fn apply(
    floors: &floors::Table,
    asked: &Asked,
    status: LaneStatus,
    log_start: i64,
    high_watermark: i64,
) -> Result<Bounds, ErrorCode> {
    match status {
        LaneStatus::Failed => Err(ErrorCode::UnknownServerError),
        LaneStatus::Unknown => Err(ErrorCode::UnknownTopicOrPartition),
        LaneStatus::Ok | LaneStatus::OffsetOutOfRange => Ok(Bounds {
            log_start: floors.log_start(&asked.topic, asked.partition, log_start, high_watermark),
            high_watermark,
        }),
    }
}

/// Before Queen 1.4 a lane that was never pushed to is as unknown as a missing queue: where the
/// topic is still there, it's an empty log.
async fn confirm(cx: &Context, asked: &[Asked], bounds: &mut [Result<Bounds, ErrorCode>]) {
    let (scope, credential) = (&cx.session.scope, &cx.session.credential);
    let Ok(view) = cx.node.catalogue.fresh_view(scope, credential).await else {
        return;
    };
    for (asked, bounds) in asked.iter().zip(bounds) {
        let there = || match view.lookup(&asked.topic.name) {
            Lookup::Found(topic) => topic.id == asked.topic.id,
            _ => false,
        };
        if *bounds == Err(ErrorCode::UnknownTopicOrPartition) && there() {
            *bounds = Ok(Bounds {
                log_start: 0,
                high_watermark: 0,
            });
        }
    }
}

type Lanes = Vec<(LaneStatus, i64, i64)>;

async fn probe(cx: &Context, chunk: Vec<Asked>) -> (Vec<Asked>, Result<Lanes, Error>) {
    let entries: Vec<FetchEntry<'_>> = chunk
        .iter()
        .map(|asked| FetchEntry {
            queue: &asked.topic.name,
            partition: asked.partition,
            offset: BOUNDS_PROBE,
            max_bytes: 1,
        })
        .collect();
    let credential = &cx.session.credential;
    let answer = cx
        .node
        .queen
        .fetch(credential, &entries, Duration::ZERO, 0)
        .await;
    let lanes = answer.map(|fetched| {
        let lanes = fetched.lanes();
        lanes
            .map(|lane| {
                (
                    lane.status(),
                    lane.log_start_offset(),
                    lane.high_watermark(),
                )
            })
            .collect()
    });
    (chunk, lanes)
}
