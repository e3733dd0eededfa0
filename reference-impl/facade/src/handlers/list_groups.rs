//! ListGroups.

use kafka_protocol::messages::{ListGroupsRequest, ListGroupsResponse};

use crate::context::Context;

/// Answers a ListGroups request.
pub async fn handle(_cx: &Context, _request: ListGroupsRequest) -> ListGroupsResponse {
    ListGroupsResponse::default()
}
