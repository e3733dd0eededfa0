//! One record batch on its way to Queen, and what became of it.

use std::sync::Arc;
use std::time::Duration;

use coordinator::producer::{ProducerEpoch, SequenceRange, Ticket};
use host::Monotonic;
use kafka_wire::ErrorCode;
use tokio::sync::oneshot;
use uuid::Uuid;

use super::memory::Reservation;
use crate::queen::{Fragment, Scope};
use crate::time_index::Appended;

/// The Queen lane that a batch goes to; batches of one lane keep their order.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct LaneKey {
    /// The queue (topic).
    pub queue: Arc<str>,
    /// The partition.
    pub partition: i32,
}

/// Names the sequence window of one producer on one partition. The topic id makes a recreated
/// topic a new one; the name tells topics apart where Queen's list has no ids.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct WindowKey {
    /// Whose.
    pub scope: Scope,
    /// The topic's queue.
    pub queue: Arc<str>,
    /// The topic's id, nil where it is not known.
    pub topic_id: Uuid,
    /// The partition.
    pub partition: i32,
    /// The producer.
    pub producer_id: i64,
}

/// The place of an idempotent producer's batch in its sequence.
#[derive(Clone, Debug)]
pub struct Sequenced {
    /// The window that judges it.
    pub window: WindowKey,
    /// The producer's epoch.
    pub epoch: ProducerEpoch,
    /// The sequence numbers of its records.
    pub range: SequenceRange,
}

/// A producer that produced to a partition lately.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Active {
    /// The producer.
    pub id: i64,
    /// Its epoch.
    pub epoch: ProducerEpoch,
    /// The sequence of the last record stored.
    pub last_sequence: i32,
}

/// What Queen makes of the same items pushed twice.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Replay {
    /// It recognises them: the second push stores nothing and answers the first one's offsets.
    Recognised,
    /// It stores them again.
    Doubled,
}

/// A batch that waits to be stored.
#[derive(Debug)]
pub struct Unit {
    /// Where it goes.
    pub lane: LaneKey,
    /// Its records, encoded.
    pub fragment: Fragment,
    /// Its place in a sequence, for an idempotent producer.
    pub sequenced: Option<Sequenced>,
    /// Whether pushing it twice is safe.
    pub replay: Replay,
    /// Until when a push that didn't store it is tried again.
    pub deadline: Monotonic,
    /// What the time index learns when it is stored.
    pub appended: Option<Appended>,
    /// The memory it holds.
    pub reservation: Reservation,
    /// Who waits for it. Nobody may: the connection can close.
    pub answer: oneshot::Sender<Outcome>,
    /// Set on admission.
    pub(super) ticket: Option<Ticket>,
    /// The longest wait that Queen demanded meanwhile.
    pub(super) throttle: Duration,
}

impl Unit {
    /// How many records it holds.
    pub fn items(&self) -> usize {
        self.fragment.items()
    }

    /// Its part of a push body.
    pub fn len_bytes(&self) -> usize {
        self.fragment.len_bytes() + 1
    }
}

/// What became of a batch.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Outcome {
    /// The offset of its first record, or why it isn't stored.
    pub result: Result<i64, Failure>,
    /// How long the client should wait before its next request.
    pub throttle: Duration,
}

impl Outcome {
    /// A failure without a wait.
    pub fn failed(code: ErrorCode) -> Self {
        Self {
            result: Err(Failure::new(code)),
            throttle: Duration::ZERO,
        }
    }
}

/// A Kafka error and what may be said about it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Failure {
    /// The code.
    pub code: ErrorCode,
    /// For `error_message` (Produce v8 and up).
    pub message: Option<Arc<str>>,
    /// For `record_errors` (Produce v8 and up): the records that the batch is refused for.
    pub records: Arc<[RecordFault]>,
}

/// What is wrong with one record of a batch.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RecordFault {
    /// Its position in the batch.
    pub index: i32,
    /// What is wrong.
    pub message: String,
}

impl Failure {
    /// A code that says everything.
    pub fn new(code: ErrorCode) -> Self {
        Self {
            code,
            message: None,
            records: Arc::default(),
        }
    }

    /// A code with an explanation.
    pub fn because(code: ErrorCode, message: impl Into<Arc<str>>) -> Self {
        Self {
            code,
            message: Some(message.into()),
            records: Arc::default(),
        }
    }

    /// A code with an explanation, and the records that it is about.
    pub fn of_records(
        code: ErrorCode,
        message: impl Into<Arc<str>>,
        records: impl IntoIterator<Item = RecordFault>,
    ) -> Self {
        Self {
            records: records.into_iter().collect(),
            ..Self::because(code, message)
        }
    }
}
