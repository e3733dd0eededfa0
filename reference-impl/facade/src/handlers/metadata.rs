//! Metadata.

use kafka_protocol::messages::{MetadataRequest, MetadataResponse};

use crate::context::Context;

/// Answers a Metadata request.
pub async fn handle(_cx: &Context, _request: MetadataRequest) -> MetadataResponse {
    MetadataResponse::default()
}
