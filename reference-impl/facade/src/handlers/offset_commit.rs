//! OffsetCommit.

use kafka_protocol::messages::{OffsetCommitRequest, OffsetCommitResponse};

use crate::context::Context;

/// Answers a OffsetCommit request.
pub async fn handle(_cx: &Context, _request: OffsetCommitRequest) -> OffsetCommitResponse {
    OffsetCommitResponse::default()
}
