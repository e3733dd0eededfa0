//! The producer without its network: which batch goes out when, and what becomes of it.
//!
//! Events go in through `handle_*`; [`Core::poll_transmit`] says what to send next and
//! [`Core::poll_event`] what happened. Call both until they give nothing after every event, and
//! again at [`Core::next_deadline`]. No I/O and no clock: time comes in as `now`.

use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use host::{Entropy, Monotonic};
use kafka_wire::ErrorCode;
use kafka_wire::records::increment_sequence;

use crate::client::backoff::BackoffRule;
use crate::client::profile::{Desynchronised, ProducerRules, Repetition, RequestShape};
use crate::history::{Name, TopicPartition};

/// One record to be written.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Outgoing {
    /// Its key.
    pub key: Option<Bytes>,
    /// Its value.
    pub value: Bytes,
    /// Milliseconds since 1970.
    pub timestamp: i64,
}

impl Outgoing {
    fn len_bytes(&self) -> usize {
        self.key.as_ref().map_or(0, Bytes::len) + self.value.len()
    }
}

/// The number of a batch, unique in a producer's life.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct BatchId(pub u64);

/// The number of a request, unique in a producer's life.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct TransmitId(pub u64);

/// Producer id and epoch.
pub type Identity = crate::history::Producer;

/// A batch as it goes out.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Transmitted {
    /// Which.
    pub batch: BatchId,
    /// Where to.
    pub to: TopicPartition,
    /// Its records, in order.
    pub records: Arc<Vec<Outgoing>>,
    /// Identity and first sequence, of an idempotent producer.
    pub sequence: Option<(Identity, i32)>,
    /// 1 for the first time.
    pub attempt: u32,
}

/// A request to be sent.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Transmit {
    /// Its number.
    pub id: TransmitId,
    /// The broker.
    pub node: i32,
    /// One batch of each of its partitions.
    pub batches: Vec<Transmitted>,
}

/// What a batch came to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Verdict {
    /// It is stored, from this offset on where that was told.
    Stored(Option<i64>),
    /// The broker refused it, and it is not stored.
    Refused(ErrorCode),
    /// It was given up; it was never sent, or every attempt is known to have failed.
    GivenUp,
    /// It was given up, and an attempt may have been stored, or may yet be.
    Unknown,
}

/// Something that happened.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Event {
    /// A batch is complete and will go out.
    Sealed {
        /// Which.
        batch: BatchId,
        /// Where to.
        to: TopicPartition,
        /// Its records.
        records: Arc<Vec<Outgoing>>,
    },
    /// A batch is done with.
    Done {
        /// Which.
        batch: BatchId,
        /// What it came to.
        verdict: Verdict,
    },
    /// The topic's Metadata is out of date.
    Stale {
        /// Which.
        topic: Name,
    },
    /// The producer made up a new epoch for its id.
    NewEpoch(Identity),
    /// The producer is of no use any more.
    Fatal(ErrorCode),
}

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
        if self.rules.repetition == Repetition::Drain {
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

    fn fail_everything(&mut self, code: ErrorCode) {
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
