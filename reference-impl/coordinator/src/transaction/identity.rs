//! InitProducerId with a transactional id: claims, epoch bumps, fencing (KIP-98, KIP-360).

use std::time::Duration;

use super::write::{Ended, Step, WriteKind};
use super::{Idle, Refusal, State, Transaction};
use crate::producer::ProducerEpoch;

/// A producer id.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct ProducerId(pub i64);

/// A producer: its id and epoch.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Producer {
    /// The id.
    pub id: ProducerId,
    /// The epoch; a higher one fences the lower ones.
    pub epoch: ProducerEpoch,
}

/// What InitProducerId asks.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct InitRequest {
    /// Who the client is already (KIP-360): it wants its epoch raised, and to be fenced if somebody
    /// else was initialised since.
    pub expected: Option<Producer>,
    /// `transaction.timeout.ms`; `None` when it's negative on the wire.
    pub timeout: Option<Duration>,
    /// A producer id nobody has, should one be needed.
    pub fresh: ProducerId,
}

impl<V: Copy + Eq> Transaction<V> {
    /// Initialises a producer. What is open is aborted by the same write.
    ///
    /// # Errors
    ///
    /// `NotLoaded`, `InvalidTransactionTimeout`, `ConcurrentTransactions` while a write is on its
    /// way, `ProducerFenced` when `expected` isn't the current producer.
    pub fn init(&mut self, request: InitRequest) -> Result<Step<V>, Refusal> {
        let timeout = request
            .timeout
            .filter(|timeout| !timeout.is_zero() && *timeout <= self.limits.max_timeout)
            .ok_or(Refusal::InvalidTransactionTimeout)?;
        let (idle, open) = match &self.state {
            State::Unloaded => return Err(Refusal::NotLoaded),
            State::Writing(_) => return Err(Refusal::ConcurrentTransactions),
            State::Idle(idle) => (*idle, false),
            State::Ongoing(_) => (Idle::Empty, true),
        };
        let (producer, previous) = match (self.producer, request.expected) {
            (None, _) => (first(request.fresh), None),
            (Some(current), None) => (next(current, request.fresh), None),
            (Some(current), Some(expected)) if expected == current => {
                (next(current, request.fresh), Some(current))
            }
            // A repetition: what was asked for is done.
            (Some(current), Some(expected)) if self.previous == Some(expected) && !open => {
                self.timeout = timeout;
                return Ok(Step::Answer(current));
            }
            (Some(_), Some(_)) => return Err(Refusal::ProducerFenced),
        };
        let mut marker = self.marker(producer, previous, Ended::Aborted);
        marker.number += u64::from(open);
        marker.timeout = Some(timeout);
        let content = match std::mem::replace(&mut self.state, State::Unloaded) {
            State::Ongoing(content) => Some(content),
            _ => None,
        };
        Ok(Step::Write(self.start(
            WriteKind::Claim,
            marker,
            content,
            idle,
            timeout,
        )))
    }
}

const fn first(id: ProducerId) -> Producer {
    Producer {
        id,
        epoch: ProducerEpoch::ZERO,
    }
}

/// The producer after `current`: the next epoch, or another id when the epochs are used up.
pub(super) fn next(current: Producer, fresh: ProducerId) -> Producer {
    match current.epoch.bump() {
        Some(epoch) => Producer { epoch, ..current },
        None => first(fresh),
    }
}
