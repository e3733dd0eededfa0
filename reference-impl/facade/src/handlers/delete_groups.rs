//! DeleteGroups.

use kafka_protocol::messages::{DeleteGroupsRequest, DeleteGroupsResponse};

use crate::context::Context;

/// Answers a DeleteGroups request.
pub async fn handle(_cx: &Context, _request: DeleteGroupsRequest) -> DeleteGroupsResponse {
    DeleteGroupsResponse::default()
}
