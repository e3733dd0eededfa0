//! A KV call as it was understood, and what came of it. Plain data.

use std::sync::Arc;

use crate::engine::change::KvRow;

/// A call that passed every rule that needs no data.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Call {
    /// In request order.
    pub operations: Vec<Operation>,
}

impl Call {
    /// Some operation writes.
    pub fn writes(&self) -> bool {
        self.operations
            .iter()
            .any(|operation| matches!(operation.action, Action::Write { .. }))
    }

    /// Bytes it adds to a commit.
    pub fn bytes(&self) -> usize {
        let value = |operation: &Operation| match &operation.action {
            Action::Write {
                write: Write::Put { value, .. },
                ..
            } => value.len(),
            _ => 0,
        };
        self.operations.iter().map(value).sum()
    }
}

/// One operation.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Operation {
    /// The operation's name as requested; echoed.
    pub name: &'static str,
    /// Its namespace.
    pub namespace: Arc<str>,
    /// What to do.
    pub action: Action,
}

/// What an operation does.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Action {
    /// One row.
    Get {
        /// Its key.
        key: Arc<str>,
    },
    /// Several rows by key.
    GetMany {
        /// In request order.
        keys: Vec<Arc<str>>,
    },
    /// Rows by prefix, in byte order.
    GetPrefix {
        /// Not empty, except for the console's reads.
        prefix: Arc<str>,
        /// Exclusive.
        after: Option<Arc<str>>,
        /// At most this many.
        limit: usize,
        /// Values are left out.
        keys_only: bool,
        /// Rows past their expiry are shown too (the console's reads).
        include_expired: bool,
    },
    /// A write under an optional condition.
    Write {
        /// Its key.
        key: Arc<str>,
        /// What to write.
        write: Write,
        /// 0: no live row. N: a live row with that version.
        expect: Option<u64>,
        /// When the condition is lost nothing of the call is applied.
        required: bool,
    },
}

/// What a write does.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Write {
    /// Sets the value.
    Put {
        /// JSON text.
        value: Arc<str>,
        /// Time to live in seconds; `None` for ever.
        ttl_seconds: Option<u64>,
    },
    /// Removes the row.
    Delete,
    /// Adds to a number.
    Incr {
        /// What is added.
        delta: i64,
        /// Lower bound of the result.
        min: Option<i64>,
        /// Upper bound of the result.
        max: Option<i64>,
        /// Time to live of a row that this makes.
        ttl_seconds: Option<u64>,
    },
}

/// A row with its key.
pub type KeyRow = (Arc<str>, KvRow);

/// What came of one operation.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Outcome {
    /// Of `get`.
    Get {
        /// The key asked for.
        key: Arc<str>,
        /// Its live row.
        row: Option<KvRow>,
    },
    /// Of `getMany`.
    Many {
        /// Sorted by key.
        rows: Vec<KeyRow>,
        /// In request order.
        missing: Vec<Arc<str>>,
        /// Some keys are in neither.
        truncated: bool,
    },
    /// Of `getPrefix`.
    Prefix {
        /// In byte order.
        rows: Vec<KeyRow>,
        /// There is more.
        truncated: bool,
        /// Where to go on.
        next_after: Option<Arc<str>>,
        /// Values are left out.
        keys_only: bool,
    },
    /// Of a write that was applied.
    Applied {
        /// Its key.
        key: Arc<str>,
        /// The value now; for a delete, the value that was removed.
        value: Option<Arc<str>>,
        /// The version now; for a delete, the removed one.
        version: u64,
    },
    /// Of a write whose condition was lost.
    Lost {
        /// Its key.
        key: Arc<str>,
        /// Why.
        loss: Loss,
    },
}

/// A lost condition and who won it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Loss {
    /// `exists`, `absent`, `version`, `limit` or `type`.
    pub reason: &'static str,
    /// The live row's value.
    pub value: Option<Arc<str>>,
    /// The live row's version; 0 without one.
    pub version: u64,
}

/// A `required` condition was lost, so nothing was applied.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Precondition {
    /// Position in the call.
    pub index: usize,
    /// Which condition.
    pub loss: Loss,
}
