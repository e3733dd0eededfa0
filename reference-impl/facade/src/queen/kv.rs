//! `POST /api/v1/kv`: the key/value rows of the facade, in namespace `queen-kafka` under `qk:`.
//!
//! A [`Batch`] can only hold what the proxy lets consumers do: `put`, `delete`, `getMany`,
//! `getPrefix` on keys that begin with `qk:`. Every `put` states its expiry. Versions are opaque:
//! compare them for equality only.

use std::time::Duration;

use http::Method;
use serde::Serialize;

use super::transport::{CALL_TIMEOUT, Call, Repeat, Wait};
use super::{Client, Credential, Error, json};

mod admission;
mod answer;
mod read;
mod results;

pub use read::{MAX_KEYS_BEHIND, Readout, Scan};
pub use results::{Loss, OpResult, Outcome, Precondition, Row, Winner};

pub(super) use answer::{parse_results, parse_winner};

/// The namespace of every row.
pub const NAMESPACE: &str = "queen-kafka";
/// What every key begins with.
pub const KEY_PREFIX: &str = "qk:";
/// Most operations of one call.
pub const MAX_OPERATIONS: usize = 256;
/// Most keys of one call; a page counts as its limit.
pub const MAX_KEYS: usize = 1024;
/// Longest key.
pub const MAX_KEY_BYTES: usize = 512;
/// Longest value (its JSON).
pub const MAX_VALUE_BYTES: usize = 65_536;
/// Largest page of a prefix.
pub const MAX_PAGE_ROWS: usize = 1000;
/// Keys of one `getMany` when reading many rows.
pub const READ_CHUNK_KEYS: usize = 128;

/// The version of a row. Queen's versions are unique but don't grow, so there is no order.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Version(u64);

impl Version {
    /// The version with this number.
    pub const fn new(number: u64) -> Self {
        Self(number)
    }

    /// The number, for a log or a test.
    pub const fn number(self) -> u64 {
        self.0
    }
}

/// How long a row lives.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Expiry {
    /// Until it is deleted.
    Forever,
    /// This long (whole seconds, at least one).
    After(Duration),
}

/// What must hold for a write to be applied.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Expect {
    /// Nothing.
    Any,
    /// No live row has the key.
    Absent,
    /// The live row has exactly this version.
    Version(Version),
}

/// What a lost expectation means for the other operations of the call.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum OnLoss {
    /// Only this operation is not applied.
    Skip,
    /// Nothing of the call is applied.
    RollBack,
}

/// An operation that no call may carry.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum BatchError {
    /// Longer than [`MAX_KEY_BYTES`].
    #[error("the key is too long")]
    KeyTooLong,
    /// Doesn't begin with [`KEY_PREFIX`], so a proxy would refuse the whole call.
    #[error("the key is not one of the facade's")]
    ForeignKey,
    /// Longer than [`MAX_VALUE_BYTES`], or not expressible as JSON.
    #[error("the value is too long or not JSON")]
    BadValue,
    /// The call is full: [`MAX_OPERATIONS`] or [`MAX_KEYS`].
    #[error("the call is full")]
    Full,
    /// The key is written twice in one call.
    #[error("the key is written twice")]
    WrittenTwice,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Operation {
    Put,
    Delete,
    GetMany,
    GetPrefix,
}

impl Operation {
    fn name(self) -> &'static str {
        match self {
            Self::Put => "put",
            Self::Delete => "delete",
            Self::GetMany => "getMany",
            Self::GetPrefix => "getPrefix",
        }
    }
}

/// The operations of one call, encoded as they are added. Results come back in the same order.
#[derive(Clone, Debug, Default)]
pub struct Batch {
    json: Vec<u8>,
    operations: Vec<Operation>,
    /// Keys of each `getMany`, in order, to tell unread from missing.
    asked: Vec<Vec<String>>,
    written: std::collections::BTreeSet<String>,
    keys: usize,
}

impl Batch {
    /// An empty call.
    pub fn new() -> Self {
        Self::default()
    }

    /// How many operations it holds.
    pub fn len(&self) -> usize {
        self.operations.len()
    }

    /// Whether it holds none.
    pub fn is_empty(&self) -> bool {
        self.operations.is_empty()
    }

    /// Whether one more write fits.
    pub fn has_room(&self) -> bool {
        self.operations.len() < MAX_OPERATIONS && self.keys < MAX_KEYS
    }

