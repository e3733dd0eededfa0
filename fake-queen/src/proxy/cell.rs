//! The clusters of a cell, their keys, and what is held against them now. Every change takes effect
//! on the next request.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use host::{Host, Secret};
use uuid::Uuid;

use super::keys::{self, Digest, KeyId, Scopes};
use super::metering::Metering;
use super::plan::{Plan, Rate};
use super::produce::Pushed;
use super::refusal::Refusal;
use crate::bucket::Bucket;
use crate::ids::{self, TenantId};

/// Names a cluster: the first label of its host.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Slug(pub String);

impl From<&str> for Slug {
    fn from(text: &str) -> Self {
        Self(text.to_ascii_lowercase())
    }
}

/// A cluster as it is registered.
#[derive(Clone, Debug)]
pub struct Cluster {
    /// What identity answers name.
    pub id: Uuid,
    /// Its name in hosts.
    pub slug: Slug,
    /// Whose data it is, at the broker.
    pub tenant: TenantId,
    /// Its limits.
    pub plan: Plan,
}

/// What stops a cluster's growth and leaves it everything else.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Block {
    /// More is stored than the plan has.
    Storage,
    /// More was sent this month.
    Monthly,
    /// By hand.
    Push,
}

/// Every request of a cluster is refused with 429.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Storm {
    /// `Retry-After` in seconds; `None` leaves the header out.
    pub retry_after_s: Option<u64>,
}

/// The directory of a cell. Clones share it.
#[derive(Clone, Debug)]
pub struct Cell {
    host: Host,
    inner: Arc<Mutex<Inner>>,
}

#[derive(Debug, Default)]
struct Inner {
    shared_hosts: BTreeSet<String>,
    clusters: BTreeMap<Slug, Entry>,
    keys: BTreeMap<KeyId, Key>,
    secrets: BTreeMap<Digest, Owner>,
    issued: u64,
}

#[derive(Debug)]
struct Entry {
    cluster: Cluster,
    frozen: bool,
    storm: Option<Storm>,
    block: Option<Block>,
    requests: Option<Bucket>,
    messages: Option<Bucket>,
    queues: BTreeMap<String, BTreeSet<String>>,
    metering: Metering,
}

#[derive(Clone, Debug)]
struct Key {
    cluster: Slug,
    scopes: Scopes,
    expires_ms: Option<i64>,
}

/// A key whose secret the caller chose.
#[derive(Debug)]
pub(super) struct KeyRow {
    pub id: KeyId,
    pub cluster: Slug,
    pub scopes: Scopes,
    pub expires_ms: Option<i64>,
    pub secret: Secret<String>,
}

/// Whose secret it is, and until when it counts beside a newer one.
#[derive(Clone, Debug)]
struct Owner {
    key: KeyId,
    until_ms: Option<i64>,
}

/// Who calls.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Caller {
    /// The key.
    pub key: KeyId,
    /// Its cluster.
    pub cluster: Slug,
    /// What it may do.
    pub scopes: Scopes,
}

/// The named cluster or key isn't there.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("no such cluster or key in this cell")]
pub struct Unknown;

impl Cell {
    /// A cell with nothing in it; time and secrets come from `host`.
    pub fn new(host: Host) -> Self {
        Self {
            host,
            inner: Arc::default(),
        }
    }

    /// Requests for `name` are resolved by their key. Port and case don't count.
    pub fn share_host(&self, name: &str) {
        let name = bare_host(name).to_ascii_lowercase();
        self.lock().shared_hosts.insert(name);
    }

    /// Adds a cluster with an id of its own. One of that name keeps its keys and counts, and gets
    /// the tenant and the plan.
    pub fn add_cluster(&self, slug: impl Into<Slug>, tenant: TenantId, plan: Plan) {
        let id = ids::uuid(&*self.host.entropy);
        let slug = slug.into();
        let mut inner = self.lock();
        if let Some(entry) = inner.clusters.get_mut(&slug) {
            entry.cluster.tenant = tenant;
            entry.cluster.plan = plan;
            return;
        }
        let cluster = Cluster {
            id,
            slug: slug.clone(),
            tenant,
            plan,
        };
        inner.clusters.insert(slug, Entry::new(cluster));
    }

