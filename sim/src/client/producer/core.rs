//! The producer without its network: which batch goes out when, and what becomes of it.
//!
//! Events go in through `handle_*`; [`Core::poll_transmit`] says what to send next and
//! [`Core::poll_event`] what happened. Call both until they give nothing after every event, and
//! again at [`Core::next_deadline`]. No I/O and no clock: time comes in as `now`.

mod answers;
mod terms;

use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::sync::Arc;

use host::{Entropy, Monotonic};
use kafka_wire::ErrorCode;
use kafka_wire::records::increment_sequence;

use crate::client::backoff::BackoffRule;
use crate::client::profile::{ProducerRules, Repetition, RequestShape};
use crate::history::TopicPartition;

pub use terms::{BatchId, Event, Identity, Outgoing, Transmit, TransmitId, Transmitted, Verdict};

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum State {
    /// Takes more records until then.
    Open(Monotonic),
    /// Waits to be sent, not before then.
    Ready(Monotonic),
    /// Sent with this request, and not answered.
    InFlight(TransmitId),
}

#[derive(Debug)]
struct Batch {
    id: BatchId,
    records: Arc<Vec<Outgoing>>,
    bytes: usize,
    deadline: Monotonic,
    state: State,
    sequence: Option<(Identity, i32)>,
    attempts: u32,
    /// An attempt may have been stored.
    exposed: bool,
    /// What is answered for the attempt in flight does not count.
    disowned: bool,
}

#[derive(Debug, Default)]
struct Queue {
    batches: VecDeque<Batch>,
    next_sequence: i32,
    /// Requests in flight that hold a batch of it, those of batches that are done with included.
    in_flight: BTreeSet<TransmitId>,
    /// Something failed: everything goes out again once nothing is in flight.
    rewinding: bool,
}

/// The producer.
#[derive(Debug)]
pub struct Core {
    rules: ProducerRules,
    retry: BackoffRule,
    entropy: Arc<dyn Entropy>,
    queues: BTreeMap<TopicPartition, Queue>,
    identity: Option<Identity>,
    /// Sequences begin anew under the next epoch once nothing is in flight.
    new_epoch: bool,
    /// Of what was given up for its age nobody knows whether it is stored.
    in_doubt: bool,
    fatal: Option<ErrorCode>,
    in_flight: BTreeMap<TransmitId, (i32, BTreeMap<TopicPartition, BatchId>)>,
    /// Where the next request of a node begins, so that no partition starves.
    after: BTreeMap<i32, TopicPartition>,
    events: VecDeque<Event>,
    batches: u64,
    transmits: u64,
}

impl Core {
    /// A producer with nothing to do.
    pub fn new(rules: ProducerRules, retry: BackoffRule, entropy: Arc<dyn Entropy>) -> Self {
        Self {
            rules,
            retry,
            entropy,
            queues: BTreeMap::new(),
            identity: None,
            new_epoch: false,
            in_doubt: false,
            fatal: None,
            in_flight: BTreeMap::new(),
            after: BTreeMap::new(),
            events: VecDeque::new(),
            batches: 0,
            transmits: 0,
        }
    }

    /// Takes a record; gives the batch it is in.
    pub fn append(&mut self, now: Monotonic, to: &TopicPartition, record: Outgoing) -> BatchId {
        let bytes = record.len_bytes();
        let full = self.queues.get(to).and_then(|queue| queue.batches.back());
        let full = full.is_some_and(|last| {
            matches!(last.state, State::Open(_)) && last.bytes + bytes > self.rules.batch_bytes
        });
        if full {
            self.seal(now, to);
        }
        let queue = self.queues.entry(to.clone()).or_default();
        let open = queue
            .batches
            .back()
            .is_some_and(|last| matches!(last.state, State::Open(_)));
        if !open {
            self.batches += 1;
            queue.batches.push_back(Batch {
                id: BatchId(self.batches),
                records: Arc::default(),
                bytes: 0,
                deadline: now + self.rules.delivery_timeout,
                state: State::Open(now + self.rules.linger),
                sequence: None,
                attempts: 0,
                exposed: false,
                disowned: false,
            });
        }
        let Some(batch) = queue.batches.back_mut() else {
            unreachable!("a batch was pushed where there was none")
        };
        Arc::make_mut(&mut batch.records).push(record);
        batch.bytes += bytes;
        let id = batch.id;
        let full = batch.records.len() >= self.rules.batch_records
            || batch.bytes >= self.rules.batch_bytes;
        if full {
            self.seal(now, to);
        }
        id
    }

