//! CreateTopics.

use kafka_protocol::messages::{CreateTopicsRequest, CreateTopicsResponse};

use crate::context::Context;

/// Answers a CreateTopics request.
pub async fn handle(_cx: &Context, _request: CreateTopicsRequest) -> CreateTopicsResponse {
    CreateTopicsResponse::default()
}
