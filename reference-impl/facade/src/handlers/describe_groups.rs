//! DescribeGroups.

use kafka_protocol::messages::{DescribeGroupsRequest, DescribeGroupsResponse};

use crate::context::Context;

/// Answers a DescribeGroups request.
pub async fn handle(_cx: &Context, _request: DescribeGroupsRequest) -> DescribeGroupsResponse {
    DescribeGroupsResponse::default()
}
