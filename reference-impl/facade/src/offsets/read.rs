//! Reads, gathered: hundreds of members that fetch their offsets after a rebalance share calls.

use std::collections::{BTreeMap, VecDeque};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use host::Clock;
use host::metrics::{Counter, Registry};
use tokio::sync::oneshot;

use super::keys::{OffsetKey, group_prefix, parse};
use super::pace::Pace;
use super::rows::OffsetRow;
use super::unfolded::{self, Folds, Merged};
use super::write::Writer;
use super::{Offsets, Store, Tenant};
use crate::queen::kv::{MAX_KEYS_BEHIND, Row};
use crate::queen::{Credential, Error, Scope};

/// Calls of one scope in flight: enough that a slow one does not hold up the rest.
const MAX_IN_FLIGHT: usize = 4;
/// Keys that may wait in one scope; more are refused.
const MAX_WAITING_KEYS: usize = 262_144;
/// Just below the 200 reading calls a second that Queen grants a tenant.
const CALL_INTERVAL: Duration = Duration::from_micros(5500);
/// Below Queen's burst of 400.
const CALL_BURST: u32 = 200;
/// Pages of a whole group: 256,000 offsets.
const MAX_GROUP_PAGES: usize = 256;

/// A committed offset, as read.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Offset {
    /// There is one.
    Committed(OffsetRow),
    /// There is none.
    Absent,
    /// It could not be told: never to be answered as absent.
    Unread,
}

/// Every offset of a group.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct AllOffsets {
    /// By topic and partition.
    pub topics: BTreeMap<String, BTreeMap<i32, OffsetRow>>,
    /// There are more than are read.
    pub cut: bool,
}

/// Why offsets were not read.
#[derive(Clone, Debug, thiserror::Error)]
pub enum ReadError {
    /// Too many reads wait already.
    #[error("too many offset reads wait for Queen")]
    Busy,
    /// A call failed.
    #[error(transparent)]
    Queen(#[from] Error),
}

#[derive(Debug)]
pub(super) struct Reader {
    store: Arc<dyn Store>,
    clock: Arc<dyn Clock>,
    folds: Arc<Folds>,
    writer: Arc<Writer>,
    lanes: Mutex<BTreeMap<Scope, Arc<Lane>>>,
    calls: Counter,
}

#[derive(Debug)]
struct Lane {
    pace: Pace,
    queue: Mutex<Queue>,
}

#[derive(Debug, Default)]
struct Queue {
    jobs: VecDeque<Job>,
    keys: usize,
    in_flight: usize,
}

#[derive(Debug)]
struct Job {
    scope: Scope,
    credential: Credential,
    keys: Vec<String>,
    reply: oneshot::Sender<Result<Vec<Offset>, ReadError>>,
}

impl Offsets {
    /// The committed offsets of these keys, in order.
    ///
    /// # Errors
    ///
    /// [`ReadError`]: nothing is known of any of them.
    pub async fn read(
        &self,
        tenant: &Tenant,
        keys: Vec<OffsetKey>,
    ) -> Result<Vec<Offset>, ReadError> {
        self.reader.read(tenant, keys).await
    }

