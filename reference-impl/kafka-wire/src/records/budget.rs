//! What the record batches of one request may cost in decompressed bytes and in records.

use super::RecordsError;
use super::codec::ZstdContext;

/// The bytes and records that are left to a request. One budget is shared by every batch of the
/// request, and spent before anything is allocated for a batch.
///
/// Uncompressed batches cost no bytes: theirs were admitted with the frame. A batch that expands
/// beyond what is left takes all of it.
#[derive(Debug)]
pub struct Budget {
    bytes: usize,
    records: usize,
    /// One decompression context serves all batches of the request.
    zstd: Option<ZstdContext>,
}

impl Budget {
    /// A budget of this many decompressed bytes and this many records.
    #[must_use]
    pub const fn new(max_bytes: usize, max_records: usize) -> Self {
        Self {
            bytes: max_bytes,
            records: max_records,
            zstd: None,
        }
    }

    /// Bytes that batches may still expand to.
    #[must_use]
    pub const fn remaining_bytes(&self) -> usize {
        self.bytes
    }

    /// Records that batches may still declare.
    #[must_use]
    pub const fn remaining_records(&self) -> usize {
        self.records
    }

    /// The batch's count was proved not to be negative.
    pub(super) fn take_records(&mut self, declared: usize) -> Result<(), RecordsError> {
        self.records =
            self.records
                .checked_sub(declared)
                .ok_or(RecordsError::RecordsOverBudget {
                    declared,
                    remaining: self.records,
                })?;
        Ok(())
    }

    /// Pays for bytes that a codec produced within [`Budget::remaining_bytes`].
    pub(super) const fn take_bytes(&mut self, bytes: usize) {
        self.bytes = self.bytes.saturating_sub(bytes);
    }

    pub(super) fn zstd(&mut self) -> &mut ZstdContext {
        self.zstd.get_or_insert_with(ZstdContext::new)
    }
}
