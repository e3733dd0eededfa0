//! One record, borrowed from the batch it stands in, and the opened batch that lends it.

use bytes::Bytes;

use super::varint::Cursor;
use super::{BatchHeader, Headers, RecordFault, RecordsError, TimestampType};

/// Fewest bytes a record takes: length, attributes, two deltas, two lengths, header count.
const MIN_RECORD_BYTES: usize = 7;

/// One record, to read or to write.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Record<'a> {
    /// Its offset in the partition.
    pub offset: i64,
    /// Milliseconds since 1970; the batch's append time where the batch says so.
    pub timestamp: i64,
    /// Null and empty are different things.
    pub key: Option<&'a [u8]>,
    /// Null and empty are different things: null is a tombstone.
    pub value: Option<&'a [u8]>,
    /// In order, duplicates kept.
    pub headers: Headers<'a>,
}

/// The records of one batch, decompressed. Owns their bytes; [`Records::iter`] lends them.
#[derive(Clone, Debug)]
pub struct Records {
    header: BatchHeader,
    body: Bytes,
    count: u32,
}

impl Records {
    /// `body` is decompressed; the count in `header` was proved not to be negative.
    pub(super) fn new(header: BatchHeader, body: Bytes) -> Result<Self, RecordsError> {
        let fits = |count: &u32| *count as usize <= body.len() / MIN_RECORD_BYTES;
        let count = u32::try_from(header.count)
            .ok()
            .filter(fits)
            .ok_or(RecordsError::Record {
                index: 0,
                fault: RecordFault::Count,
            })?;
        Ok(Self {
            header,
            body,
            count,
        })
    }

    /// How many records the batch declares. The bytes have room for that many.
    #[must_use]
    pub const fn len(&self) -> usize {
        self.count as usize
    }

    /// Whether the batch declares none (compaction leaves such batches behind).
    #[must_use]
    pub const fn is_empty(&self) -> bool {
        self.count == 0
    }

    /// Bytes of the records, decompressed.
    #[must_use]
    pub const fn len_bytes(&self) -> usize {
        self.body.len()
    }

    /// The records in order. The first fault ends the iteration; bytes behind the last record are
    /// a fault too, so who reads to the end has read a whole batch.
    #[must_use]
    pub fn iter(&self) -> RecordsIter<'_> {
        RecordsIter {
            header: &self.header,
            cursor: Cursor::new(&self.body),
            index: 0,
            count: self.count,
            previous_delta: -1,
            ended: false,
        }
    }

    /// A counted reference to a key, value or header that this batch lent, without a copy.
    /// A slice from elsewhere is copied.
    #[must_use]
    pub fn share(&self, part: &[u8]) -> Bytes {
        let lent = self.body.as_ptr_range();
        let asked = part.as_ptr_range();
        if lent.start <= asked.start && asked.end <= lent.end {
            self.body.slice_ref(part)
        } else {
            Bytes::copy_from_slice(part)
        }
    }
}

impl<'a> IntoIterator for &'a Records {
    type Item = Result<Record<'a>, RecordsError>;
    type IntoIter = RecordsIter<'a>;

    fn into_iter(self) -> RecordsIter<'a> {
        self.iter()
    }
}

/// Iterator of [`Records::iter`].
#[derive(Clone, Debug)]
pub struct RecordsIter<'a> {
    header: &'a BatchHeader,
    cursor: Cursor<'a>,
    index: u32,
    count: u32,
    previous_delta: i32,
    ended: bool,
}

impl<'a> RecordsIter<'a> {
    #[inline]
    fn parse(&mut self) -> Result<Record<'a>, RecordFault> {
        let declared = self.cursor.varint()?;
        let len = usize::try_from(declared).map_err(|_| RecordFault::Length(declared))?;
        let mut fields = Cursor::new(self.cursor.bytes(len)?);
        self.parse_fields(&mut fields).map_err(|fault| match fault {
            // The record is whole; its fields want more than it has.
            RecordFault::Truncated => RecordFault::LengthMismatch,
            fault => fault,
        })
    }

    #[inline]
    fn parse_fields(&mut self, fields: &mut Cursor<'a>) -> Result<Record<'a>, RecordFault> {
        // Record attributes: Kafka has given out none.
        fields.byte()?;
        let timestamp_delta = fields.varlong()?;
        let offset_delta = fields.varint()?;
        if offset_delta <= self.previous_delta || offset_delta > self.header.last_offset_delta {
            return Err(RecordFault::OffsetDelta(offset_delta));
        }
        self.previous_delta = offset_delta;
        let timestamp = match self.header.timestamp_type() {
            TimestampType::LogAppendTime => self.header.max_timestamp,
            TimestampType::CreateTime => self
                .header
                .base_timestamp
                .checked_add(timestamp_delta)
                .ok_or(RecordFault::TimestampOverflow)?,
        };
        let record = Record {
            // The header's check proved that base plus the largest delta is an offset.
            offset: self
                .header
                .base_offset
                .saturating_add(i64::from(offset_delta)),
            timestamp,
            key: fields.nullable_bytes()?,
            value: fields.nullable_bytes()?,
            headers: Headers::parse(fields)?,
        };
        if fields.remaining() == 0 {
            Ok(record)
        } else {
            Err(RecordFault::LengthMismatch)
        }
    }

    fn fail(&mut self, fault: RecordFault) -> RecordsError {
        self.ended = true;
        RecordsError::Record {
            index: self.index,
            fault,
        }
    }
}

impl<'a> Iterator for RecordsIter<'a> {
    type Item = Result<Record<'a>, RecordsError>;

    #[inline]
    fn next(&mut self) -> Option<Self::Item> {
        if self.ended {
            return None;
        }
        if self.index == self.count {
            self.ended = true;
            return (self.cursor.remaining() != 0)
                .then(|| Err(self.fail(RecordFault::TrailingBytes)));
        }
        match self.parse() {
            Ok(record) => {
                self.index += 1;
                Some(Ok(record))
            }
            Err(fault) => Some(Err(self.fail(fault))),
        }
    }

    fn size_hint(&self) -> (usize, Option<usize>) {
        if self.ended {
            return (0, Some(0));
        }
        let left = (self.count - self.index) as usize;
        // A fault may come early, or take one more item at the end.
        (0, Some(left + 1))
    }
}

impl std::iter::FusedIterator for RecordsIter<'_> {}
