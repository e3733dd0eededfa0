//! The 61-byte header of a record batch: parsed, written, and patched where the CRC does not reach.

use bytes::Buf;

use super::{Attributes, ClientFault, Compression, HeaderFault, RecordsError, TimestampType};

/// Bytes of a batch header.
pub const BATCH_OVERHEAD_BYTES: usize = 61;
/// Base offset and length: what stands before the bytes that the length counts.
pub const LOG_OVERHEAD_BYTES: usize = 12;
/// The magic of record batches.
pub const MAGIC_V2: i8 = 2;
/// No producer id: the batch is not idempotent.
pub const NO_PRODUCER_ID: i64 = -1;
/// No producer epoch.
pub const NO_PRODUCER_EPOCH: i16 = -1;
/// No sequence.
pub const NO_SEQUENCE: i32 = -1;
/// No timestamp.
pub const NO_TIMESTAMP: i64 = -1;
/// Leader epoch unknown.
pub const NO_PARTITION_LEADER_EPOCH: i32 = -1;

const LENGTH_AT: usize = 8;
const LEADER_EPOCH_AT: usize = 12;
const MAGIC_AT: usize = 16;
const CRC_AT: usize = 17;
/// The CRC covers everything from here on.
const ATTRIBUTES_AT: usize = 21;

/// The header of one record batch.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct BatchHeader {
    /// Offset of the first record. Producers send 0 and the log overwrites it.
    pub base_offset: i64,
    /// Bytes of the whole batch, header included.
    pub len_bytes: usize,
    /// Epoch of the leader that appended the batch, -1 from a producer.
    pub partition_leader_epoch: i32,
    /// CRC-32C of everything behind it.
    pub crc: u32,
    /// All attribute bits.
    pub attributes: Attributes,
    /// The codec the attributes name.
    pub compression: Compression,
    /// Distance from the base offset to the last offset the batch ever held.
    pub last_offset_delta: i32,
    /// Milliseconds since 1970 that the records' deltas count from; the delete horizon where the
    /// attributes say so.
    pub base_timestamp: i64,
    /// Largest timestamp in the batch, or its append time.
    pub max_timestamp: i64,
    /// -1 where the batch is not idempotent.
    pub producer_id: i64,
    /// -1 where the batch is not idempotent.
    pub producer_epoch: i16,
    /// Sequence of the first record, -1 where the batch is not idempotent or is a control batch.
    pub base_sequence: i32,
    /// Records in the batch.
    pub count: i32,
}

impl BatchHeader {
    /// Parses the header at the start of `input` and proves that the whole batch is there.
    /// Does not check the CRC: [`Batches`](super::Batches) does.
    ///
    /// # Errors
    ///
    /// [`RecordsError`] for a batch that is cut short, of another format, of an unknown codec or
    /// that contradicts itself.
    pub fn parse(input: &[u8]) -> Result<Self, RecordsError> {
        let truncated = |declared_bytes| RecordsError::Truncated {
            declared_bytes,
            remaining_bytes: input.len(),
        };
        // All formats have offset, length and magic in one place: name the format before the cut.
        match input.get(MAGIC_AT) {
            None => return Err(truncated(MAGIC_AT + 1)),
            Some(&magic) => match magic as i8 {
                MAGIC_V2 => {}
                legacy @ (0 | 1) => return Err(RecordsError::LegacyMagic(legacy)),
                unknown => return Err(RecordsError::UnknownMagic(unknown)),
            },
        }
        let mut fields = input
            .get(..BATCH_OVERHEAD_BYTES)
            .ok_or_else(|| truncated(BATCH_OVERHEAD_BYTES))?;
        // The reads below take the 61 bytes proved here.
        let base_offset = fields.get_i64();
        let batch_length = fields.get_i32();
        let len_bytes = usize::try_from(batch_length)
            .ok()
            .and_then(|length| length.checked_add(LOG_OVERHEAD_BYTES))
            .filter(|&len| len >= BATCH_OVERHEAD_BYTES)
            .ok_or(RecordsError::BatchLength(batch_length))?;
        if len_bytes > input.len() {
            return Err(truncated(len_bytes));
        }
        let partition_leader_epoch = fields.get_i32();
        fields.advance(1);
        let crc = fields.get_u32();
        let attributes = Attributes(fields.get_i16());
        let compression = Compression::from_id(attributes.compression_id())
            .ok_or_else(|| RecordsError::UnknownCompression(attributes.compression_id()))?;
        let header = Self {
            base_offset,
            len_bytes,
            partition_leader_epoch,
            crc,
            attributes,
            compression,
            last_offset_delta: fields.get_i32(),
            base_timestamp: fields.get_i64(),
            max_timestamp: fields.get_i64(),
            producer_id: fields.get_i64(),
            producer_epoch: fields.get_i16(),
            base_sequence: fields.get_i32(),
            count: fields.get_i32(),
        };
        header.check().map_err(RecordsError::Header)?;
        Ok(header)
    }

