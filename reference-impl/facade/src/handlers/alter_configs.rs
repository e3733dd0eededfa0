//! AlterConfigs.

use kafka_protocol::messages::{AlterConfigsRequest, AlterConfigsResponse};

use crate::context::Context;

/// Answers a AlterConfigs request.
pub async fn handle(_cx: &Context, _request: AlterConfigsRequest) -> AlterConfigsResponse {
    AlterConfigsResponse::default()
}
