//! FindCoordinator.

use kafka_protocol::messages::{FindCoordinatorRequest, FindCoordinatorResponse};

use crate::context::Context;

/// Answers a FindCoordinator request.
pub async fn handle(_cx: &Context, _request: FindCoordinatorRequest) -> FindCoordinatorResponse {
    FindCoordinatorResponse::default()
}