    /// Makes a key with a secret of its own.
    ///
    /// # Errors
    /// [`Unknown`] cluster.
    pub fn issue(
        &self,
        cluster: impl Into<Slug>,
        scopes: Scopes,
    ) -> Result<(KeyId, Secret<String>), Unknown> {
        let secret = keys::new_secret(&*self.host.entropy, "test");
        let mut inner = self.lock();
        inner.issued += 1;
        let id = KeyId(format!("key-{}", inner.issued));
        inner.install(id.clone(), cluster.into(), scopes, None, &secret)?;
        Ok((id, secret))
    }

    /// Makes a key whose secret the caller chose. One of that id is replaced.
    ///
    /// # Errors
    /// [`Unknown`] cluster.
    pub fn install(
        &self,
        id: KeyId,
        cluster: impl Into<Slug>,
        scopes: Scopes,
        expires_ms: Option<i64>,
        secret: &Secret<String>,
    ) -> Result<(), Unknown> {
        self.lock()
            .install(id, cluster.into(), scopes, expires_ms, secret)
    }

    /// Ends a key at once.
    ///
    /// # Errors
    /// [`Unknown`].
    pub fn revoke(&self, id: &KeyId) -> Result<(), Unknown> {
        let mut inner = self.lock();
        inner.keys.remove(id).ok_or(Unknown)?;
        inner.secrets.retain(|_, owner| owner.key != *id);
        Ok(())
    }

    /// These keys and no others, in one step: who keeps a key notices nothing.
    pub(super) fn replace_keys(&self, rows: Vec<KeyRow>) -> Result<(), Unknown> {
        let mut inner = self.lock();
        inner.keys.clear();
        inner.secrets.clear();
        for row in rows {
            inner.install(row.id, row.cluster, row.scopes, row.expires_ms, &row.secret)?;
        }
        Ok(())
    }

    /// Ends a key at a time of the wall clock, in milliseconds of the Unix epoch; `None` never.
    ///
    /// # Errors
    /// [`Unknown`].
    pub fn expire_at(&self, id: &KeyId, at_ms: Option<i64>) -> Result<(), Unknown> {
        self.lock().keys.get_mut(id).ok_or(Unknown)?.expires_ms = at_ms;
        Ok(())
    }

    /// Gives a key other scopes.
    ///
    /// # Errors
    /// [`Unknown`].
    pub fn set_scopes(&self, id: &KeyId, scopes: Scopes) -> Result<(), Unknown> {
        self.lock().keys.get_mut(id).ok_or(Unknown)?.scopes = scopes;
        Ok(())
    }

    /// Gives a key another secret; the ones it had count for `overlap` still.
    ///
    /// # Errors
    /// [`Unknown`].
    pub fn rotate(&self, id: &KeyId, overlap: Duration) -> Result<Secret<String>, Unknown> {
        let secret = keys::new_secret(&*self.host.entropy, "test");
        let overlap_ms = i64::try_from(overlap.as_millis()).unwrap_or(i64::MAX);
        let until = self.now_ms().saturating_add(overlap_ms);
        let mut inner = self.lock();
        if !inner.keys.contains_key(id) {
            return Err(Unknown);
        }
        inner.secrets.retain(|_, owner| {
            if owner.key != *id {
                return true;
            }
            owner.until_ms = Some(owner.until_ms.map_or(until, |had| had.min(until)));
            !overlap.is_zero()
        });
        inner.prove(id.clone(), &secret);
        Ok(secret)
    }