    /// Every committed offset of a group. Rows that can't be read as offsets are left out and
    /// logged.
    ///
    /// # Errors
    ///
    /// [`ReadError::Queen`].
    pub async fn read_all(&self, tenant: &Tenant, group: &str) -> Result<AllOffsets, ReadError> {
        let prefix = group_prefix(group);
        self.reader
            .lane(&tenant.scope)
            .pace
            .turn(&*self.clock)
            .await;
        self.reader.calls.inc();
        let waiting = self
            .store
            .scan(
                &tenant.credential,
                &unfolded::prefix(group),
                false,
                unfolded::MAX_PAGES,
            )
            .await?;
        let scan = self
            .store
            .scan(&tenant.credential, &prefix, false, MAX_GROUP_PAGES)
            .await?;
        let merged = Merged::of(&waiting.rows);
        self.reader.fold(tenant, &merged);
        let mut all = AllOffsets {
            cut: scan.cut || waiting.cut,
            ..AllOffsets::default()
        };
        for row in &scan.rows {
            let Some((topic, partition)) = parse(&prefix, &row.key) else {
                continue;
            };
            match offset_row(row) {
                Some(offset) => {
                    let partitions = all.topics.entry(topic).or_default();
                    partitions.insert(partition, offset);
                }
                // Left out it would look as if it had never been committed.
                None => all.cut = true,
            }
        }
        for (key, _) in merged.iter() {
            let Some((topic, partition)) = parse(&prefix, key) else {
                continue;
            };
            let partitions = all.topics.entry(topic).or_default();
            if let Some(row) = merged.over(key, partitions.remove(&partition)) {
                partitions.insert(partition, row);
            }
        }
        Ok(all)
    }
}

fn offset_row(row: &Row) -> Option<OffsetRow> {
    row.value()
        .inspect_err(|error| {
            tracing::warn!(key = ?row.key, %error, "a committed offset is not readable");
        })
        .ok()
}

impl Reader {
    pub(super) fn new(
        store: Arc<dyn Store>,
        clock: Arc<dyn Clock>,
        folds: Arc<Folds>,
        writer: Arc<Writer>,
        registry: &Registry,
    ) -> Self {
        Self {
            store,
            clock,
            folds,
            writer,
            lanes: Mutex::default(),
            calls: registry.counter(
                "offset_read_calls_total",
                "Calls to Queen that read committed offsets",
                &[],
            ),
        }
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

    async fn read(
        self: &Arc<Self>,
        tenant: &Tenant,
        keys: Vec<OffsetKey>,
    ) -> Result<Vec<Offset>, ReadError> {
        if keys.is_empty() {
            return Ok(Vec::new());
        }
        let (reply, answer) = oneshot::channel();
        let lane = self.lane(&tenant.scope);
        {
            let mut queue = lane.lock();
            if queue.keys + keys.len() > MAX_WAITING_KEYS {
                return Err(ReadError::Busy);
            }
            queue.keys += keys.len();
            queue.jobs.push_back(Job {
                scope: tenant.scope.clone(),
                credential: tenant.credential.clone(),
                keys: keys.into_iter().map(OffsetKey::into_string).collect(),
                reply,
            });
            if queue.in_flight < MAX_IN_FLIGHT {
                queue.in_flight += 1;
                let reader = Arc::clone(self);
                let lane = Arc::clone(&lane);
                tokio::spawn(async move { reader.run(&lane).await });
            }
        }
        // The task is gone only with its runtime.
        answer.await.unwrap_or(Err(ReadError::Busy))
    }

    /// Folds what was found waiting: who left it there may be gone.
    fn fold(self: &Arc<Self>, tenant: &Tenant, merged: &Merged) {
        for group in &merged.groups {
            if !self.folds.mark(&tenant.scope, group) {
                continue;
            }
            let (reader, tenant, group) = (Arc::clone(self), tenant.clone(), group.clone());
            tokio::spawn(async move {
                let folded = reader.folds.fold(&*reader.store, &tenant, &group).await;
                if let Err(error) = folded {
                    tracing::warn!(group, %error, "offsets of a transaction are not folded yet");
                }
            });
        }
    }

    /// Reads until nothing waits.
    async fn run(self: &Arc<Self>, lane: &Lane) {
        loop {
            {
                let mut queue = lane.lock();
                if queue.jobs.is_empty() {
                    queue.in_flight -= 1;
                    return;
                }
            }
            lane.pace.turn(&*self.clock).await;
            let jobs = lane.lock().gather();
            self.answer(jobs).await;
        }
    }

    async fn answer(self: &Arc<Self>, jobs: Vec<Job>) {
        let Some(first) = jobs.first() else {
            return;
        };
        self.calls.inc();
        let keys: Vec<String> = jobs
            .iter()
            .flat_map(|job| job.keys.iter().cloned())
            .collect();
        let read = self
            .store
            .read_behind(&first.credential, unfolded::PREFIX, &keys)
            .await;
        match read {
            Ok((waiting, readout)) => {
                let merged = Merged::of(&waiting.rows);
                self.fold(&first.tenant(), &merged);
                // Who reads an offset commits it next.
                self.writer.seen(&first.scope, &readout.rows);
                let mut found: BTreeMap<String, Offset> = readout
                    .rows
                    .iter()
                    .map(|row| {
                        let offset = offset_row(row)
                            .and_then(|offset| merged.over(&row.key, Some(offset)))
                            .map_or(Offset::Unread, Offset::Committed);
                        (row.key.clone(), offset)
                    })
                    .collect();
                for (key, offset) in merged.iter() {
                    found
                        .entry(key.to_owned())
                        .or_insert_with(|| Offset::Committed(offset.clone()));
                }
                if waiting.cut {
                    // What wasn't seen may be younger.
                    found = keys
                        .iter()
                        .map(|key| (key.clone(), Offset::Unread))
                        .collect();
                }
                found.extend(readout.unread.into_iter().map(|key| (key, Offset::Unread)));
                for job in jobs {
                    let offset = |key: &String| found.get(key).cloned().unwrap_or(Offset::Absent);
                    // Nobody listens when the client is gone.
                    let _ = job.reply.send(Ok(job.keys.iter().map(offset).collect()));
                }
            }
            Err(error) => {
                for job in jobs {
                    let _ = job.reply.send(Err(ReadError::Queen(error.clone())));
                }
            }
        }
    }
}

impl Job {
    fn tenant(&self) -> Tenant {
        Tenant {
            scope: self.scope.clone(),
            credential: self.credential.clone(),
        }
    }
}

impl Lane {
    fn lock(&self) -> MutexGuard<'_, Queue> {
        self.queue.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Queue {
    /// The first job, and those of its credential that fit into the same call.
    fn gather(&mut self) -> Vec<Job> {
        let mut taken: Vec<Job> = Vec::new();
        let mut left = VecDeque::new();
        let mut keys = 0;
        while let Some(job) = self.jobs.pop_front() {
            let first = taken.first();
            let of_others = first.is_some_and(|first| first.credential != job.credential);
            if of_others || (first.is_some() && keys + job.keys.len() > MAX_KEYS_BEHIND) {
                left.push_back(job);
            } else if !job.reply.is_closed() {
                keys += job.keys.len();
                self.keys -= job.keys.len();
                taken.push(job);
            } else {
                self.keys -= job.keys.len();
            }
        }
        self.jobs = left;
        taken
    }
}