    fn check(&self) -> Result<(), HeaderFault> {
        if self.count < 0 {
            return Err(HeaderFault::NegativeCount(self.count));
        }
        if self.last_offset_delta < 0 {
            return Err(HeaderFault::NegativeLastOffsetDelta(self.last_offset_delta));
        }
        if i64::from(self.count) > self.offsets() {
            return Err(HeaderFault::MoreRecordsThanOffsets {
                count: self.count,
                offsets: self.offsets(),
            });
        }
        self.base_offset
            .checked_add(i64::from(self.last_offset_delta))
            .map(drop)
            .ok_or(HeaderFault::OffsetOverflow)
    }

    /// Offsets from the base to the last, gaps included.
    #[must_use]
    pub const fn offsets(&self) -> i64 {
        self.last_offset_delta as i64 + 1
    }

    /// The last offset the batch ever held. (Parsing has proved that it exists.)
    #[must_use]
    pub const fn last_offset(&self) -> i64 {
        self.base_offset
            .saturating_add(self.last_offset_delta as i64)
    }

    /// What the timestamps mean.
    #[must_use]
    pub const fn timestamp_type(&self) -> TimestampType {
        self.attributes.timestamp_type()
    }

    /// Whether the batch carries a producer id.
    #[must_use]
    pub const fn has_producer_id(&self) -> bool {
        self.producer_id > NO_PRODUCER_ID
    }

    /// Sequence of the last offset, wrapping as Kafka's do; -1 without a sequence.
    #[must_use]
    pub const fn last_sequence(&self) -> i32 {
        if self.base_sequence == NO_SEQUENCE {
            NO_SEQUENCE
        } else {
            increment_sequence(self.base_sequence, self.last_offset_delta)
        }
    }

    /// What a broker demands of a batch that a client produces, beyond its being well formed: no
    /// control batch, records without gaps, a producer id with its epoch and sequence.
    ///
    /// # Errors
    ///
    /// [`RecordsError::Client`].
    pub fn validate_from_client(&self) -> Result<(), RecordsError> {
        let fault = if self.attributes.is_control() {
            ClientFault::ControlBatch
        } else if self.count == 0 {
            ClientFault::Empty
        } else if i64::from(self.count) != self.offsets() {
            ClientFault::OffsetGaps {
                count: self.count,
                offsets: self.offsets(),
            }
        } else if self.has_producer_id() && (self.base_sequence < 0 || self.producer_epoch < 0) {
            ClientFault::ProducerFields
        } else if self.attributes.is_transactional() && !self.has_producer_id() {
            ClientFault::TransactionalWithoutProducerId
        } else {
            return Ok(());
        };
        Err(RecordsError::Client(fault))
    }

