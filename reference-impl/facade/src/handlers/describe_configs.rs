//! DescribeConfigs.

use kafka_protocol::messages::{DescribeConfigsRequest, DescribeConfigsResponse};

use crate::context::Context;

/// Answers a DescribeConfigs request.
pub async fn handle(_cx: &Context, _request: DescribeConfigsRequest) -> DescribeConfigsResponse {
    DescribeConfigsResponse::default()
}
