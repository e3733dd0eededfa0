//! The sequence windows of a node, with those who wait for an answer that another request will get.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::{Mutex, MutexGuard, PoisonError};

use coordinator::producer::{
    Lane, Limits, ProducerEpoch, ProducerStates, Refusal, Sequence, Ticket, Verdict,
};
use host::Monotonic;
use kafka_wire::ErrorCode;
use tokio::sync::oneshot;

use super::unit::{Active, Failure, Outcome, Sequenced, Unit, WindowKey};
use crate::queen::Scope;

/// The windows of every producer of a node.
#[derive(Debug)]
pub struct Table {
    inner: Mutex<Inner>,
}

#[derive(Debug)]
struct Inner {
    states: ProducerStates<WindowKey>,
    /// Withdrawn tickets whose batches still wait somewhere in their gatherer.
    doomed: BTreeSet<Ticket>,
    /// Those who sent a batch again before it was resolved.
    joined: BTreeMap<Ticket, Vec<oneshot::Sender<Outcome>>>,
}

impl Table {
    pub(super) fn new(limits: Limits) -> Self {
        Self {
            inner: Mutex::new(Inner {
                states: ProducerStates::new(limits),
                doomed: BTreeSet::new(),
                joined: BTreeMap::new(),
            }),
        }
    }

    fn lock(&self) -> MutexGuard<'_, Inner> {
        self.inner.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// How many windows are kept, and how many were evicted since the start.
    pub fn usage(&self) -> (usize, u64) {
        let inner = self.lock();
        (inner.states.len(), inner.states.evictions())
    }

    /// The producers of a topic with something stored, by partition.
    pub(super) fn active(&self, scope: &Scope, queue: &str) -> BTreeMap<i32, Vec<Active>> {
        let mut active: BTreeMap<i32, Vec<Active>> = BTreeMap::new();
        for (key, epoch, last) in self.lock().states.stored() {
            if key.scope == *scope && *key.queue == *queue {
                active.entry(key.partition).or_default().push(Active {
                    id: key.producer_id,
                    epoch,
                    last_sequence: last.get(),
                });
            }
        }
        for producers in active.values_mut() {
            producers.sort_by_key(|producer| producer.id);
        }
        active
    }

    /// Whether a batch can be judged without a look at the log, where other nodes write to it.
    pub(super) fn knows(&self, sequenced: &Sequenced) -> bool {
        let Sequenced {
            window,
            epoch,
            range,
        } = sequenced;
        self.lock().states.knows(window, *epoch, *range)
    }

    /// The producer's last record in the log is the one before `next`.
    pub(super) fn resume(
        &self,
        now: Monotonic,
        window: &WindowKey,
        epoch: ProducerEpoch,
        next: Sequence,
    ) {
        self.lock().states.resume(now, window, epoch, next);
    }

    /// The producer isn't in the log.
    pub(super) fn forget(&self, window: &WindowKey) {
        self.lock().states.forget(window);
    }

    /// Judges a batch that would be pushed through `lane`. Returns it when it's to be pushed; else
    /// it's answered here, or will be with the batch it repeats.
    pub(super) fn judge(&self, now: Monotonic, lane: Lane, mut unit: Unit) -> Option<Unit> {
        let Some(Sequenced {
            window,
            epoch,
            range,
        }) = &unit.sequenced
        else {
            return Some(unit);
        };
        let mut inner = self.lock();
        let result = match inner.states.admit(now, window, lane, *epoch, *range) {
            Verdict::Admitted(ticket) => {
                unit.ticket = Some(ticket);
                return Some(unit);
            }
            Verdict::InFlight(ticket) => {
                inner.joined.entry(ticket).or_default().push(unit.answer);
                return None;
            }
            Verdict::Duplicate { base_offset } => Ok(base_offset),
            // Not a fault of the batch: the client tries again, in order.
            Verdict::Busy => Err(Failure::new(ErrorCode::NotEnoughReplicas)),
            Verdict::Refused(refusal) => {
                Err(Failure::because(refusal_code(refusal), refusal.to_string()))
            }
        };
        drop(inner);
        answer(
            unit.answer,
            Outcome {
                result,
                throttle: unit.throttle,
            },
        );
        None
    }

    /// Whether a batch was withdrawn since it was admitted.
    pub(super) fn is_doomed(&self, unit: &Unit) -> bool {
        unit.ticket
            .is_some_and(|ticket| self.lock().doomed.contains(&ticket))
    }

    /// Withdrawn tickets and shared answers that still wait for their batches.
    #[cfg(test)]
    pub(super) fn unresolved(&self) -> usize {
        let inner = self.lock();
        inner.doomed.len() + inner.joined.len()
    }

    /// Records what became of a batch that was to be pushed, and answers everyone who waits.
    pub(super) fn resolve(
        &self,
        now: Monotonic,
        sequenced: Option<&Sequenced>,
        ticket: Option<Ticket>,
        to: oneshot::Sender<Outcome>,
        outcome: Outcome,
    ) {
        if let (Some(ticket), Some(Sequenced { window, .. })) = (ticket, sequenced) {
            let mut inner = self.lock();
            // Withdrawn or not, from here on nobody asks any more.
            inner.doomed.remove(&ticket);
            match &outcome.result {
                Ok(base_offset) => {
                    inner.states.acknowledge(now, window, ticket, *base_offset);
                }
                Err(_) => {
                    let doomed = inner.states.fail(now, window, ticket);
                    inner.doomed.extend(doomed);
                }
            }
            let joined = inner.joined.remove(&ticket).unwrap_or_default();
            drop(inner);
            for to in joined {
                answer(to, outcome.clone());
            }
        }
        answer(to, outcome);
    }
}

/// Tells the one who waits, if it still does.
fn answer(to: oneshot::Sender<Outcome>, outcome: Outcome) {
    // A closed connection waits for nothing; its batch is stored all the same.
    let _ = to.send(outcome);
}

const fn refusal_code(refusal: Refusal) -> ErrorCode {
    match refusal {
        Refusal::OutOfOrderSequence => ErrorCode::OutOfOrderSequenceNumber,
        Refusal::DuplicateSequence => ErrorCode::DuplicateSequenceNumber,
        Refusal::InvalidProducerEpoch => ErrorCode::InvalidProducerEpoch,
    }
}