    pub(super) fn json(&self) -> &[u8] {
        &self.json
    }

    pub(super) fn keys(&self) -> usize {
        self.keys
    }

    pub(super) fn operations(&self) -> &[Operation] {
        &self.operations
    }

    pub(super) fn asked(&self) -> &[Vec<String>] {
        &self.asked
    }

    /// Writes `value` under `key`.
    ///
    /// # Errors
    ///
    /// [`BatchError`]; the batch is then as it was.
    pub fn put(
        &mut self,
        key: &str,
        value: &(impl Serialize + ?Sized),
        expiry: Expiry,
        expect: Expect,
        on_loss: OnLoss,
    ) -> Result<(), BatchError> {
        let value = serde_json::to_vec(value).map_err(|_| BatchError::BadValue)?;
        if value.len() > MAX_VALUE_BYTES {
            return Err(BatchError::BadValue);
        }
        self.begin_write(Operation::Put, key)?;
        self.json.extend_from_slice(b",\"value\":");
        self.json.extend_from_slice(&value);
        match expiry {
            Expiry::Forever => self.json.extend_from_slice(b",\"forever\":true"),
            Expiry::After(time) => {
                self.json.extend_from_slice(b",\"ttlSeconds\":");
                json::write_display(&mut self.json, time.as_secs().max(1));
            }
        }
        self.end_write(expect, on_loss);
        Ok(())
    }

    /// Writes `value` under `key` whatever is there, to stay.
    ///
    /// # Errors
    ///
    /// As [`Batch::put`].
    pub fn put_forever(
        &mut self,
        key: &str,
        value: &(impl Serialize + ?Sized),
    ) -> Result<(), BatchError> {
        self.put(key, value, Expiry::Forever, Expect::Any, OnLoss::Skip)
    }

    /// Deletes the row of `key`. Deleting nothing is not applied, reason `absent`.
    ///
    /// # Errors
    ///
    /// As [`Batch::put`].
    pub fn delete(&mut self, key: &str, expect: Expect, on_loss: OnLoss) -> Result<(), BatchError> {
        self.begin_write(Operation::Delete, key)?;
        self.end_write(expect, on_loss);
        Ok(())
    }

    /// Reads the rows of `keys`; sees the writes of the same call.
    ///
    /// # Errors
    ///
    /// As [`Batch::put`].
    pub fn get_many<K: AsRef<str>>(&mut self, keys: &[K]) -> Result<(), BatchError> {
        for key in keys {
            check_key(key.as_ref())?;
        }
        self.begin(Operation::GetMany, keys.len())?;
        self.json.extend_from_slice(b",\"keys\":[");
        for (index, key) in keys.iter().enumerate() {
            if index > 0 {
                self.json.push(b',');
            }
            json::write_str(&mut self.json, key.as_ref());
        }
        self.json.extend_from_slice(b"]}");
        self.asked
            .push(keys.iter().map(|key| key.as_ref().to_owned()).collect());
        Ok(())
    }

    /// Reads one page of the rows whose keys begin with `prefix`, after key `after`, in byte
    /// order. With `keys_only` the values are not read.
    ///
    /// # Errors
    ///
    /// As [`Batch::put`].
    pub fn get_prefix(
        &mut self,
        prefix: &str,
        after: Option<&str>,
        limit: usize,
        keys_only: bool,
    ) -> Result<(), BatchError> {
        check_key(prefix)?;
        let limit = limit.clamp(1, MAX_PAGE_ROWS);
        self.begin(Operation::GetPrefix, limit)?;
        self.json.extend_from_slice(b",\"prefix\":");
        json::write_str(&mut self.json, prefix);
        if let Some(after) = after {
            self.json.extend_from_slice(b",\"after\":");
            json::write_str(&mut self.json, after);
        }
        self.json.extend_from_slice(b",\"limit\":");
        json::write_display(&mut self.json, limit);
        if keys_only {
            self.json.extend_from_slice(b",\"keysOnly\":true");
        }
        self.json.push(b'}');
        Ok(())
    }

