//! InitProducerId (key 22): versions 0 to 5.
//!
//! - Without a transactional id: a new producer id of 62 random bits at epoch 0, whatever id and
//!   epoch the client brings, as Kafka does (an idempotent client bumps its epoch by itself,
//!   KIP-360). No call to Queen.
//! - With one: the id's producer, its epoch raised, so that every instance before it is fenced; what
//!   it had open is aborted. A client that names its id and epoch is fenced if they are not the
//!   current ones (KIP-360), and a repetition of its request is answered like the first.
//! - While an end of the id's transaction is on its way: CONCURRENT_TRANSACTIONS.
//! - A timeout that isn't positive or above `QUEEN_KAFKA_TXN_MAX_TIMEOUT_MS`:
//!   INVALID_TRANSACTION_TIMEOUT.
//! - An id without an epoch, or an epoch without an id: INVALID_REQUEST.
//! - An empty transactional id is none: brod sends one.
//!
//! v2: flexible. v3: current id and epoch. v4: PRODUCER_FENCED. v5: transactions 2.

use std::time::Duration;

use coordinator::producer::ProducerEpoch;
use coordinator::transaction::Producer;
use kafka_protocol::messages::{InitProducerIdRequest, InitProducerIdResponse, ProducerId};
use kafka_wire::ErrorCode;

use crate::context::Context;
use crate::handlers::group_topics::offsets_tenant;
use crate::handlers::transactional;
use crate::transactions::new_producer_id;

/// The first version that knows PRODUCER_FENCED.
const FENCED: i16 = 4;

/// Answers an InitProducerId request.
pub async fn handle(cx: &Context, request: InitProducerIdRequest) -> InitProducerIdResponse {
    if (request.producer_id.0 == -1) != (request.producer_epoch == -1) {
        return refused(ErrorCode::InvalidRequest);
    }
    let Some(id) = request.transactional_id.filter(|id| !id.is_empty()) else {
        return answered(Producer {
            id: new_producer_id(&*cx.node.host.entropy),
            epoch: ProducerEpoch::ZERO,
        });
    };
    let expected = if request.producer_id.0 == -1 {
        None
    } else {
        match transactional::producer(request.producer_id, request.producer_epoch) {
            Ok(producer) => Some(producer),
            Err(_) => return refused(ErrorCode::InvalidRequest),
        }
    };
    let timeout = u64::try_from(request.transaction_timeout_ms).ok();
    let timeout = timeout.map(Duration::from_millis);
    let tenant = offsets_tenant(cx);
    let initialised = cx.node.transactions.init(&tenant, &id, expected, timeout);
    match initialised.await {
        Ok(producer) => answered(producer),
        Err(failure) => refused(transactional::code(cx, &id, &failure, FENCED)),
    }
}

fn nobody() -> InitProducerIdResponse {
    InitProducerIdResponse::default()
        .with_producer_id(ProducerId(-1))
        .with_producer_epoch(-1)
        .with_ongoing_txn_producer_id(ProducerId(-1))
        .with_ongoing_txn_producer_epoch(-1)
}

fn answered(producer: Producer) -> InitProducerIdResponse {
    nobody()
        .with_producer_id(ProducerId(producer.id.0))
        .with_producer_epoch(producer.epoch.get())
}

fn refused(code: ErrorCode) -> InitProducerIdResponse {
    nobody().with_error_code(code.code())
}