    /// Sends what is there without waiting for more.
    pub fn flush(&mut self, now: Monotonic) {
        let partitions: Vec<_> = self.queues.keys().cloned().collect();
        for to in partitions {
            self.seal(now, &to);
        }
    }

    fn seal(&mut self, now: Monotonic, to: &TopicPartition) {
        let Some(last) = self
            .queues
            .get_mut(to)
            .and_then(|queue| queue.batches.back_mut())
        else {
            return;
        };
        if matches!(last.state, State::Open(_)) {
            last.state = State::Ready(now);
            self.events.push_back(Event::Sealed {
                batch: last.id,
                to: to.clone(),
                records: Arc::clone(&last.records),
            });
        }
    }

    /// Whether every record is done with.
    pub fn is_idle(&self) -> bool {
        self.queues.values().all(|queue| queue.batches.is_empty())
    }

    /// The partitions that have records.
    pub fn partitions(&self) -> impl Iterator<Item = &TopicPartition> {
        let busy = |queue: &Queue| !queue.batches.is_empty();
        self.queues
            .iter()
            .filter(move |(_, queue)| busy(queue))
            .map(|(to, _)| to)
    }

    /// Whether a batch of the request `id` is still to be answered.
    pub fn is_in_flight(&self, id: TransmitId) -> bool {
        self.in_flight.contains_key(&id)
    }

    /// Why the producer is of no use any more, if it is.
    pub const fn fatal(&self) -> Option<ErrorCode> {
        self.fatal
    }

    /// Whether it can't go on before it gets an identity (InitProducerId).
    pub fn needs_identity(&self) -> bool {
        self.rules.idempotent && self.identity.is_none() && self.fatal.is_none()
    }

    /// The identity, once there is one.
    pub const fn identity(&self) -> Option<Identity> {
        self.identity
    }

    /// InitProducerId was answered.
    pub fn handle_identity(&mut self, identity: Identity) {
        self.identity = Some(identity);
        self.restart_sequences();
    }

    /// InitProducerId was refused for good: nothing can be written.
    pub fn handle_no_identity(&mut self, code: ErrorCode) {
        self.fail_everything(code);
    }

    fn restart_sequences(&mut self) {
        for queue in self.queues.values_mut() {
            queue.next_sequence = 0;
            for batch in &mut queue.batches {
                batch.sequence = None;
            }
        }
    }

    /// The next request, given who leads which partition.
    pub fn poll_transmit(
        &mut self,
        now: Monotonic,
        leader: impl Fn(&TopicPartition) -> Option<i32>,
    ) -> Option<Transmit> {
        self.expire(now);
        self.seal_lingered(now);
        if self.fatal.is_some() || self.needs_identity() {
            return None;
        }
        if self.new_epoch {
            if !self.in_flight.is_empty() {
                return None;
            }
            self.begin_epoch();
            // A new id has to be asked for.
            self.identity?;
        }
        let led: Vec<_> = self
            .queues
            .keys()
            .filter_map(|to| Some((leader(to)?, to.clone())))
            .collect();
        let nodes: BTreeSet<i32> = led.iter().map(|(node, _)| *node).collect();
        nodes.into_iter().find_map(|node| {
            let busy = self.in_flight.values().filter(|(at, _)| *at == node);
            if busy.count() >= self.rules.max_in_flight {
                return None;
            }
            let of_node = |(at, to): &(i32, TopicPartition)| (*at == node).then(|| to.clone());
            let mut partitions: Vec<_> = led.iter().filter_map(of_node).collect();
            if let Some(after) = self.after.get(&node) {
                let first = partitions.partition_point(|to| to <= after);
                partitions.rotate_left(first);
            }
            self.fill(now, node, &partitions)
        })
    }

    fn fill(
        &mut self,
        now: Monotonic,
        node: i32,
        partitions: &[TopicPartition],
    ) -> Option<Transmit> {
        let id = TransmitId(self.transmits + 1);
        let mut batches = Vec::new();
        for to in partitions {
            if let Some(batch) = self.take(now, to, id) {
                batches.push(batch);
                if self.rules.request == RequestShape::OnePartition {
                    break;
                }
            }
        }
        let last = batches.last()?;
        self.after.insert(node, last.to.clone());
        self.transmits += 1;
        let sent = batches.iter().map(|sent| (sent.to.clone(), sent.batch));
        self.in_flight.insert(id, (node, sent.collect()));
        Some(Transmit { id, node, batches })
    }

