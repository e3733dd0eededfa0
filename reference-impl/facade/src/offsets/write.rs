//! Writes, gathered: while one call of a scope is in flight, the next is collected from all its
//! groups and connections.
//!
//! One call at a time per scope keeps the order of writes to a key, whichever connection and
//! credential they came from; inside a call the newest value of a key wins. A call carries one
//! credential's writes: those of another wait for the next call, and so does everything of a group
//! behind them.

use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use host::Clock;
use host::metrics::{Counter, Registry};
use host::shutdown::Shutdown;
use indexmap::{IndexMap, IndexSet};
use tokio::sync::oneshot;

use super::keys::{OffsetKey, index_key};
use super::pace::Pace;
use super::rows::{IndexRow, OffsetRow};
use super::{Store, Tenant};
use crate::queen::kv::{Batch, Expect, MAX_OPERATIONS, OnLoss, OpResult, Outcome};
use crate::queen::{Class, Credential, Error, Scope};

/// Writes that may wait in one scope; more are refused.
const MAX_WAITING_WRITES: usize = 65_536;
/// Bytes of metadata that may wait in one scope.
const MAX_WAITING_BYTES: usize = 32 << 20;
/// Groups whose index row is known to be written; the oldest are written again when they commit.
const MAX_INDEXED: usize = 10_000;
/// Just below the 100 writing calls a second that Queen grants a tenant, to leave some for others.
const CALL_INTERVAL: Duration = Duration::from_millis(11);
/// Below Queen's burst of 200.
const CALL_BURST: u32 = 100;
/// Longest pause after a 429; clients wait meanwhile.
const MAX_PAUSE: Duration = Duration::from_secs(5);

/// What to do with one offset row.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Change {
    /// Store it, whatever was there.
    Put(OffsetRow),
    /// Delete it; deleting nothing succeeds.
    Delete,
}

/// The offsets that one request changes. Each key once: of several the last counts for all.
#[derive(Clone, Debug)]
pub struct Commit {
    /// Whose.
    pub tenant: Tenant,
    /// The group.
    pub group: Arc<str>,
    /// What its index row says, should it have none yet.
    pub protocol_type: Arc<str>,
    /// The rows.
    pub changes: Vec<(OffsetKey, Change)>,
}

/// Why a row was not changed.
#[derive(Clone, Debug, thiserror::Error)]
pub enum WriteError {
    /// Too much waits already. Nothing was queued.
    #[error("too many offset writes wait for Queen")]
    Busy,
    /// The call with it failed; the row may have been changed when that is not known.
    #[error(transparent)]
    Queen(#[from] Error),
    /// Queen did not apply a write that has no condition.
    #[error("Queen did not apply an unconditional write")]
    NotApplied,
}

/// One verdict for each change, in order. `Ok` means durable.
pub type Verdicts = Vec<Result<(), WriteError>>;

/// Comes in when every change of a commit is judged.
#[derive(Debug)]
pub struct Receipt {
    changes: usize,
    verdicts: oneshot::Receiver<Verdicts>,
}

impl Receipt {
    /// Waits for the verdicts. Dropping the future does not take the writes back.
    pub async fn verdicts(self) -> Verdicts {
        match self.verdicts.await {
            Ok(verdicts) => verdicts,
            // The task that writes is gone with its runtime.
            Err(_) => vec![Err(WriteError::Busy); self.changes],
        }
    }
}

#[derive(Debug)]
pub(super) struct Writer {
    store: Arc<dyn Store>,
    clock: Arc<dyn Clock>,
    shutdown: Shutdown,
    lanes: Mutex<BTreeMap<Scope, Arc<Lane>>>,
    metrics: Metrics,
}

#[derive(Debug)]
struct Metrics {
    calls: Counter,
    writes: Counter,
    refused: Counter,
}

/// The writes of one scope.
#[derive(Debug)]
struct Lane {
    pace: Pace,
    queue: Mutex<Queue>,
}

#[derive(Debug, Default)]
struct Queue {
    jobs: VecDeque<Job>,
    writes: usize,
    bytes: usize,
    running: bool,
    indexed: IndexSet<Arc<str>>,
}

#[derive(Debug)]
struct Job {
    credential: Credential,
    group: Arc<str>,
    protocol_type: Arc<str>,
    changes: std::vec::IntoIter<(OffsetKey, Change)>,
    /// How many changes were taken into calls.
    taken: usize,
    reply: Arc<Reply>,
}

/// Collects the verdicts of one job; answers when the last one is in.
#[derive(Debug)]
struct Reply {
    state: Mutex<ReplyState>,
}

#[derive(Debug)]
struct ReplyState {
    verdicts: Vec<Option<Result<(), WriteError>>>,
    missing: usize,
    sender: Option<oneshot::Sender<Verdicts>>,
}

impl Reply {
    fn new(changes: usize, sender: oneshot::Sender<Verdicts>) -> Arc<Self> {
        Arc::new(Self {
            state: Mutex::new(ReplyState {
                verdicts: vec![None; changes],
                missing: changes,
                sender: Some(sender),
            }),
        })
    }

