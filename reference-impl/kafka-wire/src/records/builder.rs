//! Writes one record batch into a caller's buffer, in one pass over the records.

use bytes::BytesMut;

use super::header::{BATCH_OVERHEAD_BYTES, seal};
use super::varint::{MAX_VARINT_BYTES, MAX_VARLONG_BYTES, put_varlong, varlong_len};
use super::{
    Attributes, BatchHeader, BuildError, Compression, Compressor, NO_PARTITION_LEADER_EPOCH,
    NO_PRODUCER_EPOCH, NO_PRODUCER_ID, NO_SEQUENCE, Record, TimestampType,
};

/// Length, attributes, both deltas and the key's length: all that stands before a record's key.
const MAX_PREFIX_BYTES: usize = 3 * MAX_VARINT_BYTES + 1 + MAX_VARLONG_BYTES;

/// Which time the batch keeps.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Timestamps {
    /// Each record's own.
    #[default]
    CreateTime,
    /// This one for all of them, in milliseconds since 1970.
    LogAppendTime(i64),
}

/// The fields of an idempotent or transactional producer; all -1 without one.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ProducerFields {
    /// Producer id.
    pub id: i64,
    /// Producer epoch.
    pub epoch: i16,
    /// Sequence of the base offset.
    pub base_sequence: i32,
}

impl Default for ProducerFields {
    fn default() -> Self {
        Self {
            id: NO_PRODUCER_ID,
            epoch: NO_PRODUCER_EPOCH,
            base_sequence: NO_SEQUENCE,
        }
    }
}

/// All that a batch says besides its records.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct BatchOptions {
    /// The first record's offset, or a smaller one where the log has a gap there.
    pub base_offset: i64,
    /// -1 where unknown.
    pub partition_leader_epoch: i32,
    /// The codec asked for. A batch that does not shrink is written without one.
    pub compression: Compression,
    /// Which time the batch keeps.
    pub timestamps: Timestamps,
    /// Whether the batch belongs to a transaction.
    pub transactional: bool,
    /// Whether the batch holds control records.
    pub control: bool,
    /// Idempotent producer, if any.
    pub producer: ProducerFields,
}

impl Default for BatchOptions {
    fn default() -> Self {
        Self {
            base_offset: 0,
            partition_leader_epoch: NO_PARTITION_LEADER_EPOCH,
            compression: Compression::None,
            timestamps: Timestamps::CreateTime,
            transactional: false,
            control: false,
            producer: ProducerFields::default(),
        }
    }
}

/// What was written.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct BatchSummary {
    /// Bytes of the batch, header included.
    pub len_bytes: usize,
    /// Records in it.
    pub count: i32,
    /// Offset of the last record.
    pub last_offset: i64,
    /// Largest timestamp, or the append time.
    pub max_timestamp: i64,
    /// The codec that was used.
    pub compression: Compression,
}

/// Appends one record batch to a buffer.
///
/// Call [`append`](Self::append) for each record in the order of their offsets, ask
/// [`len_upper_bound_with`](Self::len_upper_bound_with) first where bytes are limited, and
/// [`finish`](Self::finish). A builder that is dropped unfinished leaves the buffer as it was. A
/// refused record leaves the batch as it was: finish it and begin another.
///
/// Without a codec the records go straight to the buffer; with one they gather in the
/// [`Compressor`], uncompressed, until the end.
#[derive(Debug)]
pub struct BatchBuilder<'a> {
    out: &'a mut BytesMut,
    compressor: &'a mut Compressor,
    options: BatchOptions,
    /// Where the batch begins in `out`.
    start: usize,
    /// The record last appended.
    last_offset: Option<i64>,
    base_timestamp: i64,
    max_timestamp: i64,
    count: i32,
    finished: bool,
}

/// The variable parts of a record that its encoding and its length both need.
struct Deltas {
    timestamp: i64,
    offset: i32,
    /// Of the record without its own length.
    body_len: usize,
}