    /// Refuses everything of a cluster with 403 `cluster_suspended`, or nothing any more.
    ///
    /// # Errors
    /// [`Unknown`].
    pub fn freeze(&self, cluster: impl Into<Slug>, frozen: bool) -> Result<(), Unknown> {
        self.with(&cluster.into(), |entry| entry.frozen = frozen)
    }

    /// Refuses every request of a cluster with 429, or none any more. Plans whose rate is exceeded
    /// refuse by themselves.
    ///
    /// # Errors
    /// [`Unknown`].
    pub fn storm(&self, cluster: impl Into<Slug>, storm: Option<Storm>) -> Result<(), Unknown> {
        self.with(&cluster.into(), |entry| entry.storm = storm)
    }

    /// Stops a cluster's growth, or lets it.
    ///
    /// # Errors
    /// [`Unknown`].
    pub fn block(&self, cluster: impl Into<Slug>, block: Option<Block>) -> Result<(), Unknown> {
        self.with(&cluster.into(), |entry| entry.block = block)
    }

    /// Gives a cluster another plan. Its buckets are full again.
    ///
    /// # Errors
    /// [`Unknown`].
    pub fn set_plan(&self, cluster: impl Into<Slug>, plan: Plan) -> Result<(), Unknown> {
        self.with(&cluster.into(), |entry| {
            entry.cluster.plan = plan;
            (entry.requests, entry.messages) = (None, None);
        })
    }

    /// What a cluster has used.
    ///
    /// # Errors
    /// [`Unknown`].
    pub fn metering(&self, cluster: impl Into<Slug>) -> Result<Metering, Unknown> {
        self.with(&cluster.into(), |entry| entry.metering.clone())
    }

    /// A cluster as it is now.
    pub(super) fn cluster(&self, slug: &Slug) -> Option<Cluster> {
        let inner = self.lock();
        Some(inner.clusters.get(slug)?.cluster.clone())
    }

    pub(super) fn is_shared(&self, host: &str) -> bool {
        let host = host.to_ascii_lowercase();
        self.lock().shared_hosts.contains(&host)
    }

    pub(super) fn has_shared_hosts(&self) -> bool {
        !self.lock().shared_hosts.is_empty()
    }

    /// Who a bearer is.
    pub(super) fn authenticate(&self, bearer: &[u8]) -> Result<Caller, Refusal> {
        let now_ms = self.now_ms();
        let inner = self.lock();
        let owner = Digest::of(bearer).and_then(|digest| inner.secrets.get(&digest));
        let owner = owner.ok_or(Refusal::UnknownKey)?;
        let key = inner.keys.get(&owner.key).ok_or(Refusal::UnknownKey)?;
        if owner.until_ms.is_some_and(|until| until <= now_ms) {
            return Err(Refusal::UnknownKey);
        }
        if key.expires_ms.is_some_and(|expires| expires <= now_ms) {
            return Err(Refusal::ExpiredKey);
        }
        Ok(Caller {
            key: owner.key.clone(),
            cluster: key.cluster.clone(),
            scopes: key.scopes,
        })
    }

    /// The status gate.
    pub(super) fn admit_status(&self, slug: &Slug) -> Result<(), Refusal> {
        match self.lock().clusters.get(slug) {
            None => Err(Refusal::UnknownCluster),
            Some(entry) if entry.frozen => Err(Refusal::Suspended),
            Some(_) => Ok(()),
        }
    }

    /// What stops growth.
    pub(super) fn admit_growth(&self, slug: &Slug) -> Result<(), Refusal> {
        let block = self.with(slug, |entry| entry.block);
        match block.map_err(|Unknown| Refusal::UnknownCluster)? {
            None => Ok(()),
            Some(Block::Storage) => Err(Refusal::StorageBlock),
            Some(Block::Monthly) => Err(Refusal::MonthlyBlock),
            Some(Block::Push) => Err(Refusal::PushBlock),
        }
    }

