//! What clients asked and what they were told, in order of time: all that checkers see. Plain data.

use std::fmt;
use std::str::FromStr;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use serde::{Deserialize, Serialize};

use crate::trace::{self, Node, Trace};

/// A record's value: who wrote it, and its number among those. Unique in a run.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(into = "String", try_from = "String")]
pub struct Value {
    /// The producer.
    pub producer: u32,
    /// Counts from 0.
    pub number: u64,
}

impl fmt::Display for Value {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}-{}", self.producer, self.number)
    }
}

impl From<Value> for String {
    fn from(value: Value) -> Self {
        value.to_string()
    }
}

/// The bytes are no value of a run.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{0:?} was written by nobody")]
pub struct NotAValue(pub String);

impl FromStr for Value {
    type Err = NotAValue;

    fn from_str(text: &str) -> Result<Self, NotAValue> {
        let parsed = text.split_once('-').and_then(|(producer, number)| {
            Some(Self {
                producer: producer.parse().ok()?,
                number: number.parse().ok()?,
            })
        });
        parsed.ok_or_else(|| NotAValue(text.to_owned()))
    }
}

impl TryFrom<String> for Value {
    type Error = NotAValue;

    fn try_from(text: String) -> Result<Self, NotAValue> {
        text.parse()
    }
}

/// Consecutive values of one producer, written as one batch.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Batch {
    /// The first.
    pub first: Value,
    /// How many.
    pub count: u32,
    /// Where they go.
    pub partition: i32,
}

impl Batch {
    /// The values.
    pub fn values(self) -> impl Iterator<Item = Value> {
        let Value { producer, number } = self.first;
        (number..number + u64::from(self.count)).map(move |number| Value { producer, number })
    }
}

impl fmt::Display for Batch {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}+{} to {}", self.first, self.count, self.partition)
    }
}

/// Which pass over the log.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Pass {
    /// A reader that follows the log while faults strike.
    Live,
    /// A fresh reader, from the beginning to the end, after everything has healed.
    Final,
}

/// Something a client did or saw.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case", tag = "event")]
pub enum Event {
    /// A batch was handed to the producer.
    Sent {
        /// Which.
        batch: Batch,
    },
    /// The producer was told that a batch is stored.
    Acknowledged {
        /// Which.
        batch: Batch,
        /// Where its first value is, when it was told.
        base_offset: Option<i64>,
    },
    /// The producer was told that a batch can never be stored.
    Refused {
        /// Which.
        batch: Batch,
        /// Kafka's error code.
        code: i16,
    },
    /// A reader got a record.
    Read {
        /// In which pass.
        pass: Pass,
        /// From where.
        partition: i32,
        /// At which offset.
        offset: i64,
        /// What.
        value: Value,
    },
    /// A reader was told something that no retry heals.
    ReadRefused {
        /// In which pass.
        pass: Pass,
        /// Where.
        partition: i32,
        /// At which offset.
        offset: i64,
        /// Kafka's error code.
        code: i16,
    },
    /// The final pass has read everything.
    ReadAll,
    /// What came back isn't Kafka's protocol, or not what was asked for.
    Malformed {
        /// What is wrong.
        what: String,
    },
}

/// An event and its simulated time.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Entry {
    /// Milliseconds since the start of the run.
    pub at_ms: u64,
    /// What.
    #[serde(flatten)]
    pub event: Event,
}

/// The history of one run, while it grows. Clones are the same one.
#[derive(Clone, Debug, Default)]
pub struct Recorder {
    entries: Arc<Mutex<Vec<Entry>>>,
    trace: Trace,
}

impl Recorder {
    /// An empty history; what it records shows in `trace` too.
    pub fn new(trace: Trace) -> Self {
        Self {
            entries: Arc::default(),
            trace,
        }
    }

    fn lock(&self) -> MutexGuard<'_, Vec<Entry>> {
        self.entries.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Records `event` now.
    pub fn record(&self, event: Event) {
        let at_ms = u64::try_from(trace::now().as_millis()).unwrap_or(u64::MAX);
        self.lock().push(Entry { at_ms, event });
    }

    /// Notes in the trace what `client` does.
    pub fn note(&self, client: &str, what: fmt::Arguments<'_>) {
        self.trace
            .note(Node::Clients, format_args!("{client} {what}"));
    }

    /// The entries so far.
    pub fn entries(&self) -> Vec<Entry> {
        self.lock().clone()
    }
}
