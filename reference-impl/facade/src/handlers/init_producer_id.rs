//! InitProducerId.

use kafka_protocol::messages::{InitProducerIdRequest, InitProducerIdResponse};

use crate::context::Context;

/// Answers a InitProducerId request.
pub async fn handle(_cx: &Context, _request: InitProducerIdRequest) -> InitProducerIdResponse {
    InitProducerIdResponse::default()
}
