//! LeaveGroup.

use kafka_protocol::messages::{LeaveGroupRequest, LeaveGroupResponse};

use crate::context::Context;

/// Answers a LeaveGroup request.
pub async fn handle(_cx: &Context, _request: LeaveGroupRequest) -> LeaveGroupResponse {
    LeaveGroupResponse::default()
}
