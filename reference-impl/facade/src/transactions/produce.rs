//! Where the batches of a transactional producer go instead of the log.

use std::sync::Arc;
use std::sync::atomic::Ordering;

use coordinator::transaction::{Admission, Marker, Partition, Producer, Refusal};

use super::entry::{Entry, Held};
use super::stage::{Rows, StagedBatch};
use super::{Failure, Inner, Transactions, elsewhere};
use crate::offsets::Tenant;
use crate::queen::Fragment;

/// The stage of one transactional id, for the batches of one request.
#[derive(Clone, Debug)]
pub struct Staging {
    inner: Arc<Inner>,
    entry: Arc<Entry>,
    implicit: bool,
    /// In a cluster: what the marker says now.
    marker: Option<Marker>,
}

impl Transactions {
    /// The stage of `id`. With `implicit` (transactions 2) a batch adds its partition.
    ///
    /// # Errors
    ///
    /// [`Failure`].
    pub async fn staging(
        &self,
        tenant: &Tenant,
        id: &str,
        implicit: bool,
    ) -> Result<Staging, Failure> {
        let inner = &self.inner;
        let (entry, marker) = if inner.ownership.is_shared() {
            let marker = inner.marker_now(tenant, id).await?;
            (inner.find(tenant, id)?, Some(marker))
        } else {
            (inner.entry(tenant, id).await?, None)
        };
        Ok(Staging {
            inner: Arc::clone(inner),
            entry,
            implicit,
            marker,
        })
    }
}

impl Staging {
    /// Whether `records` records that hold `bytes` may be staged for `at` now.
    ///
    /// # Errors
    ///
    /// [`Failure`].
    pub fn admit(
        &self,
        producer: Producer,
        at: &Partition,
        size: (usize, usize),
    ) -> Result<Admission, Failure> {
        let inner = &self.inner;
        if let Some(marker) = &self.marker {
            elsewhere::verify(marker, producer)?;
            let limits = inner.limits();
            if size.0 > limits.records || size.1 > limits.bytes {
                return Err(Refusal::MessageTooLarge.into());
            }
            return Ok(Admission::elsewhere(marker.number + 1, size));
        }
        let now = inner.now();
        inner.with(&self.entry, |state| {
            if self.implicit {
                inner.may_open(state)?;
            }
            let full =
                inner.staged_bytes.load(Ordering::Relaxed) + size.1 > inner.config.max_staged_bytes;
            if full && !inner.is_stored() {
                // Who may not write hears that first.
                state.core.verify(producer)?;
                return Err(Failure::StageFull);
            }
            let core = &mut state.core;
            Ok(core.admit_batch(now, producer, at, size, self.implicit)?)
        })
    }

    /// Keeps a batch of `bytes` in memory. `false` when its transaction is over.
    pub fn hold(&self, admission: Admission, fragment: Fragment, bytes: usize) -> bool {
        let inner = &self.inner;
        inner.with(&self.entry, |state| {
            let staged = state.core.settle_batch(admission, true);
            if staged {
                state.held.push(Held { fragment, bytes });
                let staged = inner.staged_bytes.fetch_add(bytes, Ordering::Relaxed) + bytes;
                inner.metrics.staged(staged);
            }
            staged
        })
    }

    /// The batch wasn't staged.
    pub fn withdraw(&self, admission: Admission) {
        if self.marker.is_some() {
            return;
        }
        self.inner.with(&self.entry, |state| {
            state.core.settle_batch(admission, false);
        });
    }

    /// The batch's rows are in the hidden queue, the first at `offset`. `false` when its
    /// transaction is over.
    pub fn stored(&self, admission: Admission, offset: i64, rows: i64) -> bool {
        self.inner.with(&self.entry, |state| {
            state.staged_at(offset, rows);
            if self.marker.is_some() {
                return true;
            }
            state.core.settle_batch(admission, true)
        })
    }

    /// The rows of a batch for the hidden queue; `None` when batches wait in memory.
    pub fn rows(&self, admission: Admission, batch: &StagedBatch<'_>) -> Option<Rows> {
        Rows::batch(&self.inner, &self.entry, admission, batch)
    }

    /// Whether batches may come in any order: in a cluster those of a partition come through
    /// several nodes, and are put in order when the transaction is committed.
    pub fn orders_later(&self) -> bool {
        self.marker.is_some()
    }

    /// Makes the hidden queue, if this process hasn't yet.
    pub async fn prepare(&self, tenant: &Tenant) {
        if self.inner.is_stored() {
            self.inner.make_queue(tenant).await;
        }
    }
}
