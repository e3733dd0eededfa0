//! What can be wrong with a record batch, and the Kafka error code each fault is answered with.

use thiserror::Error;

use super::Compression;
use crate::ErrorCode;

/// A RECORDS field that cannot be read.
///
/// The code a broker answers a Produce with:
///
/// | Fault | Kafka error code | Kafka's own case |
/// |---|---|---|
/// | [`Truncated`](Self::Truncated), [`BatchLength`](Self::BatchLength), [`UnknownMagic`](Self::UnknownMagic), [`Crc`](Self::Crc) | `CORRUPT_MESSAGE` | `CorruptRecordException` |
/// | [`LegacyMagic`](Self::LegacyMagic) | `INVALID_RECORD` | `InvalidRecordException`, from Produce version 3 on |
/// | [`UnknownCompression`](Self::UnknownCompression) | `UNSUPPORTED_COMPRESSION_TYPE` | KIP-110; Kafka itself falls over its enum |
/// | [`Codec`](Self::Codec) | `CORRUPT_MESSAGE` | Kafka answers `UNKNOWN_SERVER_ERROR` |
/// | [`BytesOverBudget`](Self::BytesOverBudget), [`RecordsOverBudget`](Self::RecordsOverBudget) | `MESSAGE_TOO_LARGE` | Kafka has no such bound |
/// | [`Header`](Self::Header), [`Record`](Self::Record), [`Client`](Self::Client), [`Control`](Self::Control) | `INVALID_RECORD` | `InvalidRecordException` (KIP-467) |
#[derive(Clone, Debug, PartialEq, Eq, Error)]
pub enum RecordsError {
    /// The field ends inside a batch.
    #[error("record batch of {declared_bytes} bytes, {remaining_bytes} left in the field")]
    Truncated {
        /// What the batch (or, where that cannot be read, its header) needs.
        declared_bytes: usize,
        /// What the field still holds.
        remaining_bytes: usize,
    },
    /// The declared length is negative or less than a batch header.
    #[error("record batch declares a length of {0}")]
    BatchLength(i32),
    /// A message set from before record batches.
    #[error("message format {0} is not supported, only record batches of magic 2")]
    LegacyMagic(i8),
    /// A format that does not exist.
    #[error("unknown magic {0}")]
    UnknownMagic(i8),
    /// The checksum of attributes and records does not match.
    #[error("record batch with CRC {computed:#010x} says {declared:#010x}")]
    Crc {
        /// As it stands in the header.
        declared: u32,
        /// Over the bytes as they came.
        computed: u32,
    },
    /// A codec id of 5, 6 or 7.
    #[error("unknown compression codec id {0}")]
    UnknownCompression(u8),
    /// The fields of the batch header contradict themselves.
    #[error("record batch header: {0}")]
    Header(HeaderFault),
    /// The codec refused the bytes, or they end before their end mark.
    #[error("{compression} stream: {fault}")]
    Codec {
        /// The batch's codec.
        compression: Compression,
        /// What is wrong with the stream.
        fault: CodecFault,
    },
    /// The records expand beyond the bytes that are left in the budget.
    #[error("records expand beyond the {remaining_bytes} bytes left in the budget")]
    BytesOverBudget {
        /// What was left when this batch was opened.
        remaining_bytes: usize,
    },
    /// The batch declares more records than are left in the budget.
    #[error("{declared} records, {remaining} left in the budget")]
    RecordsOverBudget {
        /// Declared by the batch.
        declared: usize,
        /// Left in the budget.
        remaining: usize,
    },
    /// A record does not parse.
    #[error("record {index} of the batch: {fault}")]
    Record {
        /// Position in the batch, from 0; the declared count for bytes behind the last record.
        index: u32,
        /// What is wrong with it.
        fault: RecordFault,
    },
    /// The batch is well formed, but no client may send it.
    #[error("record batch from a client: {0}")]
    Client(ClientFault),
    /// A control record does not parse.
    #[error("control record: {0}")]
    Control(ControlFault),
}

impl RecordsError {
    /// The code a broker answers the Produce with; see the table above.
    #[must_use]
    pub const fn error_code(&self) -> ErrorCode {
        match self {
            Self::Truncated { .. }
            | Self::BatchLength(_)
            | Self::UnknownMagic(_)
            | Self::Crc { .. }
            | Self::Codec { .. } => ErrorCode::CorruptMessage,
            Self::UnknownCompression(_) => ErrorCode::UnsupportedCompressionType,
            Self::BytesOverBudget { .. } | Self::RecordsOverBudget { .. } => {
                ErrorCode::MessageTooLarge
            }
            Self::LegacyMagic(_)
            | Self::Header(_)
            | Self::Record { .. }
            | Self::Client(_)
            | Self::Control(_) => ErrorCode::InvalidRecord,
        }
    }
}

