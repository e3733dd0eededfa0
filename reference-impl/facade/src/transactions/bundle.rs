//! Puts a commit together: records, marker, group index rows and offsets, all or nothing.

use std::collections::BTreeMap;
use std::sync::Arc;

use coordinator::transaction::{Content, OffsetPlace, StagedOffset, Write};

use super::entry::Entry;
use super::{Failure, Inner, pending};
use crate::offsets::{IndexRow, OffsetKey, OffsetRow, Tenant, Unfolded, index_key};
use crate::queen::kv::{Batch, OnLoss, Version};
use crate::queen::{Credential, Error, Fragment, MAX_RIDER_OPERATIONS};

/// A commit, ready to be sent as often as it takes.
#[derive(Debug)]
pub(super) struct Bundled {
    /// The records, in the order in which they were produced.
    pub(super) fragments: Vec<Fragment>,
    /// The marker first.
    pub(super) riders: Batch,
    /// Offsets that the bundle stores as rows to be folded.
    pub(super) unfolded: Vec<Unfolded>,
    /// Where the next transaction's rows begin, when this one's were read from Queen.
    pub(super) stage_end: Option<i64>,
    /// The groups whose offsets it stores.
    groups: Vec<Arc<str>>,
}

impl Inner {
    pub(super) async fn bundle(
        self: &Arc<Self>,
        entry: &Entry,
        write: &Write<Version>,
        credential: &Credential,
    ) -> Result<Bundled, Failure> {
        let (fragments, stage_end) = if self.is_stored() {
            let (fragments, end) = self.read_stage(entry, write, credential).await?;
            (fragments, Some(end))
        } else {
            let state = entry.lock();
            let held = state.held.iter().map(|held| held.fragment.clone());
            (held.collect(), None)
        };
        let content = {
            let state = entry.lock();
            // Gone only when somebody else settled the write.
            state.core.content().cloned().ok_or(Failure::Pending)?
        };
        let groups: Vec<Arc<str>> = content.groups().cloned().collect();
        // A commit by hand of the same offsets that waits is older than this one.
        let tenant = Tenant {
            scope: entry.key.scope.clone(),
            credential: credential.clone(),
        };
        for group in &groups {
            self.offsets.fold(&tenant, group).await?;
        }
        let mut riders = Batch::new();
        let at = stage_end.unwrap_or_default();
        self.add_marker(&mut riders, entry, write, at, OnLoss::RollBack)?;
        let unfolded = self.add_offsets(&mut riders, write, &content)?;
        if self.ownership.is_shared() {
            for group in &groups {
                // What finds no room is seen to be over by its number.
                if riders.len() < MAX_RIDER_OPERATIONS {
                    pending::add_settled(&mut riders, group, &entry.key.id)?;
                }
            }
        }
        Ok(Bundled {
            fragments,
            riders,
            unfolded,
            stage_end,
            groups,
        })
    }

    fn add_offsets(
        &self,
        riders: &mut Batch,
        write: &Write<Version>,
        content: &Content,
    ) -> Result<Vec<Unfolded>, Failure> {
        const UNSENDABLE: Error = Error::Unsendable("an offset row that Queen would refuse");
        if content.offsets().len() == 0 {
            return Ok(Vec::new());
        }
        let now_ms = self.clock.wall().epoch_ms();
        let mut by_group: BTreeMap<&Arc<str>, Vec<(&OffsetPlace, &StagedOffset)>> = BTreeMap::new();
        for (place, offset) in content.offsets() {
            by_group.entry(&place.0).or_default().push((place, offset));
        }
        for group in by_group.keys() {
            let row = IndexRow {
                pt: "consumer".to_owned(),
                ts: now_ms,
            };
            riders
                .put_forever(&index_key(group), &row)
                .map_err(|_| UNSENDABLE)?;
        }
        let row = |offset: &StagedOffset| OffsetRow {
            offset: offset.offset,
            metadata: offset.metadata.clone(),
            ts: now_ms,
        };
        if riders.len() + content.offsets().len() <= MAX_RIDER_OPERATIONS {
            for ((group, topic, partition), offset) in content.offsets() {
                let key = OffsetKey::new(group, topic, *partition).ok_or(UNSENDABLE)?;
                riders
                    .put_forever(key.as_str(), &row(offset))
                    .map_err(|_| UNSENDABLE)?;
            }
            return Ok(Vec::new());
        }
        let marker = &write.marker;
        let tag = format!(
            "{:x}-{:x}-{:x}",
            marker.producer.id.0,
            marker.producer.epoch.get(),
            marker.number
        );
        let mut unfolded = Vec::new();
        for (group, offsets) in by_group {
            let offsets = offsets.into_iter().map(|((_, topic, partition), offset)| {
                ((Arc::clone(topic), *partition), row(offset))
            });
            unfolded.extend(Unfolded::split(group, &tag, now_ms, offsets));
        }
        if riders.len() + unfolded.len() > MAX_RIDER_OPERATIONS {
            return Err(Error::Unsendable("more offsets than a bundle carries").into());
        }
        for row in &unfolded {
            riders
                .put_forever(row.key(), row.value())
                .map_err(|_| UNSENDABLE)?;
        }
        Ok(unfolded)
    }

    /// A bundle is in: folds what it stored unfolded. A failure costs nobody a commit: readers merge
    /// until somebody has folded.
    pub(super) async fn committed(self: &Arc<Self>, entry: &Entry, bundled: Bundled) {
        let tenant = Tenant {
            scope: entry.key.scope.clone(),
            credential: entry.lock().credential.clone(),
        };
        if bundled.unfolded.is_empty() {
            return;
        }
        for group in &bundled.groups {
            self.offsets.mark_unfolded(&tenant.scope, group);
            if let Err(error) = self.offsets.fold(&tenant, group).await {
                tracing::warn!(?group, %error, "offsets of a transaction are not folded yet");
            }
        }
    }
}
