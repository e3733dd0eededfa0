//! ApiVersions.

use kafka_protocol::messages::{ApiVersionsRequest, ApiVersionsResponse};

use crate::context::Context;

/// Answers a ApiVersions request.
pub async fn handle(_cx: &Context, _request: ApiVersionsRequest) -> ApiVersionsResponse {
    ApiVersionsResponse::default()
}