    /// The header's 61 bytes; the CRC as it stands in `self`.
    pub(super) fn encode(&self, batch_length: i32) -> [u8; BATCH_OVERHEAD_BYTES] {
        let mut out = [0; BATCH_OVERHEAD_BYTES];
        let mut at = 0;
        let mut put = |bytes: &[u8]| {
            out[at..at + bytes.len()].copy_from_slice(bytes);
            at += bytes.len();
        };
        put(&self.base_offset.to_be_bytes());
        put(&batch_length.to_be_bytes());
        put(&self.partition_leader_epoch.to_be_bytes());
        put(&MAGIC_V2.to_be_bytes());
        put(&self.crc.to_be_bytes());
        put(&self.attributes.0.to_be_bytes());
        put(&self.last_offset_delta.to_be_bytes());
        put(&self.base_timestamp.to_be_bytes());
        put(&self.max_timestamp.to_be_bytes());
        put(&self.producer_id.to_be_bytes());
        put(&self.producer_epoch.to_be_bytes());
        put(&self.base_sequence.to_be_bytes());
        put(&self.count.to_be_bytes());
        out
    }
}

/// `sequence` moved on by `increment`, neither negative: after 2^31-1 comes 0.
#[must_use]
pub const fn increment_sequence(sequence: i32, increment: i32) -> i32 {
    sequence.wrapping_add(increment) & i32::MAX
}

/// CRC-32C of what the checksum of the batch that fills `batch` covers.
pub(super) fn compute_crc(batch: &[u8]) -> u32 {
    crc32c::crc32c(batch.get(ATTRIBUTES_AT..).unwrap_or_default())
}

/// Overwrites base offset and leader epoch of the batch that begins `batch`. Both stand outside
/// the CRC, so the batch stays valid and nothing of it is read.
///
/// # Errors
///
/// [`RecordsError`] where [`BatchHeader::parse`] refuses the batch, which is then unchanged, and
/// [`HeaderFault::OffsetOverflow`] where the last offset would not exist.
pub fn rewrite_base_offset(
    batch: &mut [u8],
    base_offset: i64,
    partition_leader_epoch: i32,
) -> Result<BatchHeader, RecordsError> {
    let header = BatchHeader {
        base_offset,
        partition_leader_epoch,
        ..BatchHeader::parse(batch)?
    };
    header.check().map_err(RecordsError::Header)?;
    batch[..LENGTH_AT].copy_from_slice(&base_offset.to_be_bytes());
    batch[LEADER_EPOCH_AT..MAGIC_AT].copy_from_slice(&partition_leader_epoch.to_be_bytes());
    Ok(header)
}

/// Writes length, magic and CRC of the one batch that fills `batch`, whatever the rest of it says.
/// For code that edits batches, and for tests that damage them.
///
/// # Errors
///
/// [`RecordsError::Truncated`] below the size of a header, [`RecordsError::BatchLength`] above
/// 2 GiB.
pub fn seal(batch: &mut [u8]) -> Result<(), RecordsError> {
    if batch.len() < BATCH_OVERHEAD_BYTES {
        return Err(RecordsError::Truncated {
            declared_bytes: BATCH_OVERHEAD_BYTES,
            remaining_bytes: batch.len(),
        });
    }
    let batch_length = i32::try_from(batch.len() - LOG_OVERHEAD_BYTES)
        .map_err(|_| RecordsError::BatchLength(i32::MAX))?;
    batch[LENGTH_AT..LEADER_EPOCH_AT].copy_from_slice(&batch_length.to_be_bytes());
    batch[MAGIC_AT] = MAGIC_V2 as u8;
    let crc = compute_crc(batch);
    batch[CRC_AT..ATTRIBUTES_AT].copy_from_slice(&crc.to_be_bytes());
    Ok(())
}

#[cfg(test)]
mod tests {
    use rstest::rstest;

    use super::*;

    #[rstest]
    #[case(0, 1, 1)]
    #[case(i32::MAX, 0, i32::MAX)]
    #[case(i32::MAX, 1, 0)]
    #[case(i32::MAX - 1, 3, 1)]
    #[case(i32::MAX, i32::MAX, i32::MAX - 1)]
    fn sequences_wrap_to_zero(#[case] from: i32, #[case] by: i32, #[case] to: i32) {
        assert_eq!(increment_sequence(from, by), to);
    }
}