    fn judge(&self, slot: usize, verdict: Result<(), WriteError>) {
        let mut state = self.state.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(place @ None) = state.verdicts.get_mut(slot) {
            *place = Some(verdict);
            state.missing -= 1;
        }
        if state.missing == 0
            && let Some(sender) = state.sender.take()
        {
            let verdicts = std::mem::take(&mut state.verdicts);
            // Nobody listens when the client is gone; the row is written all the same.
            let _ = sender.send(verdicts.into_iter().flatten().collect());
        }
    }
}

/// One row of a call and who waits for it.
#[derive(Debug)]
struct Entry {
    write: Write,
    waiting: Vec<(Arc<Reply>, usize)>,
}

#[derive(Debug)]
enum Write {
    Offset(Change),
    Index(IndexRow, Arc<str>),
}

/// What goes into one call.
#[derive(Debug)]
struct Gathered {
    credential: Credential,
    entries: IndexMap<String, Entry>,
}

impl Writer {
    pub(super) fn new(
        store: Arc<dyn Store>,
        clock: Arc<dyn Clock>,
        shutdown: Shutdown,
        registry: &Registry,
    ) -> Self {
        Self {
            store,
            clock,
            shutdown,
            lanes: Mutex::default(),
            metrics: Metrics {
                calls: registry.counter(
                    "kastellan_offset_write_calls_total",
                    "Calls to Queen that wrote committed offsets",
                    &[],
                ),
                writes: registry.counter(
                    "kastellan_offset_writes_total",
                    "Changes of committed offsets that clients asked for",
                    &[],
                ),
                refused: registry.counter(
                    "kastellan_offset_writes_refused_total",
                    "Changes of committed offsets refused because too many wait",
                    &[],
                ),
            },
        }
    }

    pub(super) fn submit(self: &Arc<Self>, commit: Commit) -> Receipt {
        let changes = commit.changes.len();
        let (sender, verdicts) = oneshot::channel();
        let receipt = Receipt { changes, verdicts };
        if changes == 0 {
            // The receiver is in the receipt.
            let _ = sender.send(Vec::new());
            return receipt;
        }
        let reply = Reply::new(changes, sender);
        let bytes: usize = commit.changes.iter().map(cost).sum();
        let lane = self.lane(&commit.tenant.scope);
        let mut queue = lane.lock();
        if queue.writes + changes > MAX_WAITING_WRITES || queue.bytes + bytes > MAX_WAITING_BYTES {
            drop(queue);
            self.metrics.refused.add(changes as u64);
            for slot in 0..changes {
                reply.judge(slot, Err(WriteError::Busy));
            }
            return receipt;
        }
        self.metrics.writes.add(changes as u64);
        queue.writes += changes;
        queue.bytes += bytes;
        queue.jobs.push_back(Job {
            credential: commit.tenant.credential,
            group: commit.group,
            protocol_type: commit.protocol_type,
            changes: commit.changes.into_iter(),
            taken: 0,
            reply,
        });
        if !queue.running {
            queue.running = true;
            drop(queue);
            let writer = Arc::clone(self);
            tokio::spawn(async move { writer.run(&lane).await });
        }
        receipt
    }

    /// The next commit of `group` writes its index row again.
    pub(super) fn forget_group(&self, scope: &Scope, group: &str) {
        self.lane(scope).lock().indexed.swap_remove(group);
    }

    fn lane(&self, scope: &Scope) -> Arc<Lane> {
        let mut lanes = self.lanes.lock().unwrap_or_else(PoisonError::into_inner);
        let lane = lanes.entry(scope.clone()).or_insert_with(|| {
            Arc::new(Lane {
                pace: Pace::new(CALL_INTERVAL, CALL_BURST),
                queue: Mutex::default(),
            })
        });
        Arc::clone(lane)
    }

    /// Writes until nothing waits.
    async fn run(&self, lane: &Lane) {
        // A drain waits for what was accepted.
        let _guard = self.shutdown.guard();
        loop {
            {
                let mut queue = lane.lock();
                if queue.jobs.is_empty() {
                    queue.running = false;
                    return;
                }
            }
            lane.pace.turn(&*self.clock).await;
            let gathered = lane.lock().gather(self.clock.wall().epoch_ms());
            if let Some(gathered) = gathered {
                self.write(lane, gathered).await;
            }
        }
    }

