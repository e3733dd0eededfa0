//! What becomes of batches when an answer comes, or none.

use std::time::Duration;

use host::Monotonic;
use kafka_wire::ErrorCode;

use super::{BatchId, Core, Event, State, TransmitId, Verdict};
use crate::client::profile::{Desynchronised, Repetition};
use crate::history::TopicPartition;

impl Core {
    /// The request will not be answered: the connection ended, or it could not be sent. `sent` says
    /// whether the broker may have got it.
    pub fn handle_lost(&mut self, now: Monotonic, id: TransmitId, sent: bool) {
        let Some((_, batches)) = self.in_flight.remove(&id) else {
            return;
        };
        for (to, batch) in batches {
            self.events.push_back(Event::Stale {
                topic: to.topic.clone(),
            });
            self.again(now, &to, batch, id, sent);
        }
    }

    /// The broker answered for `to` in the request `id`.
    pub fn handle_answer(
        &mut self,
        now: Monotonic,
        id: TransmitId,
        to: &TopicPartition,
        code: ErrorCode,
        base_offset: Option<i64>,
    ) {
        let Some((_, batches)) = self.in_flight.get_mut(&id) else {
            return;
        };
        let Some(batch) = batches.remove(to) else {
            return;
        };
        if batches.is_empty() {
            self.in_flight.remove(&id);
        }
        let Some(queue) = self.queues.get_mut(to) else {
            return;
        };
        let first = queue.batches.front().map(|first| first.id) == Some(batch);
        let disowned = queue
            .batches
            .iter()
            .any(|known| known.id == batch && known.disowned);
        if disowned {
            // It goes out again, whatever this says.
            self.again(now, to, batch, id, true);
            return;
        }
        let idempotent = self.rules.idempotent;
        match code {
            ErrorCode::None => self.finish(to, batch, id, Verdict::Stored(base_offset)),
            // Stored earlier, and too long ago for the broker to know where.
            ErrorCode::DuplicateSequenceNumber => {
                self.finish(to, batch, id, Verdict::Stored(None));
            }
            ErrorCode::OutOfOrderSequenceNumber if idempotent && !first => {
                // The batch before it failed. It is certainly not stored.
                self.new_epoch |= self.rules.repetition == Repetition::Drain;
                self.again(now, to, batch, id, false);
            }
            ErrorCode::OutOfOrderSequenceNumber | ErrorCode::UnknownProducerId if idempotent => {
                match self.rules.desynchronised {
                    Desynchronised::Fatal => {
                        self.finish(to, batch, id, Verdict::Unknown);
                        self.fail_everything(code);
                    }
                    Desynchronised::NewEpoch => {
                        self.new_epoch = true;
                        self.again(now, to, batch, id, false);
                    }
                }
            }
            ErrorCode::ProducerFenced
            | ErrorCode::InvalidProducerEpoch
            | ErrorCode::ClusterAuthorizationFailed
                if idempotent =>
            {
                self.finish(to, batch, id, Verdict::Refused(code));
                self.fail_everything(code);
            }
            code if code.retriable() && self.may_repeat(to, batch) => {
                let moved = !matches!(code, ErrorCode::RequestTimedOut);
                if moved {
                    self.events.push_back(Event::Stale {
                        topic: to.topic.clone(),
                    });
                }
                // A broker that timed out may have stored it all the same; so may one that lost
                // replicas after the append.
                let sure = !matches!(
                    code,
                    ErrorCode::RequestTimedOut | ErrorCode::NotEnoughReplicasAfterAppend
                );
                self.again(now, to, batch, id, !sure);
            }
            code => {
                // Its sequence is missing for ever: those behind it need others.
                self.new_epoch |= idempotent;
                self.finish(to, batch, id, Verdict::Refused(code));
            }
        }
    }

    fn may_repeat(&self, to: &TopicPartition, batch: BatchId) -> bool {
        let Some(retries) = self.rules.retries else {
            return true;
        };
        let queue = self.queues.get(to);
        let batch =
            queue.and_then(|queue| queue.batches.iter().find(|candidate| candidate.id == batch));
        batch.is_some_and(|batch| batch.attempts <= retries)
    }

    fn finish(&mut self, to: &TopicPartition, batch: BatchId, id: TransmitId, verdict: Verdict) {
        let Some(queue) = self.queues.get_mut(to) else {
            return;
        };
        queue.in_flight.remove(&id);
        let before = queue.batches.len();
        queue.batches.retain(|known| known.id != batch);
        // It may have been given up while it was in flight.
        if queue.batches.len() < before {
            self.events.push_back(Event::Done { batch, verdict });
        }
    }

    /// The batch is to go out again.
    fn again(
        &mut self,
        now: Monotonic,
        to: &TopicPartition,
        batch: BatchId,
        id: TransmitId,
        exposed: bool,
    ) {
        let Some(queue) = self.queues.get_mut(to) else {
            return;
        };
        queue.in_flight.remove(&id);
        let Some(at) = queue.batches.iter().position(|known| known.id == batch) else {
            return;
        };
        let (failed, repetition) = (&mut queue.batches[at], self.rules.repetition);
        if failed.attempts == 1 && !exposed {
            failed.exposed = false;
        }
        let wait = self.retry.after(failed.attempts, &*self.entropy);
        failed.state = State::Ready(now + wait);
        match repetition {
            Repetition::OneByOne => {}
            Repetition::Rewind => {
                queue.rewinding = true;
                for behind in queue.batches.iter_mut().skip(at) {
                    behind.disowned |= matches!(behind.state, State::InFlight(_));
                }
            }
            Repetition::Drain => queue.rewinding = true,
        }
    }

    pub(super) fn fail_everything(&mut self, code: ErrorCode) {
        self.fatal = Some(code);
        self.events.push_back(Event::Fatal(code));
        let partitions: Vec<_> = self.queues.keys().cloned().collect();
        for to in partitions {
            self.seal(Monotonic::from_origin(Duration::ZERO), &to);
        }
        for queue in self.queues.values_mut() {
            for batch in std::mem::take(&mut queue.batches) {
                let verdict = if batch.exposed {
                    Verdict::Unknown
                } else {
                    Verdict::GivenUp
                };
                self.events.push_back(Event::Done {
                    batch: batch.id,
                    verdict,
                });
            }
        }
    }
}
