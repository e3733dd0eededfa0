//! `GET /health`: alive, and which version. Public. Contract section 1.5.

use http::StatusCode;
use serde_json::json;

use super::Call;
use crate::http::reply::Reply;

/// Answers.
pub fn handle(call: &Call<'_>) -> Reply {
    let healthy = !call.node.engine.shared.is_broken();
    let (status, health, database) = if healthy {
        (StatusCode::OK, "healthy", "connected")
    } else {
        (StatusCode::SERVICE_UNAVAILABLE, "unhealthy", "disconnected")
    };
    let body = json!({
        "status": health,
        "database": database,
        "engine": "segments-rust",
        "version": call.node.options.version.text(),
    });
    Reply::json(status, body.to_string())
}
