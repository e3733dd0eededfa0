//! What a node of a cluster does for ids that another one coordinates, and how a coordinator learns
//! what others did for its own (docs/decisions/cluster-transactions.md).
//!
//! Whoever receives a batch or an offset stages it, under the number that the marker names at that
//! moment; who ends the transaction reads marker and stage anew.

use std::sync::Arc;

use coordinator::transaction::{Marker, Partition, Phase, Producer, Refusal, StagedOffset};

use super::entry::Entry;
use super::{Depth, Failure, Inner, STORED_PLACES, Standing, marker, stage};
use crate::offsets::Tenant;

/// How often what was read may turn out to be older than what this node wrote meanwhile.
const MAX_READS: usize = 4;

impl Inner {
    /// Brings an entry up to what is stored.
    pub(super) async fn refresh(
        self: &Arc<Self>,
        entry: &Arc<Entry>,
        tenant: &Tenant,
        row: &str,
        depth: Depth,
    ) -> Result<(), Failure> {
        {
            let mut state = entry.lock();
            state.used = self.now();
            state.credential = tenant.credential.clone();
        }
        let _reading = entry.loading.lock().await;
        for _ in 0..MAX_READS {
            let settled = *entry.settled.borrow();
            let stored = self.read_marker(&tenant.credential, row).await?;
            let version = stored.as_ref().map(|stored| stored.version);
            let (is_known, writes) = {
                let state = entry.lock();
                let core = &state.core;
                let is_loaded = core.phase() != Phase::Unloaded;
                let is_known = is_loaded && core.version() == version;
                (is_known, core.writing().is_some())
            };
            if writes || (is_known && depth == Depth::Marker) {
                return Ok(());
            }
            let recovered = match &stored {
                Some(stored) => self.recover(tenant, &entry.key.id, stored).await?,
                None => None,
            };
            if *entry.settled.borrow() == settled {
                let now = self.now();
                self.with(entry, |state| state.load(now, stored, recovered));
                return Ok(());
            }
        }
        Err(Failure::Pending)
    }

    /// The marker of `id` as it is now, whoever coordinates it.
    pub(super) async fn marker_now(&self, tenant: &Tenant, id: &str) -> Result<Marker, Failure> {
        // Who doesn't know its place may stage all the same: the marker is the judge.
        if self.ownership.standing(id) == Standing::Unserved {
            return Err(Failure::Unserved);
        }
        let row = marker::marker_key(id).ok_or(Failure::IdTooLong)?;
        let stored = self.read_marker(&tenant.credential, &row).await?;
        let stored = stored.ok_or(Refusal::InvalidProducerIdMapping)?;
        Ok(stored.marker)
    }

    /// TxnOffsetCommit at whichever node owns the group.
    pub(super) async fn stage_offsets_elsewhere(
        self: &Arc<Self>,
        tenant: &Tenant,
        id: &str,
        producer: Producer,
        group: &Arc<str>,
        offsets: &[(Partition, StagedOffset)],
    ) -> Result<(), Failure> {
        let marker = self.marker_now(tenant, id).await?;
        verify(&marker, producer)?;
        if offsets.len() > STORED_PLACES {
            return Err(Refusal::InvalidCommitOffsetSize.into());
        }
        let entry = self.find(tenant, id)?;
        let of = (producer, marker.number + 1);
        // First, so that whoever reads the group's offsets from now on waits for the transaction.
        self.mark_pending(tenant, group, id, of).await?;
        if let Some(rows) = stage::Rows::offsets(self, &entry, of, group, offsets) {
            self.put(&entry, tenant, rows).await?;
        }
        Ok(())
    }
}

/// Whether `producer` is the one that the marker names.
pub(super) fn verify(marker: &Marker, producer: Producer) -> Result<(), Refusal> {
    if marker.producer.id != producer.id {
        Err(Refusal::InvalidProducerIdMapping)
    } else if marker.producer.epoch != producer.epoch {
        Err(Refusal::ProducerFenced)
    } else {
        Ok(())
    }
}
