//! `DELETE /api/v1/resources/queues/:queue`: always 200. Contract section 3.3.
//! Lanes and segments go with it; KV rows stay.

use serde_json::json;

use super::Call;
use crate::engine::removal;
use crate::http::error::ApiError;
use crate::http::reply::Reply;

/// Answers.
///
/// # Errors
/// The store.
pub async fn handle(call: &Call<'_>, name: &str) -> Result<Reply, ApiError> {
    let engine = &call.node.engine;
    let existed =
        removal::delete_queue(&engine.shared, engine.writer(), call.tenant, name.into()).await?;
    Ok(Reply::value(&if existed {
        json!({"deleted": true, "queue": name, "existed": true})
    } else {
        json!({"deleted": false, "queue": name, "existed": false, "message": "Queue not found"})
    }))
}
