//! Heartbeat.

use kafka_protocol::messages::{HeartbeatRequest, HeartbeatResponse};

use crate::context::Context;

/// Answers a Heartbeat request.
pub async fn handle(_cx: &Context, _request: HeartbeatRequest) -> HeartbeatResponse {
    HeartbeatResponse::default()
}
