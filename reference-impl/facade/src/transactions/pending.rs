//! Offsets that wait in open transactions (KIP-447): who takes a partition over mustn't begin at
//! the offset that one of them is about to move.
//!
//! Alone, a process knows its own. In a cluster the owner of a group stages offsets for transactions
//! that other nodes end, and the group moves: a row of the group says that an id has offsets waiting,
//! until the marker of the id says that their transaction is over.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Duration;

use coordinator::producer::ProducerEpoch;
use coordinator::transaction::{Partition, Producer, ProducerId};
use serde::{Deserialize, Serialize};

use super::entry::Key;
use super::marker::{StoredMarker, marker_key};
use super::{Failure, Inner, Transactions};
use crate::offsets::Tenant;
use crate::queen::kv::{
    Batch, Expect, Expiry, MAX_KEY_BYTES, OnLoss, OpResult, Outcome, escape, unescape,
};
use crate::queen::{Error, Repeat};

/// What the keys of all rows begin with.
const PREFIX: &str = "qk:txnpend:";
/// How long a row stays that nobody deletes: twice the longest timeout.
const KEPT: Duration = Duration::from_secs(4 * 60 * 60);
/// Pages of rows read for a group.
const MAX_PAGES: usize = 10;

/// Which transaction of an id has offsets of the group waiting.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
struct PendingRow {
    pid: i64,
    epoch: i16,
    /// Its ordinal: one more than the marker counts while it is open.
    seq: u64,
    #[serde(default)]
    ts: i64,
}

fn group_prefix(group: &str) -> String {
    format!("{PREFIX}{}:", escape(group))
}

fn key(group: &str, id: &str) -> Option<String> {
    let key = format!("{}{}", group_prefix(group), escape(id));
    (key.len() <= MAX_KEY_BYTES).then_some(key)
}

/// Adds to a commit that the offsets of `group` don't wait for `id` any more.
pub(super) fn add_settled(riders: &mut Batch, group: &str, id: &str) -> Result<(), Failure> {
    const UNSENDABLE: Error = Error::Unsendable("a row that Queen would refuse");
    let Some(key) = key(group, id) else {
        return Ok(());
    };
    riders
        .delete(&key, Expect::Any, OnLoss::Skip)
        .map_err(|_| UNSENDABLE)?;
    Ok(())
}

impl Inner {
    /// Lets every node know that `group` has offsets waiting in transaction `number` of `id`.
    pub(super) async fn mark_pending(
        &self,
        tenant: &Tenant,
        group: &str,
        id: &str,
        (producer, number): (Producer, u64),
    ) -> Result<(), Failure> {
        let key = key(group, id).ok_or(Failure::IdTooLong)?;
        let row = PendingRow {
            pid: producer.id.0,
            epoch: producer.epoch.get(),
            seq: number,
            ts: self.clock.wall().epoch_ms(),
        };
        let mut batch = Batch::new();
        batch
            .put(&key, &row, Expiry::After(KEPT), Expect::Any, OnLoss::Skip)
            .map_err(|_| Error::Unsendable("a row that Queen would refuse"))?;
        let put = self
            .client
            .kv(&tenant.credential, &batch, Repeat::Safe)
            .await?;
        match put {
            Outcome::Done(results) if matches!(results.first(), Some(OpResult::Applied(_))) => {
                Ok(())
            }
            _ => Err(Error::unreadable("a row was put without a result").into()),
        }
    }

