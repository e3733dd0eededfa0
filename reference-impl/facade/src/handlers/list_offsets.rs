//! ListOffsets.

use kafka_protocol::messages::{ListOffsetsRequest, ListOffsetsResponse};

use crate::context::Context;

/// Answers a ListOffsets request.
pub async fn handle(_cx: &Context, _request: ListOffsetsRequest) -> ListOffsetsResponse {
    ListOffsetsResponse::default()
}
