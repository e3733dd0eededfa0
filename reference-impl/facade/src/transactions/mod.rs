//! The transaction coordinator: one `coordinator::transaction` core for each transactional id, its
//! marker in Queen's key/value store, its open transaction staged in memory or in a hidden queue
//! (docs/decisions/transaction-stage.md).
//!
//! [`write`] carries a change of the marker out until its outcome is known; [`bundle`] puts a
//! commit together; [`pending`] tells which offsets wait; [`stage`] is the hidden queue; [`sweep`]
//! ends what is past its time. In a cluster [`elsewhere`] stages for the coordinator of another
//! node, and nothing remembered is trusted (docs/decisions/cluster-transactions.md). Knows no Kafka
//! request; the handlers do.

mod bundle;
mod elsewhere;
mod entry;
mod failure;
mod list;
mod marker;
mod metrics;
mod ownership;
mod pending;
mod produce;
mod stage;
mod sweep;
mod write;

use std::collections::BTreeMap;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use coordinator::transaction::{
    Durability, Ended, InitRequest, Limits, Partition, Phase, Producer, ProducerId, Refusal,
    Settled, StagedOffset, Step, WriteKind,
};
use host::metrics::Registry;
use host::shutdown::{self, Shutdown};
use host::{Clock, Entropy, Host, Monotonic};

pub use failure::Failure;
pub use list::{Described, Listed};
pub use marker::UnreadableMarker;
pub use ownership::{Alone, InCluster, Ownership, Standing};
pub use pending::PendingHere;
pub use produce::Staging;
pub use stage::{STAGE_QUEUE, StagedBatch};

use crate::config::{TransactionConfig, TransactionStage};
use crate::offsets::{Offsets, Tenant};
use crate::queen::{Client, MAX_RIDER_OPERATIONS};
use entry::{Entry, Key, State};
use metrics::Metrics;

/// Partitions of a transaction that waits in memory: what the known facade allows.
const MEMORY_PARTITIONS: usize = 200;
/// Offsets of one: a bundle's operations less the marker and the index row of one group.
const MEMORY_OFFSETS: usize = MAX_RIDER_OPERATIONS - 2;
/// Partitions, and offsets, of a transaction that waits in Queen.
const STORED_PLACES: usize = 10_000;
/// Transactional ids remembered; those unused for longest go first, and are read again when they
/// come back.
const MAX_IDS: usize = 65_536;
/// An id that was used within this time is not forgotten.
const KEEP: Duration = Duration::from_secs(60);
/// How long a client waits for a write's outcome: below its own 30 seconds, and enough for one try
/// that takes Queen's whole time.
const PATIENCE: Duration = Duration::from_secs(12);
/// How often a claim that met another claim is tried.
const CLAIMS: usize = 2;
/// Bits of a producer id: positive, and far enough from the maximum for clients that count on.
const PRODUCER_ID_BITS: u32 = 62;

/// The transactions of every tenant of this process. Cheap to clone.
#[derive(Clone, Debug)]
pub struct Transactions {
    inner: Arc<Inner>,
}

#[derive(Debug)]
struct Inner {
    client: Arc<Client>,
    clock: Arc<dyn Clock>,
    entropy: Arc<dyn Entropy>,
    shutdown: Shutdown,
    config: TransactionConfig,
    offsets: Offsets,
    ownership: Arc<dyn Ownership>,
    /// The node's id, for markers.
    node: i32,
    /// Names this process in markers.
    incarnation: u64,
    entries: Mutex<BTreeMap<Key, Arc<Entry>>>,
    open: AtomicUsize,
    staged_bytes: AtomicUsize,
    sweeping: AtomicBool,
    stage: stage::Queue,
    metrics: Metrics,
}

/// What a request needs to know of an id as it is now, where other nodes write too.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Depth {
    /// Who may write.
    Marker,
    /// Everything staged.
    Stage,
}

/// A producer id that nobody has.
pub fn new_producer_id(entropy: &dyn Entropy) -> ProducerId {
    loop {
        let bits = entropy.next_u64() >> (u64::BITS - PRODUCER_ID_BITS);
        match i64::try_from(bits) {
            Ok(id) if id > 0 => return ProducerId(id),
            // 0 is an id that clients take for "none"; 62 bits always fit.
            _ => {}
        }
    }
}

