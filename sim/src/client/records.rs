//! Records as they come from a broker, proved before they are believed.

use bytes::Bytes;
use kafka_wire::records::{Batches, Budget};

use super::CallError;
use super::producer::digest;
use crate::history::{NotAValue, Seen, TopicPartition, Value};

/// Bytes and records of one partition in one answer.
const MAX_ANSWER_BYTES: usize = 64 << 20;
const MAX_ANSWER_RECORDS: usize = 1_000_000;

/// What a partition's answer holds.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Read {
    /// The records from the position on.
    pub records: Vec<Seen>,
    /// The position after them: behind the last batch, whose last offsets may hold nothing.
    pub next: i64,
}

/// The records of `at` from `position` on.
///
/// # Errors
///
/// [`CallError::Malformed`]: bytes that are no batches, or values that nobody wrote.
pub(super) fn records(
    at: &TopicPartition,
    bytes: Option<Bytes>,
    position: i64,
) -> Result<Read, CallError> {
    let malformed = |what: String| CallError::malformed(format!("records of {at}: {what}"));
    let mut read = Read {
        records: Vec::new(),
        next: position,
    };
    let mut budget = Budget::new(MAX_ANSWER_BYTES, MAX_ANSWER_RECORDS);
    for batch in Batches::new(bytes.unwrap_or_default()) {
        let batch = batch.map_err(|error| malformed(error.to_string()))?;
        let header = batch.header();
        let last = header.base_offset + i64::from(header.last_offset_delta);
        if !header.attributes.is_control() {
            let inner = batch.records(&mut budget);
            for record in &inner.map_err(|error| malformed(error.to_string()))? {
                let record = record.map_err(|error| malformed(error.to_string()))?;
                // A batch comes whole, even when it begins before the offset that was asked for.
                if record.offset < position {
                    continue;
                }
                let bytes = record.value.unwrap_or_default();
                let value: Value = String::from_utf8_lossy(bytes)
                    .parse()
                    .map_err(|error: NotAValue| malformed(error.to_string()))?;
                read.records.push(Seen {
                    offset: record.offset,
                    value,
                    digest: Some(digest(record.key, bytes, record.timestamp)),
                });
            }
        }
        read.next = read.next.max(last + 1);
    }
    Ok(read)
}
