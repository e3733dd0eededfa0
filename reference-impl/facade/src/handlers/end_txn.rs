//! EndTxn (key 26): versions 0 to 5.
//!
//! - A commit stores all records and offsets of the transaction, or none, in one call to Queen. A
//!   commit whose answer was lost, on either side of this process, is recognised when it's asked for
//!   again.
//! - COORDINATOR_NOT_AVAILABLE: nobody knows yet, or Queen is away; ask again. What was decided is
//!   carried on meanwhile.
//! - PRODUCER_FENCED: another instance took over, or the transaction's time was over.
//! - The records have no markers: a committed transaction takes as many offsets as it has records,
//!   an aborted one none.
//!
//! v2: PRODUCER_FENCED. v3: flexible. v4: no field of its own. v5: transactions 2, the answer has the
//! epoch for the next transaction (KIP-890).

use coordinator::transaction::Ended;
use kafka_protocol::messages::{EndTxnRequest, EndTxnResponse, ProducerId};
use kafka_wire::ErrorCode;

use crate::context::Context;
use crate::handlers::group_topics::offsets_tenant;
use crate::handlers::transactional;

/// The first version that knows PRODUCER_FENCED.
const FENCED: i16 = 2;
/// The first version that raises the epoch.
const TRANSACTIONS_2: i16 = 5;

/// Answers an EndTxn request.
pub async fn handle(cx: &Context, request: EndTxnRequest) -> EndTxnResponse {
    let response = EndTxnResponse::default()
        .with_producer_id(ProducerId(-1))
        .with_producer_epoch(-1);
    let id = &request.transactional_id;
    if id.is_empty() {
        return response.with_error_code(ErrorCode::InvalidRequest.code());
    }
    let decision = if request.committed {
        Ended::Committed
    } else {
        Ended::Aborted
    };
    let bump = cx.version >= TRANSACTIONS_2;
    let ended = match transactional::producer(request.producer_id, request.producer_epoch) {
        Ok(producer) => {
            let tenant = offsets_tenant(cx);
            let transactions = &cx.node.transactions;
            transactions
                .end(&tenant, id, producer, decision, bump)
                .await
        }
        Err(failure) => Err(failure),
    };
    match ended {
        Ok(producer) if bump => response
            .with_producer_id(ProducerId(producer.id.0))
            .with_producer_epoch(producer.epoch.get()),
        Ok(_) => response,
        Err(failure) => {
            response.with_error_code(transactional::code(cx, id, &failure, FENCED).code())
        }
    }
}