    fn begin(&mut self, operation: Operation, keys: usize) -> Result<(), BatchError> {
        if self.operations.len() >= MAX_OPERATIONS || self.keys + keys > MAX_KEYS {
            return Err(BatchError::Full);
        }
        if !self.operations.is_empty() {
            self.json.push(b',');
        }
        self.operations.push(operation);
        self.keys += keys;
        self.json.extend_from_slice(b"{\"op\":\"");
        self.json.extend_from_slice(operation.name().as_bytes());
        self.json.extend_from_slice(b"\",\"ns\":\"");
        self.json.extend_from_slice(NAMESPACE.as_bytes());
        self.json.push(b'"');
        Ok(())
    }

    fn begin_write(&mut self, operation: Operation, key: &str) -> Result<(), BatchError> {
        check_key(key)?;
        if self.written.contains(key) {
            return Err(BatchError::WrittenTwice);
        }
        self.begin(operation, 1)?;
        self.written.insert(key.to_owned());
        self.json.extend_from_slice(b",\"key\":");
        json::write_str(&mut self.json, key);
        Ok(())
    }

    fn end_write(&mut self, expect: Expect, on_loss: OnLoss) {
        match expect {
            Expect::Any => {}
            Expect::Absent => self.json.extend_from_slice(b",\"expect\":0"),
            Expect::Version(version) => {
                self.json.extend_from_slice(b",\"expect\":");
                json::write_display(&mut self.json, version.0);
            }
        }
        if on_loss == OnLoss::RollBack {
            self.json.extend_from_slice(b",\"required\":true");
        }
        self.json.push(b'}');
    }
}

fn check_key(key: &str) -> Result<(), BatchError> {
    if !key.starts_with(KEY_PREFIX) {
        Err(BatchError::ForeignKey)
    } else if key.len() > MAX_KEY_BYTES {
        Err(BatchError::KeyTooLong)
    } else {
        Ok(())
    }
}

impl Client {
    /// Runs `batch` as one atomic call.
    ///
    /// `repeat` is [`Repeat::Safe`] for reads, for unconditional writes whose repetition writes the
    /// same again, and never for conditional ones (their repetition loses against themselves).
    ///
    /// # Errors
    ///
    /// All of [`Error`]; results that don't match the operations are [`Error::Unreadable`].
    pub async fn kv(
        &self,
        credential: &Credential,
        batch: &Batch,
        repeat: Repeat,
    ) -> Result<Outcome, Error> {
        if batch.is_empty() {
            return Ok(Outcome::Done(Vec::new()));
        }
        let mut body = Vec::with_capacity(batch.json.len() + 18);
        body.extend_from_slice(b"{\"operations\":[");
        body.extend_from_slice(&batch.json);
        body.extend_from_slice(b"]}");
        let answer = self
            .admitted(Call {
                method: Method::POST,
                path: "/api/v1/kv".into(),
                body: body.into(),
                credential,
                timeout: CALL_TIMEOUT,
                wait: Wait::Prompt,
                repeat,
            })
            .await?;
        answer::parse_outcome(&answer, batch)
    }
}

/// Percent-encodes every byte of `part` outside `[A-Za-z0-9._-]`, upper-case, so that it can be a
/// part of a key between colons.
pub fn escape(part: &str) -> String {
    let mut escaped = String::with_capacity(part.len());
    for byte in part.bytes() {
        if byte.is_ascii_alphanumeric() || matches!(byte, b'.' | b'_' | b'-') {
            escaped.push(char::from(byte));
        } else {
            escaped.push('%');
            escaped.push(char::from(HEX[usize::from(byte >> 4)]));
            escaped.push(char::from(HEX[usize::from(byte & 15)]));
        }
    }
    escaped
}

/// The inverse of [`escape`], either case of hex; malformed escapes stay as they are.
pub fn unescape(part: &str) -> String {
    let bytes = part.as_bytes();
    let mut plain = Vec::with_capacity(bytes.len());
    let mut at = 0;
    while let Some(&byte) = bytes.get(at) {
        let hex = |offset: usize| -> Option<u8> {
            let digit = char::from(*bytes.get(at + offset)?).to_digit(16)?;
            u8::try_from(digit).ok()
        };
        match (byte, hex(1), hex(2)) {
            (b'%', Some(high), Some(low)) => {
                plain.push(high << 4 | low);
                at += 3;
            }
            _ => {
                plain.push(byte);
                at += 1;
            }
        }
    }
    String::from_utf8(plain).unwrap_or_else(|_| part.to_owned())
}

const HEX: &[u8; 16] = b"0123456789ABCDEF";

#[cfg(test)]
mod tests;
