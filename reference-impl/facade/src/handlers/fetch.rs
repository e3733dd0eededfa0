//! Fetch.

use kafka_protocol::messages::{FetchRequest, FetchResponse};

use crate::context::Context;

/// Answers a Fetch request.
pub async fn handle(_cx: &Context, _request: FetchRequest) -> FetchResponse {
    FetchResponse::default()
}