impl Transactions {
    /// Nothing known yet.
    pub fn new(
        host: &Host,
        client: Arc<Client>,
        config: TransactionConfig,
        offsets: Offsets,
        (node, ownership): (i32, Arc<dyn Ownership>),
        shutdown: Shutdown,
        registry: &Registry,
    ) -> Self {
        Self {
            inner: Arc::new(Inner {
                client,
                clock: Arc::clone(&host.clock),
                entropy: Arc::clone(&host.entropy),
                shutdown,
                config,
                offsets,
                ownership,
                node,
                incarnation: host.entropy.next_u64(),
                entries: Mutex::default(),
                open: AtomicUsize::new(0),
                staged_bytes: AtomicUsize::new(0),
                sweeping: AtomicBool::new(false),
                stage: stage::Queue::default(),
                metrics: Metrics::new(registry),
            }),
        }
    }

    /// InitProducerId.
    ///
    /// # Errors
    ///
    /// [`Failure`].
    pub async fn init(
        &self,
        tenant: &Tenant,
        id: &str,
        expected: Option<Producer>,
        timeout: Option<Duration>,
    ) -> Result<Producer, Failure> {
        for _ in 0..CLAIMS {
            let entry = self.inner.entry(tenant, id).await?;
            let request = InitRequest {
                expected,
                timeout,
                fresh: self.fresh(),
            };
            let step = self.inner.with(&entry, |state| state.core.init(request))?;
            match step {
                Step::Answer(producer) => return Ok(producer),
                Step::Write(write) => match self.inner.carry_out(&entry, write).await? {
                    Settled::Done(producer) => return Ok(producer),
                    // Another process claimed it meanwhile: once more, over its claim.
                    Settled::Fenced => {}
                    Settled::Undone | Settled::Unknown => return Err(Failure::Pending),
                },
            }
        }
        Err(Refusal::ConcurrentTransactions.into())
    }

    /// AddPartitionsToTxn: all or none.
    ///
    /// # Errors
    ///
    /// [`Failure`].
    pub async fn add_partitions(
        &self,
        tenant: &Tenant,
        id: &str,
        producer: Producer,
        partitions: &[Partition],
    ) -> Result<(), Failure> {
        let entry = self.inner.entry(tenant, id).await?;
        let inner = &self.inner;
        let known = inner.with(&entry, |state| {
            state.core.verify(producer)?;
            inner.may_open(state)?;
            Ok::<_, Failure>(state.core.has_partitions(partitions))
        })?;
        if known {
            return Ok(());
        }
        let entry = self.begin(tenant, entry, producer).await?;
        if let Some(rows) = stage::Rows::partitions(inner, &entry, producer, partitions) {
            inner.put(&entry, tenant, rows).await?;
        }
        let now = inner.now();
        inner.with(&entry, |state| {
            state.core.add_partitions(now, producer, partitions)
        })?;
        Ok(())
    }

    /// The marker says that a transaction begins, where that has to be said.
    async fn begin(
        &self,
        tenant: &Tenant,
        mut entry: Arc<Entry>,
        producer: Producer,
    ) -> Result<Arc<Entry>, Failure> {
        let inner = &self.inner;
        let deadline = inner.now() + PATIENCE;
        loop {
            let mut settled = entry.settled.subscribe();
            let now = inner.now();
            let (begun, begins) = inner.with(&entry, |state| {
                let begun = state.core.begin(now, producer);
                let writing = state.core.writing();
                let begins = writing.is_some_and(|write| write.kind == WriteKind::Open);
                (begun, begins)
            });
            match begun {
                Ok(None) => return Ok(entry),
                Ok(Some(write)) => match inner.carry_out(&entry, write).await? {
                    Settled::Done(_) => return Ok(entry),
                    Settled::Undone | Settled::Unknown => return Err(Failure::Pending),
                    // The marker is another one: who may write is read anew.
                    Settled::Fenced => {}
                },
                // Another request of the transaction is beginning it.
                Err(Refusal::ConcurrentTransactions) if begins => {
                    let left = deadline.saturating_since(inner.now());
                    match tokio::time::timeout(left, settled.changed()).await {
                        Ok(Ok(())) => {}
                        _ => return Err(Failure::Pending),
                    }
                }
                Err(refusal) => return Err(refusal.into()),
            }
            entry = inner.entry(tenant, &entry.key.id).await?;
        }
    }

