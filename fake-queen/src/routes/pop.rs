//! `GET /api/v1/pop/queue/:queue[/partition/:partition]` and `GET /api/v1/pop`: leased batches for
//! native groups. Contract section 4.10.
//! A claim is durable before it is answered. 204 without a body when nothing is handed out, unless
//! there is something to say about conflation. `wait` parks until a push, an expiring lease or
//! `timeout`. A queue-scoped pop makes the queue, because a group may subscribe first.

use std::sync::Arc;
use std::time::Duration;

use http::StatusCode;

use super::Call;
use crate::engine::native::QUEUE_MODE;
use crate::engine::native::claim::{Scope, Want};
use crate::engine::native::pop::{self, Popped};
use crate::engine::native::rows::Start;
use crate::engine::segment::{Segment, records};
use crate::http::error::ApiError;
use crate::http::reply::Reply;
use crate::{ids, json, time};

/// Records when no `batch` is named.
const DEFAULT_BATCH: usize = 200;
/// Records of one answer, whatever `batch` says.
const MAX_BATCH: usize = 10_000;
/// Lanes that a conflating or self-sizing pop takes, and so the records of a conflating one.
const SWEEP: usize = 64;
/// `timeout` when none is named, milliseconds.
const DEFAULT_TIMEOUT_MS: u64 = 30_000;
/// Longest wait, milliseconds.
const MAX_TIMEOUT_MS: u64 = 300_000;
/// Longest group name.
const MAX_GROUP_CHARS: usize = 255;

/// Pops from every lane of a queue.
///
/// # Errors
/// 400 for the parameters, 500 for the store.
pub async fn queue(call: &Call<'_>, queue: &str) -> Result<Reply, ApiError> {
    if queue.chars().count() > super::push::MAX_QUEUE_NAME_CHARS {
        return Err(ApiError::BadRequest("queue name too long"));
    }
    answer(call, Scope::Queue(queue.into()), queue).await
}

/// Pops from one lane.
///
/// # Errors
/// As [`queue`].
pub async fn lane(call: &Call<'_>, queue: &str, lane: &str) -> Result<Reply, ApiError> {
    answer(call, Scope::Lane(queue.into(), lane.into()), queue).await
}

/// Pops from the queues of a namespace or task.
///
/// # Errors
/// As [`queue`].
pub async fn discover(call: &Call<'_>) -> Result<Reply, ApiError> {
    let filter = |name| call.parameter(name).filter(|value| !value.is_empty());
    let (namespace, task) = (filter("namespace"), filter("task"));
    if namespace.is_none() && task.is_none() {
        let body = r#"{"success":false,"error":"namespace or task is required","messages":[]}"#;
        return Ok(Reply::json(StatusCode::BAD_REQUEST, body));
    }
    answer(call, Scope::Discover { namespace, task }, "").await
}

/// What the query asks for.
struct Asked {
    want: Want,
    wait: Duration,
    /// Sizes that the broker chose, when it was asked to: lanes and records.
    chosen: Option<(usize, usize)>,
}

async fn answer(call: &Call<'_>, scope: Scope, queue: &str) -> Result<Reply, ApiError> {
    let asked = read(call, scope)?;
    let engine = &call.node.engine;
    let group = asked.want.group.clone();
    let declared = asked.want.conflation.is_some();
    let popped = pop::pop(&engine.shared, engine.writer(), asked.want, asked.wait).await?;
    let claim = &popped.claim;
    if claim.lanes.is_empty() && !claim.conflation && !(declared && claim.conflict) {
        return Ok(Reply::json(StatusCode::NO_CONTENT, ""));
    }
    Ok(Reply::ok(render(queue, &group, &popped, asked.chosen)?))
}

