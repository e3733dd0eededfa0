//! DescribeAcls, versions 1 to 3.
//!
//! - The facade has no authorizer: Queen decides what a credential may do. Answered as Kafka answers
//!   without one, `SECURITY_DISABLED`.
//!
//! v2 is flexible. v3 knows user resources.

use kafka_protocol::messages::{DescribeAclsRequest, DescribeAclsResponse};
use kafka_protocol::protocol::StrBytes;
use kafka_wire::ErrorCode;

use crate::context::Context;

/// What Apache Kafka says without an authorizer.
pub(super) const NO_AUTHORIZER: &str = "No Authorizer is configured on the broker.";

/// Refuses a DescribeAcls request.
pub async fn handle(_cx: &Context, _request: DescribeAclsRequest) -> DescribeAclsResponse {
    DescribeAclsResponse::default()
        .with_error_code(ErrorCode::SecurityDisabled.code())
        .with_error_message(Some(StrBytes::from_static_str(NO_AUTHORIZER)))
}
