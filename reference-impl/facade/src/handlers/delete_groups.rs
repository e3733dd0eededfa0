//! DeleteGroups, versions 0 to 2.
//!
//! - A group with members is NON_EMPTY_GROUP; one nobody knows GROUP_ID_NOT_FOUND.
//! - Deletes the committed offsets, then the group. Not atomic: after a retriable error the group may
//!   have lost a part of its offsets, and asking again carries on.
//! - At most 100 groups per request; the rest is COORDINATOR_LOAD_IN_PROGRESS, which clients retry.
//! - Refused for everybody when the process runs with `QUEEN_KAFKA_ADMIN=false`.
//!
//! Versions: 1 changes no field; 2 is flexible.

use kafka_protocol::messages::delete_groups_response::DeletableGroupResult;
use kafka_protocol::messages::{DeleteGroupsRequest, DeleteGroupsResponse};
use kafka_wire::ErrorCode;

use crate::context::Context;
use crate::groups::GroupName;
use crate::handlers::group_topics::offsets_tenant;
use crate::handlers::offset_commit::write_code;
use crate::offsets::SweepError;
use crate::upstream_errors::{self, Api};

/// Groups deleted by one request: each costs several calls to Queen.
const MAX_GROUPS: usize = 100;

/// Answers a DeleteGroups request.
pub async fn handle(cx: &Context, request: DeleteGroupsRequest) -> DeleteGroupsResponse {
    let mut results = Vec::with_capacity(request.groups_names.len());
    for (n, id) in request.groups_names.into_iter().enumerate() {
        let code = match cx.group(&id) {
            Err(refused) => refused.error_code(),
            Ok(_) if !cx.node.config.admin => ErrorCode::GroupAuthorizationFailed,
            Ok(_) if n >= MAX_GROUPS => ErrorCode::CoordinatorLoadInProgress,
            Ok(name) => delete(cx, &name).await,
        };
        results.push(
            DeletableGroupResult::default()
                .with_group_id(id)
                .with_error_code(code.code()),
        );
    }
    DeleteGroupsResponse::default().with_results(results)
}

async fn delete(cx: &Context, name: &GroupName) -> ErrorCode {
    let was_live = match cx.node.groups.delete(name).await {
        Some(Err(error)) => return error.error_code(),
        Some(Ok(())) => true,
        None => false,
    };
    match cx
        .node
        .offsets
        .delete_group(&offsets_tenant(cx), &name.id)
        .await
    {
        Ok(()) => ErrorCode::None,
        // It had no offsets yet.
        Err(SweepError::Unknown) if was_live => ErrorCode::None,
        Err(SweepError::Unknown) => ErrorCode::GroupIdNotFound,
        Err(SweepError::TooMany) => ErrorCode::CoordinatorLoadInProgress,
        Err(SweepError::Write(error)) => write_code(cx, name, &error),
        Err(SweepError::Queen(error)) => {
            upstream_errors::answer(Api::Group, cx.version, &error).code
        }
    }
}
