//! How a transaction ends: EndTxn, and the end of its time.

use host::Monotonic;

use super::identity::{self, Producer, ProducerId};
use super::write::{Ended, Step, Write, WriteKind};
use super::{Durability, Idle, Refusal, State, Transaction, fencing};

impl<V: Copy + Eq> Transaction<V> {
    /// EndTxn. With `bump` (transactions 2) the producer's epoch is raised, and the answer names
    /// the raised one; `fresh` is an id nobody has, for when the epochs are used up.
    ///
    /// # Errors
    ///
    /// As [`Transaction::verify`]. `InvalidTxnState` when there's nothing to end so: nothing open
    /// and the last one ended otherwise, or an end of the other kind on its way, or a commit of a
    /// transaction that is spoilt. `InvalidProducerIdMapping` also for a commit of what was lost
    /// with another process, or of what may have been in transactions 2. `ConcurrentTransactions` while the same
    /// end is on its way, or batches are.
    pub fn end(
        &mut self,
        producer: Producer,
        decision: Ended,
        bump: bool,
        fresh: ProducerId,
    ) -> Result<Step<V>, Refusal> {
        if matches!(self.state, State::Unloaded) {
            return Err(Refusal::NotLoaded);
        }
        let current = self.producer.ok_or(Refusal::InvalidProducerIdMapping)?;
        if bump && let Some(step) = self.repeated(producer, decision) {
            return step;
        }
        if current.id != producer.id {
            return Err(Refusal::InvalidProducerIdMapping);
        }
        if current.epoch != producer.epoch {
            return Err(Refusal::ProducerFenced);
        }
        match &self.state {
            State::Unloaded => Err(Refusal::NotLoaded),
            State::Writing(writing) if writing.write.kind == WriteKind::Open => {
                Err(Refusal::ConcurrentTransactions)
            }
            State::Writing(writing) => Err(if writing.write.marker.ended == decision {
                Refusal::ConcurrentTransactions
            } else {
                Refusal::InvalidTxnState
            }),
            State::Ongoing(content) => {
                if decision == Ended::Committed {
                    if content.spoilt {
                        return Err(Refusal::InvalidTxnState);
                    }
                    if content.pending > 0 {
                        return Err(Refusal::ConcurrentTransactions);
                    }
                    // What another process staged isn't counted here.
                    let certain = self.durability == Durability::Process;
                    if content.is_empty() && certain && !bump {
                        self.state = State::Idle(Idle::Ended(Ended::Committed));
                        return Ok(Step::Answer(current));
                    }
                }
                Ok(Step::Write(self.write_end(current, decision, bump, fresh)))
            }
            State::Idle(idle) => match (idle, decision) {
                // Nothing was begun, so there is nothing to abort but the epoch to raise.
                (_, Ended::Aborted) if bump => {
                    Ok(Step::Write(self.write_end(current, decision, bump, fresh)))
                }
                (Idle::Ended(ended), _) if *ended == decision && !bump => Ok(Step::Answer(current)),
                // Whatever was open is gone with its process: that's an abort.
                (Idle::Lost | Idle::Remembered(Ended::Aborted), Ended::Aborted) => {
                    self.state = State::Idle(Idle::Ended(Ended::Aborted));
                    Ok(Step::Answer(current))
                }
                // Nothing has begun since: it is that commit, asked for again.
                (Idle::Remembered(Ended::Committed), Ended::Committed) if !bump => {
                    Ok(Step::Answer(current))
                }
                // Of all codes the one that lets clients begin again by themselves.
                (Idle::Lost, Ended::Committed) => Err(Refusal::InvalidProducerIdMapping),
                (Idle::Remembered(_), Ended::Committed) if bump => {
                    Err(Refusal::InvalidProducerIdMapping)
                }
                _ => Err(Refusal::InvalidTxnState),
            },
        }
    }

    /// The answer to an EndTxn of transactions 2 that comes again: the epoch it names is the one
    /// before.
    fn repeated(&self, producer: Producer, decision: Ended) -> Option<Result<Step<V>, Refusal>> {
        match &self.state {
            State::Idle(Idle::Ended(ended) | Idle::Remembered(ended))
                if self.previous == Some(producer) =>
            {
                Some(if *ended == decision {
                    self.producer
                        .map(Step::Answer)
                        .ok_or(Refusal::InvalidProducerIdMapping)
                } else {
                    Err(Refusal::InvalidTxnState)
                })
            }
            _ => None,
        }
    }

    fn write_end(
        &mut self,
        current: Producer,
        decision: Ended,
        bump: bool,
        fresh: ProducerId,
    ) -> Write<V> {
        let (producer, previous) = if bump {
            (identity::next(current, fresh), Some(current))
        } else {
            (current, None)
        };
        let mut marker = self.marker(producer, previous, decision);
        marker.number += 1;
        let kind = match decision {
            Ended::Committed => WriteKind::Commit,
            Ended::Aborted => WriteKind::Abort,
        };
        let timeout = self.timeout;
        match std::mem::replace(&mut self.state, State::Unloaded) {
            State::Ongoing(content) => {
                self.start(kind, marker, Some(content), Idle::Empty, timeout)
            }
            State::Idle(idle) => self.start(kind, marker, None, idle, timeout),
            // Neither caller comes here.
            State::Unloaded | State::Writing(_) => {
                self.start(kind, marker, None, Idle::Empty, timeout)
            }
        }
    }

    /// Aborts a transaction whose time is over, and fences its producer. `None` when there's none.
    pub fn expire(&mut self, now: Monotonic) -> Option<Write<V>> {
        let over = self.next_deadline().is_some_and(|deadline| deadline <= now);
        let current = self.producer.filter(|_| over)?;
        let fence = Producer {
            epoch: fencing(current.epoch),
            ..current
        };
        let mut marker = self.marker(fence, None, Ended::Aborted);
        marker.number += 1;
        let timeout = self.timeout;
        Some(self.start(WriteKind::Fence, marker, None, Idle::Empty, timeout))
    }
}
