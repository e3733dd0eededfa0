//! `GET /api/v1/resources/queues/:queue/depth`: records per lane that a native group has yet to
//! consume, those of the queue's own cursor without one. Contract section 3.2.

use serde_json::{Value, json};

use super::Call;
use crate::engine::native::{QUEUE_MODE, state::lag};
use crate::http::error::ApiError;
use crate::http::reply::Reply;

/// Answers.
///
/// # Errors
/// 404 without such a queue.
pub fn handle(call: &Call<'_>, name: &str) -> Result<Reply, ApiError> {
    let state = call.node.engine.shared.read();
    let queue = state
        .queue(call.tenant, name)
        .ok_or(ApiError::NotFound("Queue not found"))?;
    let group = call.parameter("group").filter(|group| !group.is_empty());
    let reader = group.as_deref().unwrap_or(QUEUE_MODE);
    let mut total = 0;
    let partitions: Vec<Value> = queue
        .lanes
        .iter()
        .map(|(lane, data)| {
            let depth = lag(data, reader);
            total += depth;
            json!({"partition": &**lane, "depth": depth})
        })
        .collect();
    Ok(Reply::value(&json!({
        "queue": name,
        "group": group,
        "depth": total,
        "partitions": partitions,
    })))
}
