//! Record batches, message format v2 (KIP-98): read without copying, written in one pass.
//!
//! The reader takes untrusted bytes: every length, count and checksum is proved before it is
//! believed, and what a codec may expand to is paid for from a [`Budget`] before it is allocated.
//! Message sets of magic 0 and 1 are recognised and refused. Touches nothing but bytes: no clock,
//! no I/O, no shared state.
//!
//! Reading: [`Batches`] walks a RECORDS field, [`Batch::records`] opens one batch, and
//! [`Records::iter`] yields each [`Record`]. Writing: [`BatchBuilder`] appends records to a
//! reusable buffer with the state a [`Compressor`] keeps.

mod attributes;
mod budget;
mod builder;
mod codec;
mod control;
mod error;
#[doc(hidden)]
pub mod fuzz;
mod header;
mod headers;
mod reader;
mod record;
mod varint;

pub use attributes::{Attributes, Compression, TimestampType};
pub use budget::Budget;
pub use builder::{BatchBuilder, BatchOptions, BatchSummary, ProducerFields, Timestamps};
pub use codec::Compressor;
pub use control::{ControlRecordType, EndTransactionMarker, MarkerBatch, MarkerKind};
pub use error::{
    BuildError, ClientFault, CodecFault, ControlFault, HeaderFault, RecordFault, RecordsError,
};
pub use header::{
    BATCH_OVERHEAD_BYTES, BatchHeader, LOG_OVERHEAD_BYTES, MAGIC_V2, NO_PARTITION_LEADER_EPOCH,
    NO_PRODUCER_EPOCH, NO_PRODUCER_ID, NO_SEQUENCE, NO_TIMESTAMP, increment_sequence,
    rewrite_base_offset, seal,
};
pub use headers::{Header, Headers, HeadersIter};
pub use reader::{Batch, Batches};
pub use record::{Record, Records, RecordsIter};