impl<'a> BatchBuilder<'a> {
    /// Begins a batch behind what `out` already holds.
    pub fn new(
        out: &'a mut BytesMut,
        compressor: &'a mut Compressor,
        options: BatchOptions,
    ) -> Self {
        let start = out.len();
        out.extend_from_slice(&[0; BATCH_OVERHEAD_BYTES]);
        compressor.gathered.clear();
        Self {
            out,
            compressor,
            options,
            start,
            last_offset: None,
            base_timestamp: 0,
            max_timestamp: 0,
            count: 0,
            finished: false,
        }
    }

    /// Records so far.
    #[must_use]
    pub const fn count(&self) -> i32 {
        self.count
    }

    /// Most bytes the batch will take when finished now, header included. Exact without a codec.
    #[must_use]
    pub fn len_upper_bound(&self) -> usize {
        BATCH_OVERHEAD_BYTES + self.body_len()
    }

    /// Most bytes the batch will take with `record` appended; at least that many would be taken
    /// by a batch that could hold it, where it cannot be appended to this one.
    #[must_use]
    pub fn len_upper_bound_with(&self, record: &Record<'_>) -> usize {
        let len = self
            .deltas(record)
            .map_or_else(|_| max_record_len(record), |deltas| deltas.encoded_len());
        self.len_upper_bound().saturating_add(len)
    }

    /// Appends a record. With [`Timestamps::LogAppendTime`] its own timestamp is dropped.
    ///
    /// # Errors
    ///
    /// [`BuildError::OffsetOrder`] for a record not behind the one before; the others say that
    /// another batch must begin with this record.
    #[inline]
    pub fn append(&mut self, record: &Record<'_>) -> Result<(), BuildError> {
        let previous = self
            .last_offset
            .unwrap_or_else(|| self.options.base_offset.saturating_sub(1));
        if record.offset <= previous {
            return Err(BuildError::OffsetOrder {
                offset: record.offset,
                previous,
            });
        }
        let deltas = self.deltas(record)?;
        let len = deltas.encoded_len();
        if self.len_upper_bound().saturating_add(len) > i32::MAX as usize {
            return Err(BuildError::Length);
        }

        let body = match self.options.compression {
            Compression::None => &mut *self.out,
            _ => &mut self.compressor.gathered,
        };
        body.reserve(len);
        deltas.encode(record, body);

        let timestamp = self.effective_timestamp(record);
        if self.count == 0 {
            self.base_timestamp = timestamp;
            self.max_timestamp = timestamp;
        }
        self.max_timestamp = self.max_timestamp.max(timestamp);
        self.last_offset = Some(record.offset);
        // A record takes at least 7 of 2^31 bytes: the count cannot overflow.
        self.count += 1;
        Ok(())
    }

    /// Compresses, and writes the header and its CRC.
    ///
    /// # Errors
    ///
    /// [`BuildError::Empty`] without records, [`BuildError::Codec`]; the buffer is then as it was.
    pub fn finish(mut self) -> Result<BatchSummary, BuildError> {
        let last_offset = self.last_offset.ok_or(BuildError::Empty)?;
        let mut compression = self.options.compression;
        if compression != Compression::None && !self.compress()? {
            compression = Compression::None;
        }

        let timestamp_type = match self.options.timestamps {
            Timestamps::CreateTime => TimestampType::CreateTime,
            Timestamps::LogAppendTime(_) => TimestampType::LogAppendTime,
        };
        let batch = &mut self.out[self.start..];
        let header = BatchHeader {
            base_offset: self.options.base_offset,
            len_bytes: batch.len(),
            partition_leader_epoch: self.options.partition_leader_epoch,
            crc: 0,
            attributes: Attributes::new(
                compression,
                timestamp_type,
                self.options.transactional,
                self.options.control,
            ),
            compression,
            // Every appended offset was proved to be a delta of 31 bits.
            last_offset_delta: (last_offset - self.options.base_offset) as i32,
            base_timestamp: self.base_timestamp,
            max_timestamp: self.max_timestamp,
            producer_id: self.options.producer.id,
            producer_epoch: self.options.producer.epoch,
            base_sequence: self.options.producer.base_sequence,
            count: self.count,
        };
        batch[..BATCH_OVERHEAD_BYTES].copy_from_slice(&header.encode(0));
        seal(batch).map_err(|_| BuildError::Length)?;
        self.finished = true;
        Ok(BatchSummary {
            len_bytes: header.len_bytes,
            count: self.count,
            last_offset,
            max_timestamp: self.max_timestamp,
            compression,
        })
    }