    /// Whether a storm refuses everything.
    pub(super) fn admit_storm(&self, slug: &Slug) -> Result<(), Refusal> {
        let storm = self.with(slug, |entry| entry.storm);
        match storm.map_err(|Unknown| Refusal::UnknownCluster)? {
            Some(Storm { retry_after_s }) => Err(Refusal::RateLimited { retry_after_s }),
            None => Ok(()),
        }
    }

    /// Takes a token for a request.
    pub(super) fn admit_request(&self, slug: &Slug) -> Result<(), Refusal> {
        let now = self.host.clock.monotonic();
        self.with(slug, |entry| {
            take(&mut entry.requests, entry.cluster.plan.requests, 1, now)
        })
        .map_err(|Unknown| Refusal::UnknownCluster)?
    }

    /// Takes tokens for the items of a push.
    pub(super) fn admit_messages(&self, slug: &Slug, items: usize) -> Result<(), Refusal> {
        let now = self.host.clock.monotonic();
        self.with(slug, |entry| {
            take(&mut entry.messages, entry.cluster.plan.messages, items, now)
        })
        .map_err(|Unknown| Refusal::UnknownCluster)?
    }

    /// Enters what a push writes to, unless the plan has no room for it.
    pub(super) fn register(&self, slug: &Slug, pushed: &[Pushed]) -> Result<(), Refusal> {
        self.with(slug, |entry| entry.register(pushed))
            .map_err(|Unknown| Refusal::UnknownCluster)?
    }

    /// Counts.
    pub(super) fn meter(&self, slug: &Slug, count: impl FnOnce(&mut Metering)) {
        // A cluster can't be removed.
        let _ = self.with(slug, |entry| count(&mut entry.metering));
    }

    /// Takes a place for a pop that waits.
    pub(super) fn park(&self, slug: &Slug) -> Result<Parked, Refusal> {
        self.with(slug, |entry| {
            let max = entry.cluster.plan.max_parked;
            if max.is_some_and(|max| entry.metering.parked >= max) {
                return Err(Refusal::RateLimited {
                    retry_after_s: Some(PARKED_RETRY_S),
                });
            }
            entry.metering.parked += 1;
            Ok(())
        })
        .map_err(|Unknown| Refusal::UnknownCluster)??;
        Ok(Parked {
            cell: self.clone(),
            slug: slug.clone(),
        })
    }

    fn now_ms(&self) -> i64 {
        self.host.clock.wall().epoch_ms()
    }

    fn with<T>(&self, slug: &Slug, act: impl FnOnce(&mut Entry) -> T) -> Result<T, Unknown> {
        self.lock().clusters.get_mut(slug).map(act).ok_or(Unknown)
    }

    fn lock(&self) -> MutexGuard<'_, Inner> {
        // Every change under the lock is complete in itself.
        self.inner.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// When a pop that found no place may come again.
const PARKED_RETRY_S: u64 = 5;

/// The place of a pop that waits, free again when dropped.
#[derive(Debug)]
pub(super) struct Parked {
    cell: Cell,
    slug: Slug,
}

impl Drop for Parked {
    fn drop(&mut self) {
        self.cell.meter(&self.slug, |metering| metering.parked -= 1);
    }
}

/// A host without its port.
pub(super) fn bare_host(authority: &str) -> &str {
    match authority.rsplit_once(':') {
        Some((host, port)) if port.bytes().all(|byte| byte.is_ascii_digit()) => host,
        _ => authority,
    }
}

impl Inner {
    fn install(
        &mut self,
        id: KeyId,
        cluster: Slug,
        scopes: Scopes,
        expires_ms: Option<i64>,
        secret: &Secret<String>,
    ) -> Result<(), Unknown> {
        if !self.clusters.contains_key(&cluster) {
            return Err(Unknown);
        }
        self.secrets.retain(|_, owner| owner.key != id);
        let key = Key {
            cluster,
            scopes,
            expires_ms,
        };
        self.keys.insert(id.clone(), key);
        self.prove(id, secret);
        Ok(())
    }

