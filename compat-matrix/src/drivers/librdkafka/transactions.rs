//! Transactions of the session's producer.

use rdkafka::Offset;
use rdkafka::consumer::{BaseConsumer, Consumer as _};
use rdkafka::producer::{BaseProducer, Producer as _};
use serde_json::Value;

use super::context::Callbacks;
use super::worker::{CALL, list, local, nothing, refusal};
use crate::drivers::Refusal;
use crate::drivers::protocol::Op;

pub(super) fn perform(
    producer: &BaseProducer<Callbacks>,
    consumer: Option<&BaseConsumer<Callbacks>>,
    op: &Op,
) -> Result<Value, Refusal> {
    match op {
        Op::InitTransactions => producer.init_transactions(CALL),
        Op::BeginTransaction => producer.begin_transaction(),
        Op::SendOffsets { offsets } => {
            let consumer = consumer.ok_or_else(|| local("this session has no consumer open"))?;
            let group = consumer
                .group_metadata()
                .ok_or_else(|| local("the consumer has no group"))?;
            producer.send_offsets_to_transaction(&list(offsets, Offset::Offset)?, &group, CALL)
        }
        Op::CommitTransaction => producer.commit_transaction(CALL),
        Op::AbortTransaction => producer.abort_transaction(CALL),
        other => return Err(local(format!("not about transactions: {}", other.name()))),
    }
    .map_err(refusal)?;
    nothing()
}