    /// AddOffsetsToTxn.
    ///
    /// # Errors
    ///
    /// [`Failure`].
    pub async fn add_group(
        &self,
        tenant: &Tenant,
        id: &str,
        producer: Producer,
        group: &Arc<str>,
    ) -> Result<(), Failure> {
        let entry = self.inner.entry(tenant, id).await?;
        let inner = &self.inner;
        let known = inner.with(&entry, |state| {
            state.core.verify(producer)?;
            inner.may_open(state)?;
            Ok::<_, Failure>(state.core.has_group(group))
        })?;
        if known {
            return Ok(());
        }
        let entry = self.begin(tenant, entry, producer).await?;
        let number = entry.lock().core.number() + 1;
        let of = (producer, number);
        if let Some(rows) = stage::Rows::offsets(inner, &entry, of, group, &[]) {
            inner.put(&entry, tenant, rows).await?;
        }
        let now = inner.now();
        inner.with(&entry, |state| state.core.add_group(now, producer, group))?;
        Ok(())
    }

    /// TxnOffsetCommit, once the group has let it pass. With `implicit` the group is added by it.
    ///
    /// # Errors
    ///
    /// [`Failure`].
    pub async fn stage_offsets(
        &self,
        tenant: &Tenant,
        id: &str,
        producer: Producer,
        group: &Arc<str>,
        offsets: Vec<(Partition, StagedOffset)>,
        implicit: bool,
    ) -> Result<(), Failure> {
        let inner = &self.inner;
        if inner.ownership.is_shared() {
            return inner
                .stage_offsets_elsewhere(tenant, id, producer, group, &offsets)
                .await;
        }
        let entry = inner.entry(tenant, id).await?;
        let number = inner.with(&entry, |state| {
            let core = &state.core;
            core.may_stage_offsets(producer, group, &offsets, implicit)?;
            inner.may_open(state)?;
            Ok::<_, Failure>(state.core.number() + 1)
        })?;
        let of = (producer, number);
        if let Some(rows) = stage::Rows::offsets(inner, &entry, of, group, &offsets) {
            inner.put(&entry, tenant, rows).await?;
        }
        let now = inner.now();
        inner.with(&entry, |state| {
            let core = &mut state.core;
            core.stage_offsets(now, producer, group, offsets, implicit)
        })?;
        Ok(())
    }

    /// EndTxn. With `bump` (transactions 2) the answer is the producer with its epoch raised.
    ///
    /// # Errors
    ///
    /// [`Failure`]; `Pending` when the outcome is not known in time, and then it is carried on.
    pub async fn end(
        &self,
        tenant: &Tenant,
        id: &str,
        producer: Producer,
        decision: Ended,
        bump: bool,
    ) -> Result<Producer, Failure> {
        let inner = &self.inner;
        let deadline = inner.now() + PATIENCE;
        let mut fenced = 0;
        loop {
            // Other nodes may have staged parts of it: what this one remembers is not all.
            let entry = inner.entry_read(tenant, id, Depth::Stage).await?;
            let mut settled = entry.settled.subscribe();
            let fresh = self.fresh();
            let (step, same_on_its_way) = inner.with(&entry, |state| {
                let step = state.core.end(producer, decision, bump, fresh);
                let writing = state.core.writing();
                let same = writing.is_some_and(|write| write.marker.ended == decision);
                (step, same)
            });
            match step {
                Ok(Step::Answer(producer)) => return Ok(producer),
                Ok(Step::Write(write)) => {
                    return match inner.carry_out(&entry, write).await? {
                        Settled::Done(producer) => Ok(producer),
                        // Who wrote was another node, perhaps for this very producer: the marker
                        // says so.
                        Settled::Fenced if inner.ownership.is_shared() && fenced < CLAIMS => {
                            fenced += 1;
                            continue;
                        }
                        Settled::Fenced => Err(Refusal::ProducerFenced.into()),
                        Settled::Undone | Settled::Unknown => Err(Failure::Pending),
                    };
                }
                // The client asks again for what is being done: it shares the outcome.
                Err(Refusal::ConcurrentTransactions) if same_on_its_way => {
                    let left = deadline.saturating_since(inner.now());
                    match tokio::time::timeout(left, settled.changed()).await {
                        Ok(Ok(())) => {}
                        _ => return Err(Failure::Pending),
                    }
                }
                Err(refusal) => return Err(refusal.into()),
            }
        }
    }

    fn fresh(&self) -> ProducerId {
        new_producer_id(&*self.inner.entropy)
    }
}

impl Inner {
    fn now(&self) -> Monotonic {
        self.clock.monotonic()
    }

    fn lock(&self) -> MutexGuard<'_, BTreeMap<Key, Arc<Entry>>> {
        self.entries.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn durability(&self) -> Durability {
        match self.config.stage {
            TransactionStage::Memory => Durability::Process,
            TransactionStage::Queen => Durability::Stored,
        }
    }

