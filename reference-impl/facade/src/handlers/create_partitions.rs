//! CreatePartitions.

use kafka_protocol::messages::{CreatePartitionsRequest, CreatePartitionsResponse};

use crate::context::Context;

/// Answers a CreatePartitions request.
pub async fn handle(_cx: &Context, _request: CreatePartitionsRequest) -> CreatePartitionsResponse {
    CreatePartitionsResponse::default()
}
