//! DeleteTopics.

use kafka_protocol::messages::{DeleteTopicsRequest, DeleteTopicsResponse};

use crate::context::Context;

/// Answers a DeleteTopics request.
pub async fn handle(_cx: &Context, _request: DeleteTopicsRequest) -> DeleteTopicsResponse {
    DeleteTopicsResponse::default()
}
