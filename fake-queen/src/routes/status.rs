//! `GET /status`: the engine's name. Contract section 1.5.

use serde_json::json;

use crate::http::reply::Reply;

/// Answers.
pub fn handle() -> Reply {
    Reply::value(&json!({"status": "ok", "engine": "segments-rust"}))
}