    /// Appends what was gathered, compressed; as it is, with `false`, where that is shorter.
    fn compress(&mut self) -> Result<bool, BuildError> {
        let body = self.out.len();
        self.compressor
            .compress(self.options.compression, self.out)?;
        let gathered = &self.compressor.gathered;
        if self.out.len() - body < gathered.len() {
            return Ok(true);
        }
        self.out.truncate(body);
        self.out.extend_from_slice(gathered);
        Ok(false)
    }

    /// Uncompressed bytes of the records so far.
    fn body_len(&self) -> usize {
        match self.options.compression {
            Compression::None => self.out.len() - self.start - BATCH_OVERHEAD_BYTES,
            _ => self.compressor.gathered.len(),
        }
    }

    #[inline]
    const fn effective_timestamp(&self, record: &Record<'_>) -> i64 {
        match self.options.timestamps {
            Timestamps::CreateTime => record.timestamp,
            Timestamps::LogAppendTime(append_time) => append_time,
        }
    }

    #[inline]
    fn deltas(&self, record: &Record<'_>) -> Result<Deltas, BuildError> {
        let timestamp = if self.count == 0 {
            0
        } else {
            self.effective_timestamp(record)
                .checked_sub(self.base_timestamp)
                .ok_or(BuildError::TimestampDelta)?
        };
        let offset = record
            .offset
            .checked_sub(self.options.base_offset)
            .and_then(|delta| i32::try_from(delta).ok())
            .ok_or(BuildError::OffsetDelta)?;
        let body_len = 1
            + varlong_len(timestamp)
            + varlong_len(i64::from(offset))
            + nullable_len(record.key)
            + nullable_len(record.value)
            + varlong_len(record.headers.len() as i64)
            + record.headers.encoded_len();
        if body_len > i32::MAX as usize {
            return Err(BuildError::Length);
        }
        Ok(Deltas {
            timestamp,
            offset,
            body_len,
        })
    }
}

impl Drop for BatchBuilder<'_> {
    fn drop(&mut self) {
        if !self.finished {
            self.out.truncate(self.start);
        }
    }
}

impl Deltas {
    #[inline]
    const fn encoded_len(&self) -> usize {
        varlong_len(self.body_len as i64) + self.body_len
    }

    #[inline]
    fn encode(&self, record: &Record<'_>, out: &mut BytesMut) {
        put_varlong(self.body_len as i64, out);
        // Record attributes: Kafka has given out none.
        out.extend_from_slice(&[0]);
        put_varlong(self.timestamp, out);
        put_varlong(i64::from(self.offset), out);
        put_nullable(record.key, out);
        put_nullable(record.value, out);
        put_varlong(record.headers.len() as i64, out);
        if let Some(encoded) = record.headers.encoded() {
            out.extend_from_slice(encoded);
            return;
        }
        for header in &record.headers {
            put_nullable(Some(header.key), out);
            put_nullable(header.value, out);
        }
    }
}

#[inline]
fn put_nullable(field: Option<&[u8]>, out: &mut BytesMut) {
    put_varlong(wire_len(field), out);
    out.extend_from_slice(field.unwrap_or_default());
}

/// The length that announces a nullable field.
#[inline]
fn wire_len(field: Option<&[u8]>) -> i64 {
    field.map_or(-1, |bytes| bytes.len() as i64)
}

#[inline]
fn nullable_len(field: Option<&[u8]>) -> usize {
    varlong_len(wire_len(field)) + field.map_or(0, <[u8]>::len)
}

/// Length with the longest deltas.
fn max_record_len(record: &Record<'_>) -> usize {
    MAX_PREFIX_BYTES
        + record.key.map_or(0, <[u8]>::len)
        + nullable_len(record.value)
        + MAX_VARINT_BYTES
        + record.headers.encoded_len()
}
