//! Writes, gathered: while one call of a scope is in flight, the next is collected from all its
//! groups and connections.
//!
//! One call at a time per scope keeps the order of writes to a key, whichever connection and
//! credential they came from; inside a call the newest value of a key wins. A call carries one
//! credential's writes: those of another wait for the next call, and so does everything of a group
//! behind them.
//!
//! No write is unconditional ([`super::versions`], in a cluster [`super::fence`]): Queen may apply a
//! call after its answer was given up, even after the next call, and must then leave alone what that
//! one wrote.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use host::Clock;
use host::metrics::{Counter, Registry};
use host::shutdown::Shutdown;
use indexmap::IndexMap;

use super::Store;
use super::commit::{Commit, Receipt, WriteError};
use super::fence::{Fences, Fencing, Lost};
use super::pace::Pace;
use super::queue::{Entry, Gathered, Heard, IndexChange, Queue, Write, asked, halve};
use crate::queen::kv::{Outcome, Row};
use crate::queen::{Class, Credential, Error, Scope};

/// Just below the 100 writing calls a second that Queen grants a tenant, to leave some for others.
const CALL_INTERVAL: Duration = Duration::from_millis(11);
/// Below Queen's burst of 200.
const CALL_BURST: u32 = 100;
/// How often a row is written over another writer's before its client is told to come again.
const MAX_TRIES: u32 = 8;
/// Longest pause after a 429; clients wait meanwhile.
const MAX_PAUSE: Duration = Duration::from_secs(5);

#[derive(Debug)]
pub(super) struct Writer {
    store: Arc<dyn Store>,
    clock: Arc<dyn Clock>,
    shutdown: Shutdown,
    lanes: Mutex<BTreeMap<Scope, Arc<Lane>>>,
    fencing: Option<Arc<dyn Fencing>>,
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

impl Writer {
    pub(super) fn new(
        store: Arc<dyn Store>,
        clock: Arc<dyn Clock>,
        shutdown: Shutdown,
        registry: &Registry,
        fencing: Option<Arc<dyn Fencing>>,
    ) -> Self {
        Self {
            fencing,
            store,
            clock,
            shutdown,
            lanes: Mutex::default(),
            metrics: Metrics {
                calls: registry.counter(
                    "offset_write_calls_total",
                    "Calls to Queen that wrote committed offsets",
                    &[],
                ),
                writes: registry.counter(
                    "offset_writes_total",
                    "Changes of committed offsets that clients asked for",
                    &[],
                ),
                refused: registry.counter(
                    "offset_writes_refused_total",
                    "Changes of committed offsets refused because too many wait",
                    &[],
                ),
            },
        }
    }

    pub(super) fn submit(self: &Arc<Self>, commit: Commit) -> Receipt {
        let changes = commit.changes.len();
        let (receipt, reply) = Receipt::new(changes);
        if changes == 0 {
            return receipt;
        }
        let lane = self.lane(&commit.tenant.scope);
        let mut queue = lane.lock();
        if queue.push(commit, &reply).is_err() {
            drop(queue);
            self.metrics.refused.add(changes as u64);
            for slot in 0..changes {
                reply.judge(slot, Err(WriteError::Busy));
            }
            return receipt;
        }
        self.metrics.writes.add(changes as u64);
        self.start(&lane, queue);
        receipt
    }

    /// Changes the index row of the group of `commit` (whose own changes are not looked at), behind
    /// everything queued for its scope before.
    pub(super) fn submit_index(self: &Arc<Self>, commit: Commit, index: IndexChange) -> Receipt {
        let (receipt, reply) = Receipt::new(1);
        let lane = self.lane(&commit.tenant.scope);
        let mut queue = lane.lock();
        if queue.push_index(commit, index, &reply) {
            self.start(&lane, queue);
        } else {
            drop(queue);
            reply.judge(0, Err(WriteError::Busy));
        }
        receipt
    }

    /// Sees to it that what waits is written.
    fn start(self: &Arc<Self>, lane: &Arc<Lane>, mut queue: MutexGuard<'_, Queue>) {
        if queue.running {
            return;
        }
        queue.running = true;
        drop(queue);
        let (writer, lane) = (Arc::clone(self), Arc::clone(lane));
        // A drain waits for what was accepted.
        let guard = self.shutdown.guard();
        tokio::spawn(async move {
            writer.run(&lane).await;
            drop(guard);
        });
    }

    fn lane(&self, scope: &Scope) -> Arc<Lane> {
        let mut lanes = self.lanes.lock().unwrap_or_else(PoisonError::into_inner);
        let lane = lanes.entry(scope.clone()).or_insert_with(|| {
            Arc::new(Lane {
                pace: Pace::new(CALL_INTERVAL, CALL_BURST),
                queue: Mutex::new(Queue::new(self.fencing.clone().map(Fences::new))),
            })
        });
        Arc::clone(lane)
    }

