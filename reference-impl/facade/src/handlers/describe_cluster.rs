//! DescribeCluster.

use kafka_protocol::messages::{DescribeClusterRequest, DescribeClusterResponse};

use crate::context::Context;

/// Answers a DescribeCluster request.
pub async fn handle(_cx: &Context, _request: DescribeClusterRequest) -> DescribeClusterResponse {
    DescribeClusterResponse::default()
}
