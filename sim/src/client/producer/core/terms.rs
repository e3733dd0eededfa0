//! What goes into the producer's core, and what comes out.

use std::sync::Arc;

use bytes::Bytes;
use kafka_wire::ErrorCode;

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
    pub(super) fn len_bytes(&self) -> usize {
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
