//! `GET /api/v1/status/queues` and `…/:queue`: what operators look at. Contract section 3.2.

use serde_json::{Value, json};

use super::Call;
use crate::engine::native::state::backlog;
use crate::engine::state::Queue;
use crate::http::error::ApiError;
use crate::http::reply::Reply;
use crate::time;

/// Answers the list.
pub fn list(call: &Call<'_>) -> Reply {
    let now_ms = call.node.host.clock.wall().epoch_ms();
    let state = call.node.engine.shared.read();
    let queues: Vec<Value> = state
        .tenant(call.tenant)
        .into_iter()
        .flat_map(|tenant| tenant.queues.values())
        .map(|queue| summary(queue, now_ms))
        .collect();
    Reply::value(&json!({ "queues": queues }))
}

/// Answers for one queue.
///
/// # Errors
/// 404 without such a queue.
pub fn one(call: &Call<'_>, name: &str) -> Result<Reply, ApiError> {
    let now_ms = call.node.host.clock.wall().epoch_ms();
    let state = call.node.engine.shared.read();
    let queue = state
        .queue(call.tenant, name)
        .ok_or(ApiError::NotFound("Queue not found"))?;
    let options = &queue.row.options;
    let mut body = summary(queue, now_ms);
    body["config"] = json!({
        "leaseTime": options.lease_time,
        "retryLimit": options.retry_limit,
        "retryDelay": options.retry_delay,
        "ttl": options.ttl,
        "maxQueueSize": options.max_size,
        "deadLetterQueue": options.dead_letter_queue,
    });
    let partitions: Vec<Value> = queue
        .lanes
        .iter()
        .map(|(name, lane)| {
            json!({
                "id": lane.row.id,
                "name": &**name,
                "logStart": lane.row.log_start,
                "lastOffset": lane.row.high_watermark - 1,
                "lastWriteAt": time::millis_string(lane.row.last_append_us / 1000),
            })
        })
        .collect();
    body["partitionList"] = Value::from(partitions);
    Ok(Reply::value(&body))
}

fn summary(queue: &Queue, now_ms: i64) -> Value {
    let backlog = backlog(queue, now_ms);
    json!({
        "id": queue.row.id,
        "name": &*queue.row.name,
        "namespace": queue.row.options.namespace,
        "task": queue.row.options.task,
        "createdAt": time::millis_string(queue.row.created_ms),
        "partitions": queue.lanes.len(),
        "messages": {
            "total": queue.totals.messages,
            "pending": backlog.pending,
            "processing": backlog.processing,
        },
    })
}
