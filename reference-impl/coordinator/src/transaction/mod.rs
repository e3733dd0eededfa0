//! One transactional id: who may write for it, what its open transaction holds, how it ends
//! (KIP-98, KIP-360, KIP-890).
//!
//! The log behind it has no open transactions, only one atomic call that appends a transaction's
//! records and replaces a *marker* row, provided the row has the version held. So everything that
//! lasts is a [`Write`] of the marker, and there's at most one at a time.
//!
//! # Calls
//!
//! - Getters: [`Transaction::phase`], [`Transaction::describe`], [`Transaction::content`],
//!   [`Transaction::next_deadline`].
//! - Commands: [`Transaction::init`], [`Transaction::begin`], [`Transaction::add_partitions`], [`Transaction::add_group`],
//!   [`Transaction::admit_batch`], [`Transaction::stage_offsets`], [`Transaction::end`]. Before the
//!   first one the caller reads the marker and calls [`Transaction::loaded`].
//! - Effects: a [`Write`] returned by `init`, `begin`, `end` or [`Transaction::expire`] must be carried out,
//!   and its outcome told with [`Transaction::written`]. An outcome that isn't known is no
//!   outcome: the caller repeats the write, or reads the marker, until it is.

mod content;
mod end;
mod identity;
mod refusal;
mod write;

#[cfg(test)]
mod tests;

use std::time::Duration;

use host::Monotonic;

pub use content::{Admission, Content, OffsetPlace, Partition, Recovered, StagedOffset};
pub use identity::{InitRequest, Producer, ProducerId};
pub use refusal::Refusal;
pub use write::{Ended, Marker, Outcome, Settled, Step, Write, WriteKind};

use crate::producer::ProducerEpoch;

/// Bounds of one transaction.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Limits {
    /// Partitions it may write to.
    pub partitions: usize,
    /// Offsets it may commit, and groups beyond the first count as one each.
    pub offsets: usize,
    /// Bytes of keys, values and headers.
    pub bytes: usize,
    /// Records.
    pub records: usize,
    /// `transaction.max.timeout.ms`.
    pub max_timeout: Duration,
}

/// What becomes of an open transaction when its process ends.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Durability {
    /// It is gone: only the process that staged it can commit it.
    Process,
    /// Another process finds it ([`Transaction::loaded`] with [`Recovered`]).
    Stored,
}

/// What goes on, in Kafka's words.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Phase {
    /// The marker wasn't read yet.
    Unloaded,
    /// No transaction since the producer was initialised.
    Empty,
    /// One is open.
    Ongoing,
    /// A commit is on its way.
    PrepareCommit,
    /// An abort, or a new producer, is on its way.
    PrepareAbort,
    /// The last one was committed.
    CompleteCommit,
    /// The last one was aborted.
    CompleteAbort,
}

impl Phase {
    /// Kafka's name of the state, as DescribeTransactions and ListTransactions show it.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Unloaded | Self::Empty => "Empty",
            Self::Ongoing => "Ongoing",
            Self::PrepareCommit => "PrepareCommit",
            Self::PrepareAbort => "PrepareAbort",
            Self::CompleteCommit => "CompleteCommit",
            Self::CompleteAbort => "CompleteAbort",
        }
    }
}

/// The state of one transactional id. `V` is a version of its marker in the store.
#[derive(Clone, Debug)]
pub struct Transaction<V> {
    limits: Limits,
    durability: Durability,
    /// Names this process in markers.
    writer: u64,
    producer: Option<Producer>,
    /// Who the producer was before the last bump that a client asked for: a repetition of that
    /// request comes with it.
    previous: Option<Producer>,
    version: Option<V>,
    /// The marker says that a transaction is open.
    marked_open: bool,
    /// Transactions that ended.
    number: u64,
    timeout: Duration,
    state: State<V>,
    next_token: u64,
}

#[derive(Clone, Debug)]
enum State<V> {
    Unloaded,
    Idle(Idle),
    Ongoing(Content),
    Writing(Writing<V>),
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Idle {
    Empty,
    /// How the last one ended, as this process saw it or the stored stage proves it.
    Ended(Ended),
    /// How the last one ended, as the marker says. One of transactions 2, which marks no beginning,
    /// may have died with a process since.
    Remembered(Ended),
    /// One was open and died with its process.
    Lost,
}

#[derive(Clone, Debug)]
struct Writing<V> {
    write: Write<V>,
    /// What was open when the write began; kept for a commit, and for going back.
    content: Option<Content>,
    /// What it was before, when nothing was open.
    idle: Idle,
    /// `transaction.timeout.ms` of a claim.
    timeout: Duration,
}

/// What DescribeTransactions tells.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Description {
    /// The state.
    pub phase: Phase,
    /// The producer; `None` when the id was never initialised.
    pub producer: Option<Producer>,
    /// `transaction.timeout.ms`.
    pub timeout: Duration,
    /// When the open transaction began, as an age at the time of asking.
    pub age: Option<Duration>,
    /// Where it writes to.
    pub partitions: Vec<Partition>,
}