fn read(call: &Call<'_>, scope: Scope) -> Result<Asked, ApiError> {
    let group = call
        .parameter("consumerGroup")
        .filter(|group| !group.is_empty());
    if group
        .as_ref()
        .is_some_and(|group| group.chars().count() > MAX_GROUP_CHARS)
    {
        return Err(ApiError::BadRequest("consumerGroup too long"));
    }
    let conflation = flag(call, "conflation")?;
    let auto_ack = flag(call, "autoAck")?.unwrap_or(false);
    if conflation == Some(true) && group.is_none() {
        return Err(ApiError::BadRequest("conflation requires a consumerGroup"));
    }
    if conflation == Some(true) && auto_ack {
        return Err(ApiError::BadRequest(
            "conflation cannot be combined with autoAck",
        ));
    }
    let (batch, lanes) = (number(call, "batch")?, number(call, "partitions")?);
    let autopilot = flag(call, "autopilot")?.unwrap_or(false);
    let size = batch
        .and_then(|batch| usize::try_from(batch).ok())
        .filter(|batch| *batch > 0)
        .unwrap_or(DEFAULT_BATCH)
        .min(MAX_BATCH);
    let width = match lanes {
        // No cap.
        Some(lanes) if lanes <= 0 => None,
        Some(lanes) => Some(usize::try_from(lanes).unwrap_or(usize::MAX)),
        None if conflation == Some(true) => Some(size.min(SWEEP)),
        None if autopilot => Some(SWEEP),
        None => Some(1),
    };
    let timeout_ms = number(call, "timeout")?.map_or(DEFAULT_TIMEOUT_MS, |ms| {
        u64::try_from(ms).unwrap_or(0).min(MAX_TIMEOUT_MS)
    });
    let wait = flag(call, "wait")?.unwrap_or(false);
    Ok(Asked {
        chosen: (autopilot && (batch.is_none() || lanes.is_none()))
            .then(|| (width.unwrap_or(usize::MAX), size)),
        want: Want {
            tenant: call.tenant,
            scope,
            group: group.map_or_else(|| QUEUE_MODE.into(), Arc::from),
            batch: size,
            lanes: width,
            auto_ack,
            lease_s: number(call, "leaseSeconds")?,
            start: start(call),
            conflation,
            newer_from: u64::MAX,
        },
        wait: Duration::from_millis(if wait { timeout_ms } else { 0 }),
    })
}

/// Where a group begins that was never here. An instant that doesn't parse is ignored.
fn start(call: &Call<'_>) -> Start {
    let mode = match call.parameter("subscriptionMode").as_deref() {
        Some("all") => Start::All,
        _ => Start::New,
    };
    match call.parameter("subscriptionFrom").as_deref() {
        Some("now") => Start::New,
        Some(instant) => time::parse_ms(instant).map_or(mode, Start::From),
        None => mode,
    }
}

fn flag(call: &Call<'_>, name: &str) -> Result<Option<bool>, ApiError> {
    match call.parameter(name).as_deref() {
        None | Some("") => Ok(None),
        Some("true") => Ok(Some(true)),
        Some("false") => Ok(Some(false)),
        Some(_) => Err(ApiError::BadRequest("a flag must be true or false")),
    }
}

fn number(call: &Call<'_>, name: &str) -> Result<Option<i64>, ApiError> {
    match call.parameter(name).as_deref() {
        None | Some("") => Ok(None),
        Some(text) => text
            .parse()
            .map(Some)
            .map_err(|_| ApiError::BadRequest("a number must be an integer")),
    }
}

