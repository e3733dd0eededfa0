//! DeleteRecords.

use kafka_protocol::messages::{DeleteRecordsRequest, DeleteRecordsResponse};

use crate::context::Context;

/// Answers a DeleteRecords request.
pub async fn handle(_cx: &Context, _request: DeleteRecordsRequest) -> DeleteRecordsResponse {
    DeleteRecordsResponse::default()
}