    /// Writes until nothing waits.
    async fn run(&self, lane: &Lane) {
        loop {
            {
                let mut queue = lane.lock();
                if queue.is_empty() {
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
    /// hears of it: each row stands alone. Rows that were not as expected are written again over what
    /// is there. A call that lost a fence is repeated, without the rows of that group when the group
    /// is another node's.
    async fn write(&self, lane: &Lane, gathered: Gathered) {
        let credential = gathered.credential;
        let mut parts = vec![(gathered.entries, 0)];
        let mut contended: BTreeSet<Arc<str>> = BTreeSet::new();
        while let Some((mut entries, tries)) = parts.pop() {
            if tries > 0 {
                lane.pace.turn(&*self.clock).await;
            }
            self.metrics.calls.inc();
            let built = lane.lock().batch(&entries);
            let outcome = match built {
                Ok(batch) => self.store.run(&credential, &batch).await,
                Err(error) => Err(error),
            };
            match outcome {
                Ok(Outcome::Done(results)) => {
                    let mut results = results.into_iter();
                    let (mut beaten, mut unseen) = (IndexMap::new(), Vec::new());
                    for (key, entry) in entries {
                        let heard = lane.lock().heard(&key, &entry, results.next());
                        match heard {
                            Heard::Written => lane.judge(entry, Ok(())),
                            Heard::Neither => lane.judge(entry, Err(WriteError::NotApplied)),
                            Heard::Beaten { .. } if tries + 1 == MAX_TRIES => {
                                lane.judge(entry, Err(WriteError::Contended));
                            }
                            Heard::Beaten { by_unseen } => {
                                unseen.extend(by_unseen.then(|| key.clone()));
                                beaten.insert(key, entry);
                            }
                        }
                    }
                    match self.look(lane, &credential, &unseen).await {
                        Ok(()) if beaten.is_empty() => {}
                        Ok(()) => parts.push((beaten, tries + 1)),
                        Err(error) => {
                            lane.settle(beaten, &Err(WriteError::Queen(error)));
                        }
                    }
                }
                Ok(Outcome::Precondition(lost)) => {
                    let fence = lost.operation.and_then(|at| entries.get_index(at));
                    let Some((_, fence)) = fence else {
                        lane.settle(entries, &Err(WriteError::NotApplied));
                        continue;
                    };
                    let group = Arc::clone(&fence.group);
                    let again = !contended.insert(Arc::clone(&group));
                    let verdict = match &mut lane.lock().fences {
                        Some(fences) => fences.lost(&group, &lost.winner, again),
                        None => Lost::Contended,
                    };
                    let error = match verdict {
                        Lost::Again => None,
                        Lost::Theirs => Some(WriteError::NotOwner),
                        Lost::Contended => Some(WriteError::Contended),
                    };
                    if let Some(error) = error {
                        let of_group = |entry: &Entry| entry.group == group;
                        let (refused, rest) =
                            entries.into_iter().partition(|(_, entry)| of_group(entry));
                        lane.settle(refused, &Err(error));
                        entries = rest;
                    }
                    if !entries.is_empty() {
                        parts.push((entries, tries + 1));
                    }
                }
                Err(error) => {
                    let blames_content = matches!(error.class(), Class::Rejected | Class::TooLarge);
                    if blames_content && asked(&entries) > 1 {
                        let second = halve(&mut entries);
                        parts.extend([(second, tries), (entries, tries)]);
                        continue;
                    }
                    if error.class() == Class::Throttled {
                        let pause = error.retry_after().unwrap_or(MAX_PAUSE).min(MAX_PAUSE);
                        lane.pace.pause(&*self.clock, pause);
                    }
                    lane.settle(entries, &Err(WriteError::Queen(error)));
                }
            }
        }
    }

    /// Reads the rows that won without being told.
    async fn look(
        &self,
        lane: &Lane,
        credential: &Credential,
        keys: &[String],
    ) -> Result<(), Error> {
        if keys.is_empty() {
            return Ok(());
        }
        let readout = self.store.read(credential, keys).await?;
        let versions = &mut lane.lock().versions;
        for key in keys {
            versions.forget(key);
        }
        for row in &readout.rows {
            versions.hold(&row.key, row.version);
        }
        Ok(())
    }

    /// Notes the versions of rows that were read.
    pub(super) fn seen(&self, scope: &Scope, rows: &[Row]) {
        if self.fencing.is_some() || rows.is_empty() {
            return;
        }
        let lane = self.lane(scope);
        let versions = &mut lane.lock().versions;
        for row in rows {
            versions.seen(&row.key, row.version);
        }
    }
}

impl Lane {
    fn lock(&self) -> MutexGuard<'_, Queue> {
        self.queue.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Tells everybody who waits for these rows.
    fn settle(&self, entries: IndexMap<String, Entry>, verdict: &Result<(), WriteError>) {
        for (_, entry) in entries {
            self.judge(entry, verdict.clone());
        }
    }

    /// Tells everybody who waits for a row.
    fn judge(&self, entry: Entry, verdict: Result<(), WriteError>) {
        for (reply, slot) in entry.waiting {
            reply.judge(slot, verdict.clone());
        }
        if let (Write::Index(_), Ok(())) = (entry.write, verdict) {
            self.lock().indexed(entry.group);
        }
    }
}