fn render(
    queue: &str,
    group: &str,
    popped: &Popped,
    chosen: Option<(usize, usize)>,
) -> Result<Vec<u8>, ApiError> {
    let claim = &popped.claim;
    let mut out = b"{\"success\":true,\"queue\":".to_vec();
    json::string(&mut out, queue);
    let first = claim.lanes.first();
    json::raw(&mut out, ",\"partition\":");
    match first {
        Some(lane) => json::string(&mut out, &lane.at.key.lane),
        None => json::raw(&mut out, "\"\""),
    }
    json::raw(&mut out, ",\"partitionId\":");
    match first {
        Some(lane) => ids::write_uuid(&mut out, lane.lane_id.as_u128()),
        None => json::raw(&mut out, "\"\""),
    }
    let lease = lease_text(popped);
    json::raw(&mut out, ",\"leaseId\":");
    json::string(&mut out, &lease);
    json::raw(&mut out, ",\"consumerGroup\":");
    json::string(&mut out, group);
    json::raw(&mut out, ",\"messages\":[");
    let start = out.len();
    for (lane, segments) in claim.lanes.iter().zip(&popped.segments) {
        // What all messages of a lane say after their own fields.
        let mut rest = b",\"partitionId\":".to_vec();
        ids::write_uuid(&mut rest, lane.lane_id.as_u128());
        json::raw(&mut rest, ",\"partition\":");
        json::string(&mut rest, &lane.at.key.lane);
        json::raw(&mut rest, ",\"leaseId\":");
        json::string(&mut rest, &lease);
        json::raw(&mut rest, ",\"consumerGroup\":");
        json::string(&mut rest, group);
        let span = lane.first..=lane.last;
        for segment in segments {
            write_segment(&mut out, segment, start, |out, offset| {
                if !span.contains(&offset) {
                    return None;
                }
                let attempt = if offset <= lane.delivered_to {
                    lane.attempts
                } else {
                    1
                };
                out.clear();
                out.extend_from_slice(&rest);
                json::raw(out, ",\"deliveryAttempt\":");
                json::uint(out, attempt);
                Some(())
            })?;
        }
    }
    json::raw(&mut out, "],\"partitionsClaimed\":");
    json::uint(&mut out, claim.lanes.len() as u64);
    if claim.conflation {
        json::raw(&mut out, ",\"conflation\":true");
    }
    if claim.conflict {
        json::raw(&mut out, ",\"conflationConflict\":true");
    }
    if let Some((lanes, batch)) = chosen {
        json::raw(&mut out, ",\"autopilot\":{\"partitions\":");
        json::uint(&mut out, lanes as u64);
        json::raw(&mut out, ",\"batch\":");
        json::uint(&mut out, batch as u64);
        out.push(b'}');
    }
    out.push(b'}');
    Ok(out)
}

fn lease_text(popped: &Popped) -> String {
    popped
        .claim
        .lease
        .map(|lease| lease.hyphenated().to_string())
        .unwrap_or_default()
}

/// Writes the records of a segment that `rest` is not `None` for; it writes a message's last
/// fields.
fn write_segment(
    out: &mut Vec<u8>,
    segment: &Segment,
    start: usize,
    mut rest: impl FnMut(&mut Vec<u8>, i64) -> Option<()>,
) -> Result<(), ApiError> {
    let raw = segment.packed.unpack().map_err(|_| ApiError::PopFailed)?;
    let mut created = Vec::with_capacity(32);
    time::micros(&mut created, segment.created_us);
    let mut tail = Vec::new();
    for (record, offset) in records(&raw).zip(segment.base_offset..) {
        let record = record.map_err(|_| ApiError::PopFailed)?;
        if rest(&mut tail, offset).is_none() {
            continue;
        }
        if out.len() > start {
            out.push(b',');
        }
        let id = segment.message_id(offset).0;
        json::raw(out, "{\"id\":");
        ids::write_uuid(out, id);
        json::raw(out, ",\"transactionId\":");
        match record.transaction_id {
            Some(text) => json::string(out, text),
            None => ids::write_uuid(out, id),
        }
        json::raw(out, ",\"traceId\":null,\"data\":");
        json::raw(out, record.payload);
        json::raw(out, ",\"producerSub\":null,\"createdAt\":\"");
        out.extend_from_slice(&created);
        out.push(b'"');
        out.extend_from_slice(&tail);
        out.push(b'}');
    }
    Ok(())
}
