//! `GET /status`: the engine's name, and the facade of this process when it embeds one. Contract
//! section 1.5.

use serde_json::json;

use super::Call;
use crate::http::reply::Reply;

/// Answers.
pub fn handle(call: &Call<'_>) -> Reply {
    let mut status = json!({"status": "ok", "engine": "segments-rust"});
    if let Some(kafka) = &call.node.options.kafka_status {
        status["kafka"] = (kafka.0)();
    }
    Reply::value(&status)
}
