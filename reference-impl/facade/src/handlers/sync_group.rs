//! SyncGroup.

use kafka_protocol::messages::{SyncGroupRequest, SyncGroupResponse};

use crate::context::Context;

/// Answers a SyncGroup request.
pub async fn handle(_cx: &Context, _request: SyncGroupRequest) -> SyncGroupResponse {
    SyncGroupResponse::default()
}