    /// The batch of `to` that may go out now.
    fn take(&mut self, now: Monotonic, to: &TopicPartition, id: TransmitId) -> Option<Transmitted> {
        let identity = self.identity;
        let queue = self.queues.get_mut(to)?;
        if queue.rewinding {
            if !queue.in_flight.is_empty() {
                return None;
            }
            queue.rewinding = false;
        }
        let at = queue
            .batches
            .iter()
            .position(|batch| !matches!(batch.state, State::InFlight(_)))?;
        let batch = queue.batches.get_mut(at)?;
        match batch.state {
            State::Ready(not_before) if not_before <= now => {}
            _ => return None,
        }
        let repeats = batch.sequence.is_some();
        if self.rules.repetition == Repetition::OneByOne && repeats && at > 0 {
            return None;
        }
        if let Some(identity) = identity
            && batch.sequence.is_none()
        {
            batch.sequence = Some((identity, queue.next_sequence));
            let records = i32::try_from(batch.records.len()).unwrap_or(i32::MAX);
            queue.next_sequence = increment_sequence(queue.next_sequence, records);
        }
        batch.attempts += 1;
        batch.exposed = true;
        batch.disowned = false;
        batch.state = State::InFlight(id);
        queue.in_flight.insert(id);
        Some(Transmitted {
            batch: batch.id,
            to: to.clone(),
            records: Arc::clone(&batch.records),
            sequence: batch.sequence,
            attempt: batch.attempts,
        })
    }

    fn seal_lingered(&mut self, now: Monotonic) {
        let lingered = |queue: &Queue| {
            let last = queue.batches.back().map(|last| last.state);
            matches!(last, Some(State::Open(until)) if until <= now)
        };
        let due = self.queues.iter().filter(|(_, queue)| lingered(queue));
        let due: Vec<_> = due.map(|(to, _)| to.clone()).collect();
        for to in due {
            self.seal(now, &to);
        }
    }

    /// Gives up batches whose time is over.
    fn expire(&mut self, now: Monotonic) {
        for (to, queue) in &mut self.queues {
            // Those behind are younger.
            while queue
                .batches
                .front()
                .is_some_and(|first| first.deadline <= now)
            {
                let Some(batch) = queue.batches.pop_front() else {
                    break;
                };
                if matches!(batch.state, State::Open(_)) {
                    self.events.push_back(Event::Sealed {
                        batch: batch.id,
                        to: to.clone(),
                        records: Arc::clone(&batch.records),
                    });
                }
                let verdict = if batch.exposed {
                    Verdict::Unknown
                } else {
                    Verdict::GivenUp
                };
                // Whether the broker has its sequence is unknown: those behind it need others.
                self.new_epoch |= batch.sequence.is_some();
                self.in_doubt |= batch.sequence.is_some();
                self.events.push_back(Event::Done {
                    batch: batch.id,
                    verdict,
                });
            }
        }
    }

    fn begin_epoch(&mut self) {
        self.new_epoch = false;
        self.identity = match self.identity {
            // The epoch's end: a new id (KIP-360 leaves the last one unused).
            Some(Identity { epoch, .. }) if epoch >= i16::MAX - 1 => None,
            Some(Identity { id, epoch }) => Some(Identity {
                id,
                epoch: epoch + 1,
            }),
            None => None,
        };
        // kafka-clients resolves what was sent behind such a batch under the old sequences first, and
        // fails what it cannot resolve.
        if std::mem::take(&mut self.in_doubt) || self.rules.repetition == Repetition::Drain {
            self.give_up_exposed();
        }
        self.restart_sequences();
        if let Some(identity) = self.identity {
            self.events.push_back(Event::NewEpoch(identity));
        }
    }

    /// Under another identity the broker can't tell a repetition: what may be stored is not sent
    /// again.
    fn give_up_exposed(&mut self) {
        for queue in self.queues.values_mut() {
            let (exposed, rest) = std::mem::take(&mut queue.batches)
                .into_iter()
                .partition(|batch| batch.exposed);
            queue.batches = rest;
            let exposed: VecDeque<Batch> = exposed;
            self.events.extend(exposed.iter().map(|batch| Event::Done {
                batch: batch.id,
                verdict: Verdict::Unknown,
            }));
        }
    }

    /// The next thing that happened.
    pub fn poll_event(&mut self) -> Option<Event> {
        self.events.pop_front()
    }

    /// When to poll again if nothing happens before.
    pub fn next_deadline(&self, now: Monotonic) -> Option<Monotonic> {
        let of_batch = |batch: &Batch| match batch.state {
            State::Open(until) | State::Ready(until) if until > now => until.min(batch.deadline),
            _ => batch.deadline,
        };
        let batches = self.queues.values().flat_map(|queue| &queue.batches);
        // What is due already waits for an event.
        batches.map(of_batch).filter(|due| *due > now).min()
    }
}

#[cfg(test)]
mod tests;
