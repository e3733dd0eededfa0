//! Control records: the markers that end a transaction on a partition (KIP-98).

use bytes::{Buf, BytesMut};

use super::{
    BatchBuilder, BatchOptions, BatchSummary, BuildError, Compressor, ControlFault, NO_SEQUENCE,
    ProducerFields, Record, RecordsError,
};

/// The version of marker keys and values that is written.
const VERSION: i16 = 0;

/// What a control record is, as its key says.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ControlRecordType {
    /// A transaction was aborted.
    Abort,
    /// A transaction was committed.
    Commit,
    /// Any other: Raft's, and those to come. Clients skip them.
    Other(i16),
}

impl ControlRecordType {
    const ABORT: i16 = 0;
    const COMMIT: i16 = 1;

    /// Reads the key of a record from a control batch: version, type, and what later versions
    /// append.
    ///
    /// # Errors
    ///
    /// [`RecordsError::Control`] for a key that is null, too short or of a negative version.
    pub fn parse(key: Option<&[u8]>) -> Result<Self, RecordsError> {
        let mut key = versioned(key, 4)?;
        Ok(match key.get_i16() {
            Self::ABORT => Self::Abort,
            Self::COMMIT => Self::Commit,
            other => Self::Other(other),
        })
    }
}

/// How a transaction ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum MarkerKind {
    /// Its records may be read.
    Commit,
    /// Its records are skipped by who reads committed records only.
    Abort,
}

/// The end of a transaction on one partition.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct EndTransactionMarker {
    /// How it ended.
    pub kind: MarkerKind,
    /// Epoch of the coordinator that wrote the marker.
    pub coordinator_epoch: i32,
}

/// Where a marker goes and whose transaction it ends.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct MarkerBatch {
    /// The marker's offset.
    pub offset: i64,
    /// Epoch of the partition's leader.
    pub partition_leader_epoch: i32,
    /// Milliseconds since 1970.
    pub timestamp: i64,
    /// The transaction's producer.
    pub producer_id: i64,
    /// Its epoch.
    pub producer_epoch: i16,
}

impl EndTransactionMarker {
    /// Reads a record from a control batch.
    ///
    /// # Errors
    ///
    /// [`RecordsError::Control`]: [`ControlFault::NotAMarker`] for other control records,
    /// otherwise for a key or value that is null, too short or of a negative version.
    pub fn parse(record: &Record<'_>) -> Result<Self, RecordsError> {
        let kind = match ControlRecordType::parse(record.key)? {
            ControlRecordType::Commit => MarkerKind::Commit,
            ControlRecordType::Abort => MarkerKind::Abort,
            ControlRecordType::Other(other) => {
                return Err(RecordsError::Control(ControlFault::NotAMarker(other)));
            }
        };
        let mut value = versioned(record.value, 6)?;
        Ok(Self {
            kind,
            coordinator_epoch: value.get_i32(),
        })
    }

    /// Appends to `out` the control batch that holds this marker alone.
    ///
    /// # Errors
    ///
    /// [`BuildError`], which one record of twenty bytes gives no cause for.
    pub fn encode(
        &self,
        batch: &MarkerBatch,
        out: &mut BytesMut,
    ) -> Result<BatchSummary, BuildError> {
        let kind = match self.kind {
            MarkerKind::Commit => ControlRecordType::COMMIT,
            MarkerKind::Abort => ControlRecordType::ABORT,
        };
        let mut key = [0; 4];
        key[..2].copy_from_slice(&VERSION.to_be_bytes());
        key[2..].copy_from_slice(&kind.to_be_bytes());
        let mut value = [0; 6];
        value[..2].copy_from_slice(&VERSION.to_be_bytes());
        value[2..].copy_from_slice(&self.coordinator_epoch.to_be_bytes());

        let options = BatchOptions {
            base_offset: batch.offset,
            partition_leader_epoch: batch.partition_leader_epoch,
            transactional: true,
            control: true,
            producer: ProducerFields {
                id: batch.producer_id,
                epoch: batch.producer_epoch,
                base_sequence: NO_SEQUENCE,
            },
            ..BatchOptions::default()
        };
        let mut compressor = Compressor::new();
        let mut builder = BatchBuilder::new(out, &mut compressor, options);
        builder.append(&Record {
            offset: batch.offset,
            timestamp: batch.timestamp,
            key: Some(&key),
            value: Some(&value),
            ..Record::default()
        })?;
        builder.finish()
    }
}

/// Takes the version off a key or value of at least `min_bytes`. Versions above ours only append.
fn versioned(bytes: Option<&[u8]>, min_bytes: usize) -> Result<&[u8], RecordsError> {
    let mut bytes = bytes
        .filter(|bytes| bytes.len() >= min_bytes)
        .ok_or(RecordsError::Control(ControlFault::Truncated))?;
    let version = bytes.get_i16();
    if version < 0 {
        return Err(RecordsError::Control(ControlFault::Version(version)));
    }
    Ok(bytes)
}
