//! OffsetFetch.

use kafka_protocol::messages::{OffsetFetchRequest, OffsetFetchResponse};

use crate::context::Context;

/// Answers a OffsetFetch request.
pub async fn handle(_cx: &Context, _request: OffsetFetchRequest) -> OffsetFetchResponse {
    OffsetFetchResponse::default()
}
