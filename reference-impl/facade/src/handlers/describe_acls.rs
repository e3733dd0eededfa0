//! DescribeAcls.

use kafka_protocol::messages::{DescribeAclsRequest, DescribeAclsResponse};

use crate::context::Context;

/// Answers a DescribeAcls request.
pub async fn handle(_cx: &Context, _request: DescribeAclsRequest) -> DescribeAclsResponse {
    DescribeAclsResponse::default()
}
