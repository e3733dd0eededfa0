//! OffsetForLeaderEpoch.

use kafka_protocol::messages::{OffsetForLeaderEpochRequest, OffsetForLeaderEpochResponse};

use crate::context::Context;

/// Answers a OffsetForLeaderEpoch request.
pub async fn handle(_cx: &Context, _request: OffsetForLeaderEpochRequest) -> OffsetForLeaderEpochResponse {
    OffsetForLeaderEpochResponse::default()
}
