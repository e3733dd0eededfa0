//! From a record batch of a client to the items of a push: read in place, written once.

use kafka_wire::ErrorCode;
use kafka_wire::records::{
    Batch, BatchHeader, Batches, Budget, ClientFault, Compression, RecordsError, TimestampType,
};

use super::ids::{IdBuffer, TransactionIds};
use super::times::Times;
use super::unit::Failure;
use crate::envelope::RecordParts;
use crate::queen::{Fragment, FragmentWriter};

/// What an item holds besides queue name, key, value and headers, as a bound.
const ITEM_OVERHEAD_BYTES: usize = 160;
/// Largest part of one batch in a push body: Queen's own limit on a body.
const MAX_FRAGMENT_BYTES: usize = 64 << 20;
/// The first version of Produce that may carry zstd (KIP-110).
const FIRST_ZSTD_VERSION: i16 = 7;

/// A batch, encoded.
#[derive(Debug)]
pub struct Encoded {
    /// Its items.
    pub fragment: Fragment,
    /// The smallest timestamp, −1 when a record has none.
    pub min_timestamp: i64,
    /// The largest timestamp.
    pub max_timestamp: i64,
    /// The position of the first record with it.
    pub max_timestamp_at: u32,
    /// Bytes of keys, values and headers.
    pub payload_bytes: usize,
}

/// What a batch must be.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Expects {
    /// Of a producer without a transactional id.
    Plain,
    /// Part of a transaction.
    Transactional,
}

/// The one batch of a partition's records, its header and CRC proved. Kafka refuses none as it
/// refuses two.
///
/// # Errors
///
/// The code Kafka answers such bytes with.
pub fn only_batch(records: bytes::Bytes, version: i16, expects: Expects) -> Result<Batch, Failure> {
    let mut batches = Batches::new(records);
    let not_one = || {
        Failure::because(
            ErrorCode::InvalidRecord,
            "a partition of a Produce request has exactly one record batch",
        )
    };
    let batch = batches.next().ok_or_else(not_one)?;
    let batch = batch.map_err(|error| refuse(&error))?;
    batch
        .header()
        .validate_from_client()
        .map_err(|error| refuse(&error))?;
    if batches.next().is_some() {
        return Err(not_one());
    }
    let header = batch.header();
    if header.attributes.is_transactional() && expects == Expects::Plain {
        return Err(Failure::because(
            ErrorCode::TransactionalIdAuthorizationFailed,
            "a transactional batch in a request without a transactional id",
        ));
    }
    if header.timestamp_type() == TimestampType::LogAppendTime {
        return Err(Failure::because(
            ErrorCode::InvalidTimestamp,
            "a producer may not set the append time",
        ));
    }
    if header.compression == Compression::Zstd && version < FIRST_ZSTD_VERSION {
        return Err(Failure::because(
            ErrorCode::UnsupportedCompressionType,
            "zstd needs Produce version 7",
        ));
    }
    Ok(batch)
}

/// A bound on the memory that opening and encoding a batch takes, were its records to expand to
/// `body_bytes`.
pub fn cost_bytes(header: &BatchHeader, queue: &str, body_bytes: usize) -> usize {
    let items = usize::try_from(header.count).unwrap_or_default();
    let opened = match header.compression {
        // The records are lent by the frame.
        Compression::None => 0,
        _ => body_bytes,
    };
    let encoded = items * (queue.len() + ITEM_OVERHEAD_BYTES) + body_bytes / 3 * 4;
    opened + encoded.min(MAX_FRAGMENT_BYTES)
}

/// Opens `batch` within `budget` and encodes its records.
///
/// # Errors
///
/// The code the client is answered with.
pub fn encode(
    batch: &Batch,
    queue: &str,
    partition: i32,
    ids: Option<&TransactionIds>,
    times: Times,
    budget: &mut Budget,
) -> Result<Encoded, Failure> {
    let records = batch.records(budget).map_err(|error| refuse(&error))?;
    let expected = records.len() * (queue.len() + 96) + records.len_bytes() / 3 * 4;
    let mut writer = FragmentWriter::new(queue, partition, expected.min(MAX_FRAGMENT_BYTES));
    let mut buffer = IdBuffer::default();
    let mut min_timestamp = i64::MAX;
    let (mut max_timestamp, mut max_timestamp_at) = (i64::MIN, 0);
    let mut payload_bytes = 0;
    for (index, record) in (0..).zip(&records) {
        let record = record.map_err(|error| refuse(&error))?;
        min_timestamp = min_timestamp.min(record.timestamp);
        if record.timestamp > max_timestamp {
            (max_timestamp, max_timestamp_at) = (record.timestamp, index);
        }
        let parts = RecordParts {
            key: record.key,
            value: record.value,
            timestamp_ms: record.timestamp,
        };
        let of = |part: Option<&[u8]>| part.map_or(0, <[u8]>::len);
        payload_bytes += of(record.key) + of(record.value);
        let of_header =
            |header: kafka_wire::records::Header<'_>| header.key.len() + of(header.value);
        payload_bytes += record.headers.iter().map(of_header).sum::<usize>();
        let headers = record
            .headers
            .iter()
            .map(|header| (header.key, header.value));
        let id = ids.map(|ids| ids.of(index, &mut buffer));
        writer
            .record(id, parts, headers)
            .map_err(|error| Failure::because(ErrorCode::InvalidRecord, error.to_string()))?;
        if writer.len_bytes() > MAX_FRAGMENT_BYTES {
            return Err(Failure::because(
                ErrorCode::MessageTooLarge,
                "the batch is larger than one call to Queen",
            ));
        }
    }
    times.judge(&records, min_timestamp, max_timestamp)?;
    Ok(Encoded {
        fragment: writer.finish(),
        min_timestamp,
        max_timestamp,
        max_timestamp_at,
        payload_bytes,
    })
}

/// The answer to bytes that aren't records a client may produce.
fn refuse(error: &RecordsError) -> Failure {
    Failure::because(code_of(error), error.to_string())
}

fn code_of(error: &RecordsError) -> ErrorCode {
    match error {
        RecordsError::Client(ClientFault::TransactionalWithoutProducerId) => {
            ErrorCode::TransactionalIdAuthorizationFailed
        }
        error => error.error_code(),
    }
}
