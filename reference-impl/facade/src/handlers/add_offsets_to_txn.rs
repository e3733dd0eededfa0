//! AddOffsetsToTxn (key 25): versions 0 to 4.
//!
//! - Adds the offsets of a group; several groups may be added. Begins the transaction like
//!   AddPartitionsToTxn.
//! - Anyone's group may be named: whether the caller is a member is TxnOffsetCommit's to ask.
//!
//! v2: PRODUCER_FENCED. v3: flexible. v4: no field of its own.

use kafka_protocol::messages::{AddOffsetsToTxnRequest, AddOffsetsToTxnResponse};
use kafka_wire::ErrorCode;

use crate::context::Context;
use crate::groups::GroupName;
use crate::handlers::group_topics::offsets_tenant;
use crate::handlers::transactional;

/// The first version that knows PRODUCER_FENCED.
const FENCED: i16 = 2;

/// Answers an AddOffsetsToTxn request.
pub async fn handle(cx: &Context, request: AddOffsetsToTxnRequest) -> AddOffsetsToTxnResponse {
    AddOffsetsToTxnResponse::default().with_error_code(code(cx, &request).await.code())
}

async fn code(cx: &Context, request: &AddOffsetsToTxnRequest) -> ErrorCode {
    let id = &request.transactional_id;
    if id.is_empty() {
        return ErrorCode::InvalidRequest;
    }
    let Ok(group) = GroupName::new(&cx.session.scope, &request.group_id) else {
        return ErrorCode::InvalidGroupId;
    };
    let added = match transactional::producer(request.producer_id, request.producer_epoch) {
        Ok(producer) => {
            let tenant = offsets_tenant(cx);
            let transactions = &cx.node.transactions;
            transactions
                .add_group(&tenant, id, producer, &group.id)
                .await
        }
        Err(failure) => Err(failure),
    };
    match added {
        Ok(()) => ErrorCode::None,
        Err(failure) => transactional::code(cx, id, &failure, FENCED),
    }
}