/// Contradictions in a batch header.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Error)]
pub enum HeaderFault {
    /// Record count below zero.
    #[error("count of {0}")]
    NegativeCount(i32),
    /// Last offset delta below zero.
    #[error("last offset delta of {0}")]
    NegativeLastOffsetDelta(i32),
    /// More records than offsets.
    #[error("{count} records in {offsets} offsets")]
    MoreRecordsThanOffsets {
        /// Declared records.
        count: i32,
        /// Offsets from base to last.
        offsets: i64,
    },
    /// Base offset and last offset delta exceed the largest offset.
    #[error("offsets past the largest offset")]
    OffsetOverflow,
}

/// Faults of a compressed stream.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Error)]
pub enum CodecFault {
    /// The stream ends before its end mark or inside a block.
    #[error("ends early")]
    Truncated,
    /// Bytes follow the end of the stream.
    #[error("bytes after the end")]
    TrailingBytes,
    /// The stream does not open with the codec's magic or its header is malformed.
    #[error("malformed header")]
    Header,
    /// A form of the codec that no Kafka client may send (a dictionary, a legacy frame).
    #[error("unsupported form")]
    Unsupported,
    /// A block does not decode.
    #[error("malformed block")]
    Block,
    /// A checksum of the codec's own does not match.
    #[error("checksum mismatch")]
    Checksum,
    /// The stream yields a different number of bytes than it declares.
    #[error("declared size mismatch")]
    Size,
}

/// Faults of one record.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Error)]
pub enum RecordFault {
    /// The batch ends before the record does.
    #[error("ends early")]
    Truncated,
    /// A variable-length integer runs on or holds more bits than its type.
    #[error("variable-length integer out of range")]
    Varint,
    /// A length below -1 (below 0 where null is not allowed).
    #[error("length of {0}")]
    Length(i32),
    /// Fewer or more bytes than the record's own length says.
    #[error("fields do not fill the declared length")]
    LengthMismatch,
    /// Header count below zero, or more than the record has bytes for.
    #[error("header count of {0}")]
    HeaderCount(i32),
    /// An offset delta below zero, beyond the batch's last, or not above the one before.
    #[error("offset delta of {0} out of order or range")]
    OffsetDelta(i32),
    /// Base timestamp and delta exceed the largest timestamp.
    #[error("timestamp out of range")]
    TimestampOverflow,
    /// Bytes after the declared number of records.
    #[error("bytes after the last record")]
    TrailingBytes,
    /// More records declared than the bytes can hold.
    #[error("declared records do not fit in the batch")]
    Count,
}

/// What a broker refuses from a client (Kafka's `LogValidator`).
#[derive(Clone, Copy, Debug, PartialEq, Eq, Error)]
pub enum ClientFault {
    /// Only brokers write control batches.
    #[error("control batch")]
    ControlBatch,
    /// No records.
    #[error("empty batch")]
    Empty,
    /// Offset deltas with gaps: only compaction makes those.
    #[error("{count} records in {offsets} offsets")]
    OffsetGaps {
        /// Declared records.
        count: i32,
        /// Offsets from base to last.
        offsets: i64,
    },
    /// A producer id without a sequence or without an epoch.
    #[error("producer id without sequence or epoch")]
    ProducerFields,
    /// A transactional batch without a producer id.
    #[error("transactional batch without producer id")]
    TransactionalWithoutProducerId,
}

/// Faults of a control record's key or value.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Error)]
pub enum ControlFault {
    /// Null, or too short for its version.
    #[error("key or value too short")]
    Truncated,
    /// A version below zero.
    #[error("version {0}")]
    Version(i16),
    /// Another control record than the one asked for.
    #[error("not an end-of-transaction marker but type {0}")]
    NotAMarker(i16),
}

/// A batch that cannot be written.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Error)]
pub enum BuildError {
    /// A batch without records is never written.
    #[error("no records")]
    Empty,
    /// Offsets within a batch rise, from its base offset on.
    #[error("offset {offset} after {previous}")]
    OffsetOrder {
        /// The offset of the refused record.
        offset: i64,
        /// The offset it had to exceed.
        previous: i64,
    },
    /// The distance to the base offset exceeds 31 bits: begin another batch.
    #[error("offset delta out of range")]
    OffsetDelta,
    /// The distance to the first timestamp exceeds 64 bits: begin another batch.
    #[error("timestamp delta out of range")]
    TimestampDelta,
    /// A record or the batch exceeds 2 GiB: begin another batch.
    #[error("length out of range")]
    Length,
    /// The codec failed to compress, which only want of memory explains.
    #[error("{0} failed to compress")]
    Codec(Compression),
}
