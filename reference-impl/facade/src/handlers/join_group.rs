//! JoinGroup.

use kafka_protocol::messages::{JoinGroupRequest, JoinGroupResponse};

use crate::context::Context;

/// Answers a JoinGroup request.
pub async fn handle(_cx: &Context, _request: JoinGroupRequest) -> JoinGroupResponse {
    JoinGroupResponse::default()
}