impl<V: Copy + Eq> Transaction<V> {
    /// An id of which nothing is known. `writer` names this process in markers.
    pub const fn new(limits: Limits, durability: Durability, writer: u64) -> Self {
        Self {
            limits,
            durability,
            writer,
            producer: None,
            previous: None,
            version: None,
            marked_open: false,
            number: 0,
            timeout: limits.max_timeout,
            state: State::Unloaded,
            next_token: 0,
        }
    }

    /// The marker as it is (`None`: there's none), and what the stage holds beyond it. Does
    /// nothing once the marker is known.
    pub fn loaded(
        &mut self,
        now: Monotonic,
        row: Option<(V, Marker)>,
        recovered: Option<Recovered>,
    ) {
        if !matches!(self.state, State::Unloaded) {
            return;
        }
        match row {
            None => {
                (self.producer, self.previous, self.version) = (None, None, None);
                self.number = 0;
                self.state = State::Idle(Idle::Empty);
            }
            Some((version, marker)) => {
                self.version = Some(version);
                let ended = self.adopt(&marker);
                self.state = match (recovered, self.durability) {
                    (Some(recovered), Durability::Stored) => {
                        State::Ongoing(Content::recovered(recovered, now))
                    }
                    (_, Durability::Stored) => State::Idle(Idle::Ended(ended)),
                    (_, Durability::Process) if marker.open => State::Idle(Idle::Lost),
                    (_, Durability::Process) => State::Idle(Idle::Remembered(ended)),
                };
            }
        }
    }

    /// As [`Transaction::loaded`], over what was known, where other processes stage and write too.
    /// Does nothing while a write is on its way: its outcome says more.
    pub fn reloaded(
        &mut self,
        now: Monotonic,
        row: Option<(V, Marker)>,
        recovered: Option<Recovered>,
    ) {
        if self.writing().is_none() {
            self.state = State::Unloaded;
            self.loaded(now, row, recovered);
        }
    }

    /// The version of the marker that is known; `None` when there is none.
    pub const fn version(&self) -> Option<V> {
        self.version
    }

    /// Forgets everything that the marker says, unless something is open or on its way.
    pub fn forget(&mut self) {
        if matches!(self.state, State::Idle(_)) {
            self.state = State::Unloaded;
        }
    }

    fn adopt(&mut self, marker: &Marker) -> Ended {
        self.producer = Some(marker.producer);
        self.previous = marker.previous;
        self.number = marker.number;
        self.marked_open = marker.open;
        self.timeout = marker.timeout.unwrap_or(self.limits.max_timeout);
        marker.ended
    }

    /// What goes on.
    pub const fn phase(&self) -> Phase {
        match &self.state {
            State::Unloaded => Phase::Unloaded,
            State::Idle(Idle::Empty) => Phase::Empty,
            State::Idle(Idle::Ended(ended) | Idle::Remembered(ended)) => match ended {
                Ended::Committed => Phase::CompleteCommit,
                Ended::Aborted => Phase::CompleteAbort,
            },
            State::Idle(Idle::Lost) => Phase::CompleteAbort,
            State::Ongoing(_) => Phase::Ongoing,
            State::Writing(writing) => match writing.write.kind {
                WriteKind::Open => Phase::Ongoing,
                WriteKind::Commit => Phase::PrepareCommit,
                WriteKind::Claim | WriteKind::Abort | WriteKind::Fence => Phase::PrepareAbort,
            },
        }
    }

    /// Whether a transaction is open, or its end on its way: it takes one of the process's places.
    pub const fn is_open(&self) -> bool {
        matches!(
            self.phase(),
            Phase::Ongoing | Phase::PrepareCommit | Phase::PrepareAbort
        )
    }

    /// The producer that may write.
    pub const fn producer(&self) -> Option<Producer> {
        self.producer
    }

    /// How many transactions ended; the open one is one more.
    pub const fn number(&self) -> u64 {
        self.number
    }

    /// `transaction.timeout.ms` of the producer.
    pub const fn timeout(&self) -> Duration {
        self.timeout
    }

