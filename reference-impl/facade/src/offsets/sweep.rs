//! The index of groups, and the deletion of a group.

use std::collections::BTreeMap;

use super::commit::{Change, Commit, WriteError};
use super::keys::{INDEX_PREFIX, group_prefix, index_key, indexed_group, parse};
use super::queue::IndexChange;
use super::rows::IndexRow;
use super::{OffsetKey, Offsets, Tenant, unfolded};
use crate::queen::Error;
use crate::queen::kv::{Batch, Expect, MAX_KEY_BYTES, MAX_OPERATIONS, OnLoss, Row};

/// Pages of the index: 10,000 groups.
const MAX_INDEX_PAGES: usize = 10;
/// Pages of a group's offsets deleted in one request: 64,000 offsets.
const MAX_SWEEP_PAGES: usize = 64;

/// The groups that committed at least once.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ListedIndex {
    /// Group and protocol type, in order of the escaped ids.
    pub groups: Vec<(String, IndexRow)>,
    /// There are more than are listed.
    pub cut: bool,
}

/// Why a group was not deleted.
#[derive(Clone, Debug, thiserror::Error)]
pub enum SweepError {
    /// It has neither offsets nor an index row.
    #[error("the group has no committed offsets")]
    Unknown,
    /// Too many offsets for one request; a part is deleted, and asking again carries on.
    #[error("the group has too many committed offsets for one request")]
    TooMany,
    /// A row was not deleted; asking again carries on.
    #[error(transparent)]
    Write(#[from] WriteError),
    /// A call failed.
    #[error(transparent)]
    Queen(#[from] Error),
}

impl Offsets {
    /// The groups that committed at least once.
    ///
    /// # Errors
    ///
    /// The call's.
    pub async fn list_groups(&self, tenant: &Tenant) -> Result<ListedIndex, Error> {
        let scan = self
            .store
            .scan(&tenant.credential, INDEX_PREFIX, false, MAX_INDEX_PAGES)
            .await?;
        let group = |row: &Row| {
            // A row of another shape still says that the group exists.
            Some((indexed_group(&row.key)?, row.value().unwrap_or_default()))
        };
        Ok(ListedIndex {
            groups: scan.rows.iter().filter_map(group).collect(),
            cut: scan.cut,
        })
    }

    /// The index rows of these groups, in order; `None` for one that never committed.
    ///
    /// # Errors
    ///
    /// The call's, or [`Error::Unreadable`] when a row could not be read.
    pub async fn group_indexes(
        &self,
        tenant: &Tenant,
        groups: &[&str],
    ) -> Result<Vec<Option<IndexRow>>, Error> {
        // A group whose index no key can name never committed.
        let keys: Vec<Option<String>> = groups
            .iter()
            .map(|group| Some(index_key(group)).filter(|key| key.len() <= MAX_KEY_BYTES))
            .collect();
        let asked: Vec<String> = keys.iter().flatten().cloned().collect();
        if asked.is_empty() {
            return Ok(vec![None; groups.len()]);
        }
        let readout = self.store.read(&tenant.credential, &asked).await?;
        if !readout.unread.is_empty() {
            return Err(Error::Unreadable("index rows were not read".into()));
        }
        let found: BTreeMap<&str, IndexRow> = readout
            .rows
            .iter()
            .map(|row| (row.key.as_str(), row.value().unwrap_or_default()))
            .collect();
        let row = |key: Option<String>| found.get(key?.as_str()).cloned();
        Ok(keys.into_iter().map(row).collect())
    }

    /// Deletes what waits to be folded: it must not come back.
    async fn delete_unfolded(&self, tenant: &Tenant, group: &str) -> Result<(), Error> {
        let prefix = unfolded::prefix(group);
        let waiting = self
            .store
            .scan(&tenant.credential, &prefix, true, unfolded::MAX_PAGES)
            .await?;
        for rows in waiting.rows.chunks(MAX_OPERATIONS) {
            let mut batch = Batch::new();
            for row in rows {
                batch
                    .delete(&row.key, Expect::Any, OnLoss::Skip)
                    .map_err(|_| Error::Unsendable("an offset key that Queen would refuse"))?;
            }
            self.store.run(&tenant.credential, &batch).await?;
        }
        Ok(())
    }

    async fn change_index(&self, commit: Commit, index: IndexChange) -> Result<(), WriteError> {
        let receipt = self.writer.submit_index(commit, index);
        receipt.verdicts().await.into_iter().collect()
    }

    /// Deletes every offset of a group, then its index row: a group is listed until nothing of it
    /// is left.
    ///
    /// # Errors
    ///
    /// [`SweepError`]. Deletion is not atomic: after an error other than `Unknown` the group may
    /// have lost a part of its offsets, and asking again carries on.
    pub async fn delete_group(&self, tenant: &Tenant, group: &str) -> Result<(), SweepError> {
        if index_key(group).len() > MAX_KEY_BYTES {
            return Err(SweepError::Unknown);
        }
        let prefix = group_prefix(group);
        let scan = self
            .store
            .scan(&tenant.credential, &prefix, true, MAX_SWEEP_PAGES)
            .await?;
        let changes: Vec<(OffsetKey, Change)> = scan
            .rows
            .iter()
            .filter_map(|row| {
                let (topic, partition) = parse(&prefix, &row.key)?;
                let key = OffsetKey::new(group, &topic, partition)?;
                Some((key, Change::Delete))
            })
            .collect();
        let had_offsets = !changes.is_empty();
        self.delete_unfolded(tenant, group).await?;
        let receipt = self.commit(Commit {
            tenant: tenant.clone(),
            group: group.into(),
            protocol_type: "".into(),
            changes,
        });
        for verdict in receipt.verdicts().await {
            verdict?;
        }
        if scan.cut {
            return Err(SweepError::TooMany);
        }
        let index = self.group_indexes(tenant, &[group]).await?.pop().flatten();
        let had_index = index.is_some();
        let change = Commit {
            tenant: tenant.clone(),
            group: group.into(),
            protocol_type: index.unwrap_or_default().pt.into(),
            changes: Vec::new(),
        };
        self.change_index(change.clone(), IndexChange::Delete)
            .await?;
        // A commit that was on its way has found the group indexed: it must stay listed.
        let left = self
            .store
            .scan(&tenant.credential, &prefix, true, 1)
            .await?;
        if !left.rows.is_empty() {
            self.change_index(change, IndexChange::Put).await?;
        }
        if had_offsets || had_index {
            Ok(())
        } else {
            Err(SweepError::Unknown)
        }
    }
}