    fn limits(&self) -> Limits {
        let (partitions, offsets) = match self.config.stage {
            TransactionStage::Memory => (MEMORY_PARTITIONS, MEMORY_OFFSETS),
            TransactionStage::Queen => (STORED_PLACES, STORED_PLACES),
        };
        Limits {
            partitions,
            offsets,
            bytes: self.config.max_bytes,
            records: self.config.max_records,
            max_timeout: self.config.max_timeout,
        }
    }

    /// Works on an entry, and keeps the counts of this process right.
    fn with<R>(self: &Arc<Self>, entry: &Entry, work: impl FnOnce(&mut State) -> R) -> R {
        let mut state = entry.lock();
        let before = state.core.is_open();
        let result = work(&mut state);
        let after = state.core.is_open();
        if state.core.content().is_none() {
            let freed: usize = state.held.drain(..).map(|held| held.bytes).sum();
            self.release(freed);
        }
        drop(state);
        match (before, after) {
            (false, true) => {
                let open = self.open.fetch_add(1, Ordering::Relaxed) + 1;
                self.metrics.open(open);
                self.sweep();
            }
            (true, false) => {
                let open = self.open.fetch_sub(1, Ordering::Relaxed) - 1;
                self.metrics.open(open);
            }
            _ => {}
        }
        result
    }

    fn release(&self, bytes: usize) {
        if bytes > 0 {
            let left = self.staged_bytes.fetch_sub(bytes, Ordering::Relaxed) - bytes;
            self.metrics.staged(left);
        }
    }

    /// Whether the process has room for another open transaction, should this be one.
    fn may_open(&self, state: &State) -> Result<(), Failure> {
        let full = self.open.load(Ordering::Relaxed) >= self.config.max_open;
        if full && !state.core.is_open() {
            self.metrics.refused.inc();
            return Err(Refusal::ConcurrentTransactions.into());
        }
        Ok(())
    }

    /// The entry of `id`, its marker read.
    async fn entry(self: &Arc<Self>, tenant: &Tenant, id: &str) -> Result<Arc<Entry>, Failure> {
        self.entry_read(tenant, id, Depth::Marker).await
    }

    /// The same, read anew to `depth` where other nodes write too.
    async fn entry_read(
        self: &Arc<Self>,
        tenant: &Tenant,
        id: &str,
        depth: Depth,
    ) -> Result<Arc<Entry>, Failure> {
        match self.ownership.standing(id) {
            Standing::Ours => {}
            Standing::Theirs => return Err(Failure::NotCoordinator),
            Standing::Unknown => return Err(Failure::NoCoordinator),
            Standing::Unserved => return Err(Failure::Unserved),
        }
        let Some(row) = marker::marker_key(id) else {
            return Err(Failure::IdTooLong);
        };
        let entry = self.find(tenant, id)?;
        if self.ownership.is_shared() {
            self.refresh(&entry, tenant, &row, depth).await?;
            return Ok(entry);
        }
        let now = self.now();
        let loaded = |state: &mut State| {
            state.used = now;
            state.credential = tenant.credential.clone();
            state.core.phase() != Phase::Unloaded
        };
        if loaded(&mut entry.lock()) {
            return Ok(entry);
        }
        let reading = entry.loading.lock().await;
        if !loaded(&mut entry.lock()) {
            let stored = self.read_marker(&tenant.credential, &row).await?;
            let recovered = match &stored {
                Some(stored) => self.recover(tenant, &entry.key.id, stored).await?,
                None => None,
            };
            let now = self.now();
            self.with(&entry, |state| state.load(now, stored, recovered));
        }
        drop(reading);
        Ok(entry)
    }

    fn find(&self, tenant: &Tenant, id: &str) -> Result<Arc<Entry>, Failure> {
        let key = Key {
            scope: tenant.scope.clone(),
            id: id.into(),
        };
        let now = self.now();
        let mut entries = self.lock();
        if let Some(entry) = entries.get(&key) {
            return Ok(Arc::clone(entry));
        }
        if self.shutdown.phase() != shutdown::Phase::Running {
            return Err(Failure::NoRoom);
        }
        if entries.len() >= MAX_IDS {
            // An entry that somebody works on stays: two for one id would know different things.
            entries.retain(|_, entry| {
                let state = entry.lock();
                Arc::strong_count(entry) > 1
                    || state.core.is_open()
                    || now.saturating_since(state.used) < KEEP
            });
            if entries.len() >= MAX_IDS {
                return Err(Failure::NoRoom);
            }
        }
        let settings = (self.limits(), self.durability(), self.incarnation);
        let entry = Arc::new(Entry::new(key.clone(), tenant, settings, now));
        entries.insert(key, Arc::clone(&entry));
        Ok(entry)
    }
}
