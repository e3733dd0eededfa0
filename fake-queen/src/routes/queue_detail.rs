//! `GET /api/v1/resources/queues/:queue`: one queue. Contract section 3.2.
//! 1.6 adds `options` with all 21 keys of `configure`.

use super::{Call, queue_list};
use crate::engine::queue_options::QueueOptions;
use crate::http::error::ApiError;
use crate::http::reply::Reply;
use crate::json;
use crate::options::Version;

/// Answers.
///
/// # Errors
/// 404 without such a queue.
pub fn handle(call: &Call<'_>, name: &str) -> Result<Reply, ApiError> {
    let now_ms = call.node.host.clock.wall().epoch_ms();
    let state = call.node.engine.shared.read();
    let queue = state
        .queue(call.tenant, name)
        .ok_or(ApiError::NotFound("Queue not found"))?;
    let mut out = Vec::with_capacity(1024);
    queue_list::write(&mut out, queue, now_ms);
    if call.node.options.version >= Version::V1_6 {
        out.pop();
        json::raw(&mut out, ",\"options\":");
        queue.row.options.write(&mut out, &QueueOptions::NAMES);
        out.push(b'}');
    }
    Ok(Reply::ok(out))
}
