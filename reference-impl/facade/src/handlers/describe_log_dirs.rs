//! DescribeLogDirs.

use kafka_protocol::messages::{DescribeLogDirsRequest, DescribeLogDirsResponse};

use crate::context::Context;

/// Answers a DescribeLogDirs request.
pub async fn handle(_cx: &Context, _request: DescribeLogDirsRequest) -> DescribeLogDirsResponse {
    DescribeLogDirsResponse::default()
}
