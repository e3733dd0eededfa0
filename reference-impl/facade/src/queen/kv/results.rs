//! What the operations of a KV call came to.

use serde::de::DeserializeOwned;
use serde_json::value::RawValue;

use super::Version;

/// A row as read.
#[derive(Clone, Debug)]
pub struct Row {
    /// Its key.
    pub key: String,
    /// Its version.
    pub version: Version,
    pub(super) value: Box<RawValue>,
}

impl Row {
    /// The value as a `T`.
    ///
    /// # Errors
    ///
    /// When it isn't one; rows are written by other programs too.
    pub fn value<T: DeserializeOwned>(&self) -> serde_json::Result<T> {
        serde_json::from_str(self.value.get())
    }

    /// The value's JSON text.
    pub fn json(&self) -> &str {
        self.value.get()
    }
}

/// Why a write was not applied.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Loss {
    /// A live row exists and none was expected.
    Exists,
    /// There is no live row.
    Absent,
    /// The live row has another version.
    Version,
    /// A reason this client doesn't know.
    Other,
}

/// The live row that made a write lose.
#[derive(Clone, Debug)]
pub struct Winner {
    /// Its version; `None` when there is no row, or when the answer was cut.
    pub version: Option<Version>,
    pub(super) value: Option<Box<RawValue>>,
}

impl Winner {
    /// One of which nothing was seen.
    pub(crate) const fn unseen() -> Self {
        Self {
            version: None,
            value: None,
        }
    }

    /// The value as a `T`; `None` when there is none, the answer was cut, or it isn't a `T`.
    pub fn value<T: DeserializeOwned>(&self) -> Option<T> {
        serde_json::from_str(self.value.as_ref()?.get()).ok()
    }
}

/// The result of one operation.
#[derive(Clone, Debug)]
pub enum OpResult {
    /// A write was applied. The version is the row's new one (a delete's: the deleted one).
    Applied(Version),
    /// A write was not applied.
    Lost(Loss, Winner),
    /// The rows of a `getMany`. A key in none of the three lists does not exist.
    Rows {
        /// Found, in order of their keys.
        rows: Vec<Row>,
        /// Certainly absent.
        missing: Vec<String>,
        /// Not read, because the answer would have been too large: unknown, not absent.
        unread: Vec<String>,
    },
    /// A page of a prefix; `next_after` continues it.
    Page {
        /// Found, in order of their keys. Values of a keys-only page are null.
        rows: Vec<Row>,
        /// The `after` of the next page; `None` at the end.
        next_after: Option<String>,
    },
}

/// What became of a call.
#[derive(Clone, Debug)]
pub enum Outcome {
    /// One result per operation.
    Done(Vec<OpResult>),
    /// A write with [`super::OnLoss::RollBack`] lost: nothing was applied.
    Precondition(Precondition),
}

/// The write that rolled a call back.
#[derive(Clone, Debug)]
pub struct Precondition {
    /// Its position in the batch, when the answer says.
    pub operation: Option<usize>,
    /// Why it lost.
    pub loss: Loss,
    /// The row it lost against. Large rows may be missing: read the key again then.
    pub winner: Winner,
}
