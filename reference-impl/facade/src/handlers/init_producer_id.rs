//! InitProducerId (key 22): versions 0 to 5.
//!
//! - Without a transactional id: a new producer id of 62 random bits at epoch 0, whatever id and
//!   epoch the client brings, as Kafka does (an idempotent client bumps its epoch by itself,
//!   KIP-360). No call to Queen.
//! - An id without an epoch, or an epoch without an id: INVALID_REQUEST.
//! - An empty transactional id is none: brod sends one.
//! - With a transactional id: TRANSACTIONAL_ID_AUTHORIZATION_FAILED until transactions are built.
//!   Fatal, so that a client stops instead of trying for ever.
//!
//! v2: flexible. v3: current id and epoch. v4: PRODUCER_FENCED. v5: transactions 2.

use kafka_protocol::messages::{InitProducerIdRequest, InitProducerIdResponse, ProducerId};
use kafka_wire::ErrorCode;

use crate::context::Context;

/// Bits of a producer id: positive, and far enough from the maximum for clients that count on.
const PRODUCER_ID_BITS: u32 = 62;

/// Answers an InitProducerId request.
#[expect(clippy::unused_async, reason = "every handler is called alike")]
pub async fn handle(cx: &Context, request: InitProducerIdRequest) -> InitProducerIdResponse {
    let response = InitProducerIdResponse::default()
        .with_ongoing_txn_producer_id(ProducerId(-1))
        .with_ongoing_txn_producer_epoch(-1);
    if request.transactional_id.is_some_and(|id| !id.is_empty()) {
        return response
            .with_error_code(ErrorCode::TransactionalIdAuthorizationFailed.code())
            .with_producer_id(ProducerId(-1))
            .with_producer_epoch(-1);
    }
    if (request.producer_id.0 == -1) != (request.producer_epoch == -1) {
        return response
            .with_error_code(ErrorCode::InvalidRequest.code())
            .with_producer_id(ProducerId(-1))
            .with_producer_epoch(-1);
    }
    response
        .with_producer_id(ProducerId(new_producer_id(cx)))
        .with_producer_epoch(0)
}

fn new_producer_id(cx: &Context) -> i64 {
    loop {
        let bits = cx.node.host.entropy.next_u64() >> (u64::BITS - PRODUCER_ID_BITS);
        match i64::try_from(bits) {
            Ok(id) if id > 0 => return id,
            // 0 is an id that clients take for "none"; 62 bits always fit.
            _ => {}
        }
    }
}
