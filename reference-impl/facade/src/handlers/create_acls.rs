//! CreateAcls, versions 1 to 3.
//!
//! - The facade has no authorizer: each creation is answered `SECURITY_DISABLED`.
//!
//! v2 is flexible. v3 knows user resources.

use kafka_protocol::messages::create_acls_response::AclCreationResult;
use kafka_protocol::messages::{CreateAclsRequest, CreateAclsResponse};
use kafka_protocol::protocol::StrBytes;
use kafka_wire::ErrorCode;

use super::describe_acls::NO_AUTHORIZER;
use crate::context::Context;

/// Refuses a CreateAcls request.
pub async fn handle(_cx: &Context, request: CreateAclsRequest) -> CreateAclsResponse {
    let refused = AclCreationResult::default()
        .with_error_code(ErrorCode::SecurityDisabled.code())
        .with_error_message(Some(StrBytes::from_static_str(NO_AUTHORIZER)));
    CreateAclsResponse::default().with_results(vec![refused; request.creations.len()])
}
