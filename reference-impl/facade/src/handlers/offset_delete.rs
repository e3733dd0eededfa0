//! OffsetDelete.

use kafka_protocol::messages::{OffsetDeleteRequest, OffsetDeleteResponse};

use crate::context::Context;

/// Answers a OffsetDelete request.
pub async fn handle(_cx: &Context, _request: OffsetDeleteRequest) -> OffsetDeleteResponse {
    OffsetDeleteResponse::default()
}