    /// Writes one call's worth. A call refused for what is in it is halved until only the offender
    /// hears of it: each row stands alone.
    async fn write(&self, lane: &Lane, gathered: Gathered) {
        let credential = gathered.credential;
        let mut parts = vec![gathered.entries];
        while let Some(mut entries) = parts.pop() {
            self.metrics.calls.inc();
            let outcome = match batch(&entries) {
                Ok(batch) => self.store.run(&credential, &batch).await,
                Err(error) => Err(error),
            };
            match outcome {
                Ok(Outcome::Done(results)) => {
                    let mut results = results.into_iter();
                    lane.settle(entries, |entry| match (&entry.write, results.next()) {
                        (_, Some(OpResult::Applied(_)))
                        | (Write::Offset(Change::Delete), Some(OpResult::Lost(..))) => Ok(()),
                        _ => Err(WriteError::NotApplied),
                    });
                }
                Ok(Outcome::Precondition(_)) => {
                    lane.settle(entries, |_| Err(WriteError::NotApplied));
                }
                Err(error) => {
                    let blames_content = matches!(error.class(), Class::Rejected | Class::TooLarge);
                    if blames_content && entries.len() > 1 {
                        let second = entries.split_off(entries.len() / 2);
                        parts.extend([second, entries]);
                        continue;
                    }
                    if error.class() == Class::Throttled {
                        let pause = error.retry_after().unwrap_or(MAX_PAUSE).min(MAX_PAUSE);
                        lane.pace.pause(&*self.clock, pause);
                    }
                    lane.settle(entries, |_| Err(WriteError::Queen(error.clone())));
                }
            }
        }
    }
}

impl Lane {
    fn lock(&self) -> MutexGuard<'_, Queue> {
        self.queue.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Tells everybody who waits for these rows.
    fn settle(
        &self,
        entries: IndexMap<String, Entry>,
        mut judge: impl FnMut(&Entry) -> Result<(), WriteError>,
    ) {
        for (_, entry) in entries {
            let verdict = judge(&entry);
            for (reply, slot) in entry.waiting {
                reply.judge(slot, verdict.clone());
            }
            if let (Write::Index(_, group), Ok(())) = (entry.write, verdict) {
                let mut queue = self.lock();
                if queue.indexed.len() >= MAX_INDEXED {
                    queue.indexed.swap_remove_index(0);
                }
                queue.indexed.insert(group);
            }
        }
    }
}

impl Queue {
    /// Takes the next call's rows: in order, of the first job's credential, until the call is full.
    fn gather(&mut self, now_ms: i64) -> Option<Gathered> {
        let credential = self.jobs.front()?.credential.clone();
        let mut entries: IndexMap<String, Entry> = IndexMap::new();
        let mut held_back: BTreeSet<Arc<str>> = BTreeSet::new();
        let mut left = VecDeque::new();
        while let Some(mut job) = self.jobs.pop_front() {
            if job.credential != credential || held_back.contains(&job.group) {
                held_back.insert(Arc::clone(&job.group));
                left.push_back(job);
                continue;
            }
            if !self.take(&mut job, &mut entries, now_ms) {
                left.push_back(job);
                break;
            }
        }
        left.append(&mut self.jobs);
        self.jobs = left;
        Some(Gathered {
            credential,
            entries,
        })
    }

    /// Moves the changes of `job` into `entries`; false when they are full before its end.
    fn take(&mut self, job: &mut Job, entries: &mut IndexMap<String, Entry>, now_ms: i64) -> bool {
        let puts = job.changes.as_slice().iter().any(|(_, change)| matches!(change, Change::Put(_)));
        if puts && !self.indexed.contains(&job.group) {
            let key = index_key(&job.group);
            if !entries.contains_key(&key) {
                // Room for the index row and at least one offset.
                if entries.len() + 2 > MAX_OPERATIONS {
                    return false;
                }
                let row = IndexRow {
                    pt: job.protocol_type.as_ref().to_owned(),
                    ts: now_ms,
                };
                let write = Write::Index(row, Arc::clone(&job.group));
                let waiting = Vec::new();
                entries.insert(key, Entry { write, waiting });
            }
        }
        while let Some(next) = job.changes.as_slice().first() {
            if entries.len() >= MAX_OPERATIONS && !entries.contains_key(next.0.as_str()) {
                return false;
            }
            let Some((key, change)) = job.changes.next() else {
                return true;
            };
            self.writes -= 1;
            self.bytes -= cost_of(&key, &change);
            let waiter = (Arc::clone(&job.reply), job.taken);
            job.taken += 1;
            let entry = entries.entry(key.into_string()).or_insert_with(|| Entry {
                write: Write::Offset(Change::Delete),
                waiting: Vec::new(),
            });
            entry.write = Write::Offset(change);
            entry.waiting.push(waiter);
        }
        true
    }
}

fn batch(entries: &IndexMap<String, Entry>) -> Result<Batch, Error> {
    let mut batch = Batch::new();
    for (key, entry) in entries {
        let added = match &entry.write {
            Write::Offset(Change::Put(row)) => batch.put_forever(key, row),
            Write::Offset(Change::Delete) => batch.delete(key, Expect::Any, OnLoss::Skip),
            Write::Index(row, _) => batch.put_forever(key, row),
        };
        added.map_err(|_| Error::Unsendable("an offset row that Queen would refuse"))?;
    }
    Ok(batch)
}

fn cost((key, change): &(OffsetKey, Change)) -> usize {
    cost_of(key, change)
}

fn cost_of(key: &OffsetKey, change: &Change) -> usize {
    let metadata = match change {
        Change::Put(row) => row.metadata.as_ref().map_or(0, String::len),
        Change::Delete => 0,
    };
    key.as_str().len() + metadata
}
