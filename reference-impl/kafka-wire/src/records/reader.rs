//! Walks the batches of a RECORDS field and opens them.

use bytes::Bytes;

use super::header::compute_crc;
use super::{BATCH_OVERHEAD_BYTES, BatchHeader, Budget, Records, RecordsError, codec};

/// The batches of one RECORDS field, in order, each with its header and CRC proved.
/// The first fault ends the iteration. A partial batch at the end is a fault
/// ([`RecordsError::Truncated`]): a broker may send one in a Fetch, a client may not.
#[derive(Clone, Debug)]
pub struct Batches {
    rest: Bytes,
}

impl Batches {
    /// Reads `records`, the bytes of a RECORDS field. Batches are slices of it.
    #[must_use]
    pub const fn new(records: Bytes) -> Self {
        Self { rest: records }
    }

    fn parse(&self) -> Result<BatchHeader, RecordsError> {
        let header = BatchHeader::parse(&self.rest)?;
        let computed = compute_crc(&self.rest[..header.len_bytes]);
        if computed == header.crc {
            Ok(header)
        } else {
            Err(RecordsError::Crc {
                declared: header.crc,
                computed,
            })
        }
    }
}

impl Iterator for Batches {
    type Item = Result<Batch, RecordsError>;

    fn next(&mut self) -> Option<Self::Item> {
        if self.rest.is_empty() {
            return None;
        }
        let parsed = self.parse();
        if parsed.is_err() {
            self.rest.clear();
        }
        Some(parsed.map(|header| Batch {
            bytes: self.rest.split_to(header.len_bytes),
            header,
        }))
    }
}

impl std::iter::FusedIterator for Batches {}

/// One record batch whose header and CRC are proved and whose records are still closed.
#[derive(Clone, Debug)]
pub struct Batch {
    header: BatchHeader,
    bytes: Bytes,
}

impl Batch {
    /// The header.
    #[must_use]
    pub const fn header(&self) -> &BatchHeader {
        &self.header
    }

    /// The whole batch as it came, header included.
    #[must_use]
    pub const fn bytes(&self) -> &Bytes {
        &self.bytes
    }

    /// Opens the batch: pays for its records, and decompresses them within the budget.
    ///
    /// Never allocates more than [`Budget::remaining_bytes`] for the records. Zero-copy where the
    /// batch is not compressed.
    ///
    /// # Errors
    ///
    /// [`RecordsError::RecordsOverBudget`], [`RecordsError::BytesOverBudget`],
    /// [`RecordsError::Codec`], and [`RecordsError::Record`] where the bytes cannot hold the
    /// declared count.
    pub fn records(&self, budget: &mut Budget) -> Result<Records, RecordsError> {
        budget.take_records(usize::try_from(self.header.count).unwrap_or(usize::MAX))?;
        let body = self.bytes.slice(BATCH_OVERHEAD_BYTES..);
        // Compaction leaves batches without records, whose body is empty whatever the codec.
        let body = if body.is_empty() {
            body
        } else {
            codec::decompress(self.header.compression, body, budget)?
        };
        Records::new(self.header, body)
    }
}
