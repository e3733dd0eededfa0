//! DeleteAcls.

use kafka_protocol::messages::{DeleteAclsRequest, DeleteAclsResponse};

use crate::context::Context;

/// Answers a DeleteAcls request.
pub async fn handle(_cx: &Context, _request: DeleteAclsRequest) -> DeleteAclsResponse {
    DeleteAclsResponse::default()
}
