//! IncrementalAlterConfigs.

use kafka_protocol::messages::{IncrementalAlterConfigsRequest, IncrementalAlterConfigsResponse};

use crate::context::Context;

/// Answers a IncrementalAlterConfigs request.
pub async fn handle(_cx: &Context, _request: IncrementalAlterConfigsRequest) -> IncrementalAlterConfigsResponse {
    IncrementalAlterConfigsResponse::default()
}
