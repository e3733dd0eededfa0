//! The clusters of a cell, their keys, and what is held against them now. Every change takes effect
//! on the next request.

mod admission;
mod keyring;

use std::collections::{BTreeMap, BTreeSet};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use host::Host;
use uuid::Uuid;

use self::keyring::{Key, Owner};
use super::keys::{Digest, KeyId, Scopes};
use super::metering::Metering;
use super::plan::Plan;
use crate::bucket::Bucket;
use crate::ids::{self, TenantId};

pub(super) use self::admission::Parked;
pub(super) use self::keyring::KeyRow;

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

    /// Counts.
    pub(super) fn meter(&self, slug: &Slug, count: impl FnOnce(&mut Metering)) {
        // A cluster can't be removed.
        let _ = self.with(slug, |entry| count(&mut entry.metering));
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

/// A host without its port.
pub(super) fn bare_host(authority: &str) -> &str {
    match authority.rsplit_once(':') {
        Some((host, port)) if port.bytes().all(|byte| byte.is_ascii_digit()) => host,
        _ => authority,
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
}
