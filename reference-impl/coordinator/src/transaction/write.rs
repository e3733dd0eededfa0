//! The marker, its writes, and what became of them.

use std::time::Duration;

use super::identity::Producer;
use super::{Content, Durability, Idle, State, Transaction, Writing};

/// How a transaction ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Ended {
    /// Its records and offsets count.
    Committed,
    /// They never will.
    Aborted,
}

/// What the marker row says.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Marker {
    /// Who may write.
    pub producer: Producer,
    /// Who it was before the last bump that a client asked for.
    pub previous: Option<Producer>,
    /// How the last transaction ended; a producer that was just initialised aborted.
    pub ended: Ended,
    /// Another one has begun since, and waits in the memory of a process.
    pub open: bool,
    /// How many transactions ended.
    pub number: u64,
    /// `transaction.timeout.ms`; `None` in rows of others.
    pub timeout: Option<Duration>,
    /// The process that wrote it.
    pub writer: u64,
}

/// What a write is for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum WriteKind {
    /// A producer is initialised; what was open is aborted with it.
    Claim,
    /// A transaction begins.
    Open,
    /// The content is appended together with the marker, or neither.
    Commit,
    /// The content is dropped.
    Abort,
    /// As `Abort`, and the producer is fenced: its time was over.
    Fence,
}

/// A change of the marker, to be carried out until its outcome is known.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Write<V> {
    /// Names it in [`Transaction::written`].
    pub token: u64,
    /// What for.
    pub kind: WriteKind,
    /// The version the row must have; `None`: no row may exist.
    pub expect: Option<V>,
    /// What it says then.
    pub marker: Marker,
}

/// The outcome of a write.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Outcome<V> {
    /// Applied; the row has this version now.
    Applied(V),
    /// Not applied, because the row is this one (`None`: there's none).
    Lost(Option<(V, Marker)>),
    /// Certainly not applied, and nobody will try again.
    Failed,
}

/// What a command came to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Step<V> {
    /// The answer.
    Answer(Producer),
    /// The answer is [`Settled::Done`] of this write.
    Write(Write<V>),
}

/// What a write came to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Settled {
    /// As wanted, by this write or by an earlier try of it.
    Done(Producer),
    /// Another process changed the marker; what was open here is gone.
    Fenced,
    /// Not done, and everything is as it was before.
    Undone,
    /// The write isn't the one on its way.
    Unknown,
}

impl<V: Copy + Eq> Transaction<V> {
    /// A write's outcome.
    pub fn written(&mut self, token: u64, outcome: Outcome<V>) -> Settled {
        match &self.state {
            State::Writing(writing) if writing.write.token == token => {}
            _ => return Settled::Unknown,
        }
        let State::Writing(writing) = std::mem::replace(&mut self.state, State::Unloaded) else {
            return Settled::Unknown;
        };
        let write = writing.write;
        match outcome {
            Outcome::Applied(version) => self.done(&write, version, writing),
            Outcome::Lost(Some((version, winner))) if self.is_ours(&write, &winner) => {
                self.done(&write, version, writing)
            }
            // Another process was faster. What it left is read from the store, not from the answer:
            // the stage may hold more than the marker.
            Outcome::Lost(_) => Settled::Fenced,
            Outcome::Failed => {
                self.state = match (writing.content, write.kind) {
                    // Its time stays over: the same write is to be tried again.
                    (content, WriteKind::Fence) => State::Writing(Writing { content, ..writing }),
                    (_, WriteKind::Open) => State::Idle(writing.idle),
                    (Some(content), _) => State::Ongoing(content),
                    (None, _) => State::Idle(writing.idle),
                };
                Settled::Undone
            }
        }
    }

    /// Whether the row that a write lost against was written by an earlier try of it.
    fn is_ours(&self, write: &Write<V>, winner: &Marker) -> bool {
        let same = winner.producer == write.marker.producer
            && winner.ended == write.marker.ended
            && winner.open == write.marker.open
            && winner.number == write.marker.number
            && winner.previous == write.marker.previous;
        // Two processes over one stored stage commit the same; a claim is nobody else's to share.
        let shared = self.durability == Durability::Stored && write.kind != WriteKind::Claim;
        same && (shared || winner.writer == write.marker.writer)
    }

    fn done(&mut self, write: &Write<V>, version: V, writing: Writing<V>) -> Settled {
        self.version = Some(version);
        self.producer = Some(write.marker.producer);
        self.previous = write.marker.previous;
        self.number = write.marker.number;
        self.marked_open = write.marker.open;
        self.state = match (write.kind, writing.content) {
            (WriteKind::Claim, _) => {
                self.timeout = writing.timeout;
                State::Idle(Idle::Empty)
            }
            (WriteKind::Open, Some(content)) => State::Ongoing(content),
            _ => State::Idle(Idle::Ended(write.marker.ended)),
        };
        Settled::Done(write.marker.producer)
    }

    /// Puts a write on its way.
    pub(super) fn start(
        &mut self,
        kind: WriteKind,
        marker: Marker,
        content: Option<Content>,
        idle: Idle,
        timeout: Duration,
    ) -> Write<V> {
        let write = Write {
            token: self.token(),
            kind,
            expect: self.version,
            marker,
        };
        self.state = State::Writing(Writing {
            write,
            content,
            idle,
            timeout,
        });
        write
    }
}
