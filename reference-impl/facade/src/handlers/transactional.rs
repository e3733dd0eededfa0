//! What the transaction APIs share.

use coordinator::producer::ProducerEpoch;
use coordinator::transaction::{Producer, ProducerId, Refusal};
use kafka_protocol::messages as typed;
use kafka_wire::ErrorCode;

use crate::context::Context;
use crate::transactions::Failure;

/// The producer of a request. One without id or epoch is nobody's.
///
/// # Errors
///
/// [`Refusal::InvalidProducerIdMapping`].
pub(super) fn producer(id: typed::ProducerId, epoch: i16) -> Result<Producer, Failure> {
    let epoch = ProducerEpoch::new(epoch).filter(|_| id.0 >= 0);
    let epoch = epoch.ok_or(Refusal::InvalidProducerIdMapping)?;
    Ok(Producer {
        id: ProducerId(id.0),
        epoch,
    })
}

/// The code of a failure. The responses have no place for a reason, so the log does.
pub(super) fn code(cx: &Context, id: &str, failure: &Failure, fenced: i16) -> ErrorCode {
    let code = failure.code(cx.version, fenced);
    if matches!(failure, Failure::Refused(_)) {
        tracing::debug!(transactional_id = id, %failure, "a transactional request was refused");
    } else if let Some(suppressed) = cx.node.groups.may_warn() {
        tracing::warn!(transactional_id = id, %failure, suppressed, "a transactional request failed");
    }
    code
}