    /// The partitions of `group` whose offset an open transaction of any node may move.
    async fn pending_anywhere(
        self: &Arc<Self>,
        tenant: &Tenant,
        group: &str,
    ) -> Result<BTreeSet<Partition>, Failure> {
        let prefix = group_prefix(group);
        let scan = self
            .client
            .kv_scan(&tenant.credential, &prefix, false, MAX_PAGES)
            .await?;
        if scan.cut {
            tracing::warn!(group, "more transactions wait for a group than are read");
        }
        let mut pending = BTreeSet::new();
        for row in &scan.rows {
            let (Some(id), Ok(waits)) = (row.key.strip_prefix(&prefix), row.value::<PendingRow>())
            else {
                continue;
            };
            let id = unescape(id);
            let Some(marker) = marker_key(&id) else {
                continue;
            };
            let Some(stored) = self.read_marker(&tenant.credential, &marker).await? else {
                continue;
            };
            if !waits.is_of(&stored) {
                continue;
            }
            let Some((_, open)) = self.recover(tenant, &id, &stored).await? else {
                continue;
            };
            if stored
                .marker
                .timeout
                .is_some_and(|timeout| open.age >= timeout)
            {
                self.expire_of(tenant, &id);
            }
            let of_group = open.offsets.into_keys().filter(|(of, ..)| **of == *group);
            pending.extend(of_group.map(|(_, topic, index)| (topic, index)));
        }
        Ok(pending)
    }

    /// Ends the transaction of an id whose time is over, for whoever coordinates it may not know
    /// that it is open. Nobody waits for it.
    fn expire_of(self: &Arc<Self>, tenant: &Tenant, id: &str) {
        let (inner, tenant, id) = (Arc::clone(self), tenant.clone(), id.to_owned());
        tokio::spawn(async move {
            let (Some(row), Ok(entry)) = (marker_key(&id), inner.find(&tenant, &id)) else {
                return;
            };
            let depth = super::Depth::Stage;
            if let Err(error) = inner.refresh(&entry, &tenant, &row, depth).await {
                tracing::debug!(%error, "a transaction whose time is over could not be read");
                return;
            }
            let now = inner.now();
            if let Some(write) = inner.with(&entry, |state| state.core.expire(now)) {
                // Its outcome is nobody's to wait for.
                let _ = inner.carry_out(&entry, write).await;
            }
        });
    }
}

impl PendingRow {
    /// Whether the transaction is the one that is open beyond a marker.
    fn is_of(&self, stored: &StoredMarker) -> bool {
        let Some(epoch) = ProducerEpoch::new(self.epoch) else {
            return false;
        };
        let producer = Producer {
            id: ProducerId(self.pid),
            epoch,
        };
        stored.marker.producer == producer && stored.marker.number + 1 == self.seq
    }
}

/// By group, the partitions whose offset an open transaction of this process may move.
#[derive(Debug, Default)]
pub struct PendingHere(BTreeMap<Arc<str>, BTreeSet<Partition>>);

impl Transactions {
    /// What waits for `groups` in this process: all its open transactions are looked through once for
    /// all of them. Nothing in a cluster, where rows tell.
    pub fn pending_here(&self, tenant: &Tenant, groups: &BTreeSet<&str>) -> PendingHere {
        let inner = &self.inner;
        let mut pending = PendingHere::default();
        if inner.ownership.is_shared() || inner.open.load(Ordering::Relaxed) == 0 {
            return pending;
        }
        let from = Key {
            scope: tenant.scope.clone(),
            id: "".into(),
        };
        let entries: Vec<_> = inner
            .lock()
            .range(from..)
            .take_while(|(key, _)| key.scope == tenant.scope)
            .map(|(_, entry)| Arc::clone(entry))
            .collect();
        for entry in entries {
            let state = entry.lock();
            let Some(content) = state.core.content() else {
                continue;
            };
            for ((group, topic, index), _) in content.offsets() {
                if groups.contains(&**group) {
                    let of_group = pending.0.entry(Arc::clone(group)).or_default();
                    of_group.insert((Arc::clone(topic), *index));
                }
            }
        }
        pending
    }

    /// The partitions of `group` whose offset an open transaction may move: alone, one of those that
    /// `here` has found.
    ///
    /// # Errors
    ///
    /// In a cluster, when that can't be read.
    pub async fn pending_offsets(
        &self,
        tenant: &Tenant,
        group: &str,
        here: &PendingHere,
    ) -> Result<BTreeSet<Partition>, Failure> {
        if self.inner.ownership.is_shared() {
            return self.inner.pending_anywhere(tenant, group).await;
        }
        Ok(here.0.get(group).cloned().unwrap_or_default())
    }
}