    fn prove(&mut self, key: KeyId, secret: &Secret<String>) {
        if let Some(digest) = Digest::of(secret.expose().as_bytes()) {
            let owner = Owner {
                key,
                until_ms: None,
            };
            self.secrets.insert(digest, owner);
        }
    }
}

impl Entry {
    fn new(cluster: Cluster) -> Self {
        Self {
            cluster,
            frozen: false,
            storm: None,
            block: None,
            requests: None,
            messages: None,
            queues: BTreeMap::new(),
            metering: Metering::default(),
        }
    }

    fn register(&mut self, pushed: &[Pushed]) -> Result<(), Refusal> {
        let plan = &self.cluster.plan;
        if plan.max_queues.is_none() && plan.max_partitions_per_queue.is_none() {
            // Nothing is kept that nothing bounds.
            return Ok(());
        }
        let mut queues: BTreeSet<&str> = self.queues.keys().map(String::as_str).collect();
        let mut lanes: BTreeMap<&str, BTreeSet<&str>> = BTreeMap::new();
        for Pushed { queue, partition } in pushed {
            queues.insert(queue);
            let of_queue = lanes.entry(queue).or_insert_with(|| {
                let had = self.queues.get(queue).into_iter().flatten();
                had.map(String::as_str).collect()
            });
            of_queue.insert(partition);
            let full = |max: Option<usize>, len| max.is_some_and(|max| len > max);
            if full(plan.max_queues, queues.len()) {
                return Err(Refusal::Quota("max_queues"));
            }
            if full(plan.max_partitions_per_queue, of_queue.len()) {
                return Err(Refusal::Quota("max_partitions_per_queue"));
            }
        }
        let counts_lanes = plan.max_partitions_per_queue.is_some();
        for Pushed { queue, partition } in pushed {
            let of_queue = self.queues.entry(queue.clone()).or_default();
            // Names that nothing bounds are not kept.
            if counts_lanes {
                of_queue.insert(partition.clone());
            }
        }
        Ok(())
    }
}

/// Takes tokens. What is more than a bucket ever holds passes once the bucket is full.
fn take(
    bucket: &mut Option<Bucket>,
    rate: Option<Rate>,
    cost: usize,
    now: host::Monotonic,
) -> Result<(), Refusal> {
    let Some(Rate { per_second, burst }) = rate else {
        return Ok(());
    };
    let (rate, burst) = (f64::from(per_second), f64::from(burst));
    let held = bucket.unwrap_or(Bucket::full(burst, now));
    // Item counts are small. A bucket that holds nothing lets nothing pass.
    let cost = (cost as f64).min(burst.max(1.0));
    let taken = held.filled(rate, burst, now).take(cost, rate);
    *bucket = Some(taken.map_err(|seconds| Refusal::RateLimited {
        retry_after_s: Some(seconds),
    })?);
    Ok(())
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use uuid::Uuid;

    use super::*;

    #[test]
    fn a_bucket_that_holds_nothing_lets_nothing_pass() {
        let rate = |burst| {
            Some(Rate {
                per_second: 1,
                burst,
            })
        };
        let now = host::Monotonic::from_origin(Duration::ZERO);
        assert!(take(&mut None, rate(0), 1, now).is_err());
        assert!(take(&mut None, rate(1), 7, now).is_ok());
    }

    #[test]
    fn lanes_are_kept_only_where_a_plan_counts_them() {
        let kept = |max_partitions_per_queue| {
            let plan = Plan {
                max_queues: Some(1),
                max_partitions_per_queue,
                ..Plan::default()
            };
            let mut entry = Entry::new(Cluster {
                id: Uuid::nil(),
                slug: Slug::from("acme"),
                tenant: TenantId(Uuid::nil()),
                plan,
            });
            let lane = Pushed {
                queue: "q".into(),
                partition: "0".into(),
            };
            entry.register(&[lane]).unwrap();
            entry.queues["q"].len()
        };
        assert_eq!((kept(None), kept(Some(1))), (0, 1));
    }
}
