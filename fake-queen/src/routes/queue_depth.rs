//! `GET /api/v1/resources/queues/:queue/depth`: readable records per lane. Contract section 3.2.
//! Native cursors would lower it; no lane has any.

use serde_json::{Value, json};

use super::Call;
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
    let partitions: Vec<Value> = queue
        .lanes
        .iter()
        .map(|(lane, data)| {
            let depth = data.row.high_watermark - data.row.log_start;
            json!({"partition": &**lane, "depth": depth})
        })
        .collect();
    Ok(Reply::value(&json!({
        "queue": name,
        "group": call.parameter("group"),
        "depth": queue.totals.messages,
        "partitions": partitions,
    })))
}
