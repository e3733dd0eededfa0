//! CreateAcls.

use kafka_protocol::messages::{CreateAclsRequest, CreateAclsResponse};

use crate::context::Context;

/// Answers a CreateAcls request.
pub async fn handle(_cx: &Context, _request: CreateAclsRequest) -> CreateAclsResponse {
    CreateAclsResponse::default()
}
