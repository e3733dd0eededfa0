//! DeleteAcls, versions 1 to 3.
//!
//! - The facade has no authorizer: each filter is answered `SECURITY_DISABLED`.
//!
//! v2 is flexible. v3 knows user resources.

use kafka_protocol::messages::delete_acls_response::DeleteAclsFilterResult;
use kafka_protocol::messages::{DeleteAclsRequest, DeleteAclsResponse};
use kafka_protocol::protocol::StrBytes;
use kafka_wire::ErrorCode;

use super::describe_acls::NO_AUTHORIZER;
use crate::context::Context;

/// Refuses a DeleteAcls request.
pub async fn handle(_cx: &Context, request: DeleteAclsRequest) -> DeleteAclsResponse {
    let refused = DeleteAclsFilterResult::default()
        .with_error_code(ErrorCode::SecurityDisabled.code())
        .with_error_message(Some(StrBytes::from_static_str(NO_AUTHORIZER)));
    DeleteAclsResponse::default().with_filter_results(vec![refused; request.filters.len()])
}