    /// What the open transaction, or the one being committed, holds.
    pub const fn content(&self) -> Option<&Content> {
        match &self.state {
            State::Ongoing(content) => Some(content),
            State::Writing(writing) => writing.content.as_ref(),
            State::Unloaded | State::Idle(_) => None,
        }
    }

    /// The write on its way, to be carried on.
    pub const fn writing(&self) -> Option<&Write<V>> {
        match &self.state {
            State::Writing(writing) => Some(&writing.write),
            _ => None,
        }
    }

    /// When the open transaction is over.
    pub fn next_deadline(&self) -> Option<Monotonic> {
        match &self.state {
            State::Ongoing(content) => {
                Some(content.began + self.timeout.saturating_sub(content.age))
            }
            _ => None,
        }
    }

    /// For DescribeTransactions.
    pub fn describe(&self, now: Monotonic) -> Description {
        let content = self.content();
        Description {
            phase: self.phase(),
            producer: self.producer,
            timeout: self.timeout,
            age: content.map(|content| content.age(now)),
            partitions: content
                .map_or_else(Vec::new, |content| content.partitions().cloned().collect()),
        }
    }

    /// Whether `producer` is the one that may write now, and nothing is on its way.
    ///
    /// # Errors
    ///
    /// [`Refusal`], as Kafka's coordinator orders them.
    pub fn verify(&self, producer: Producer) -> Result<(), Refusal> {
        if matches!(self.state, State::Unloaded) {
            return Err(Refusal::NotLoaded);
        }
        let current = self.producer.ok_or(Refusal::InvalidProducerIdMapping)?;
        if current.id != producer.id {
            return Err(Refusal::InvalidProducerIdMapping);
        }
        if current.epoch != producer.epoch {
            return Err(Refusal::ProducerFenced);
        }
        match self.state {
            State::Writing(_) => Err(Refusal::ConcurrentTransactions),
            // What the producer had open died with another process: what came after it mustn't be
            // committed without it.
            State::Idle(Idle::Lost) => Err(Refusal::InvalidProducerIdMapping),
            _ => Ok(()),
        }
    }

    /// As [`verify`](Self::verify), for what begins a transaction without a word in the marker
    /// (transactions 2): one that began so before may have died with another process.
    fn verify_implicit(&self, producer: Producer) -> Result<(), Refusal> {
        self.verify(producer)?;
        match self.state {
            State::Idle(Idle::Remembered(_)) => Err(Refusal::InvalidProducerIdMapping),
            _ => Ok(()),
        }
    }

    /// A transaction of `producer` is to begin by AddPartitionsToTxn or AddOffsetsToTxn. Where it
    /// would die with this process the marker says so first: after a restart an EndTxn that comes
    /// again is told from that of a transaction that is gone. `None`: nothing has to be written.
    ///
    /// # Errors
    ///
    /// As [`Transaction::verify`].
    pub fn begin(
        &mut self,
        now: Monotonic,
        producer: Producer,
    ) -> Result<Option<Write<V>>, Refusal> {
        self.verify(producer)?;
        let State::Idle(idle) = self.state else {
            return Ok(None);
        };
        if self.durability == Durability::Stored {
            return Ok(None);
        }
        if self.marked_open {
            self.state = State::Ongoing(Content::new(now));
            return Ok(None);
        }
        let mut marker = self.marker(producer, self.previous, Ended::Aborted);
        marker.open = true;
        let (content, timeout) = (Some(Content::new(now)), self.timeout);
        Ok(Some(self.start(
            WriteKind::Open,
            marker,
            content,
            idle,
            timeout,
        )))
    }

    /// The open transaction of `producer`; one begins when none is open.
    fn open(&mut self, now: Monotonic, producer: Producer) -> Result<&mut Content, Refusal> {
        self.verify(producer)?;
        if let State::Idle(_) = self.state {
            self.state = State::Ongoing(Content::new(now));
        }
        match &mut self.state {
            State::Ongoing(content) => Ok(content),
            _ => Err(Refusal::ConcurrentTransactions),
        }
    }

    fn token(&mut self) -> u64 {
        self.next_token += 1;
        self.next_token
    }

    fn marker(&self, producer: Producer, previous: Option<Producer>, ended: Ended) -> Marker {
        Marker {
            producer,
            previous,
            ended,
            open: false,
            number: self.number,
            timeout: Some(self.timeout),
            writer: self.writer,
        }
    }
}

/// The epoch that fences `epoch`: the last one stays for that.
fn fencing(epoch: ProducerEpoch) -> ProducerEpoch {
    epoch
        .bump()
        .or_else(|| ProducerEpoch::new(i16::MAX))
        .unwrap_or(epoch)
}
