//! What waits to be written, and how the next call is gathered from it.

use std::collections::{BTreeSet, VecDeque};
use std::sync::Arc;

use indexmap::{IndexMap, IndexSet};

use super::commit::{Change, Commit, Reply};
use super::fence::{FenceRow, Fences, fence_key};
use super::keys::{OffsetKey, index_key};
use super::rows::{IndexRow, OffsetRow};
use super::versions::Versions;
use crate::queen::kv::{Batch, Expect, Expiry, Loss, MAX_OPERATIONS, OnLoss, OpResult, Winner};
use crate::queen::{Credential, Error};

/// Writes that may wait in one scope; more are refused.
const MAX_WAITING_WRITES: usize = 65_536;
/// Bytes of keys and metadata that may wait in one scope.
const MAX_WAITING_BYTES: usize = 32 << 20;
/// Groups whose index row is known to be written; one of them is written again when there are more.
const MAX_INDEXED: usize = 10_000;

/// The writes of one scope that wait.
#[derive(Debug, Default)]
pub(super) struct Queue {
    jobs: VecDeque<Job>,
    writes: usize,
    bytes: usize,
    /// Whether a task writes what waits.
    pub(super) running: bool,
    indexed: IndexSet<Arc<str>>,
    /// In a cluster only: there they are what every write is conditional on.
    pub(super) fences: Option<Fences>,
    /// Elsewhere these are.
    pub(super) versions: Versions,
}

#[derive(Debug)]
struct Job {
    credential: Credential,
    group: Arc<str>,
    protocol_type: Arc<str>,
    changes: std::vec::IntoIter<(OffsetKey, Change)>,
    /// In place of changes: what becomes of the group's index row.
    index: Option<IndexChange>,
    /// How many changes were taken into calls.
    taken: usize,
    reply: Arc<Reply>,
}

/// What becomes of a group's index row.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum IndexChange {
    /// It is written.
    Put,
    /// It is deleted; a commit behind it writes it again.
    Delete,
}

/// One row of a call and who waits for it.
#[derive(Debug)]
pub(super) struct Entry {
    pub(super) group: Arc<str>,
    pub(super) write: Write,
    pub(super) waiting: Vec<(Arc<Reply>, usize)>,
}

#[derive(Debug)]
pub(super) enum Write {
    Offset(Change),
    Index(IndexRow),
    Unindex,
    /// Rolls the call back when it is lost.
    Fence(FenceRow),
}

/// What goes into one call.
#[derive(Debug)]
pub(super) struct Gathered {
    pub(super) credential: Credential,
    pub(super) entries: IndexMap<String, Entry>,
}

impl Queue {
    /// Nothing waits; in a cluster, everything is written behind `fences`.
    pub(super) fn new(fences: Option<Fences>) -> Self {
        Self {
            fences,
            ..Self::default()
        }
    }

    pub(super) fn is_empty(&self) -> bool {
        self.jobs.is_empty()
    }

    /// Queues a commit behind all others; gives it back when too much waits.
    pub(super) fn push(&mut self, commit: Commit, reply: &Arc<Reply>) -> Result<(), Commit> {
        let bytes: usize = commit.changes.iter().map(cost).sum();
        let writes = self.writes + commit.changes.len();
        if writes > MAX_WAITING_WRITES || self.bytes + bytes > MAX_WAITING_BYTES {
            return Err(commit);
        }
        self.writes = writes;
        self.bytes += bytes;
        self.jobs.push_back(Job {
            credential: commit.tenant.credential,
            group: commit.group,
            protocol_type: commit.protocol_type,
            changes: commit.changes.into_iter(),
            index: None,
            taken: 0,
            reply: Arc::clone(reply),
        });
        Ok(())
    }

    /// Queues a change of the index row of a commit's group, behind everything else; false when too
    /// much waits.
    pub(super) fn push_index(
        &mut self,
        commit: Commit,
        index: IndexChange,
        reply: &Arc<Reply>,
    ) -> bool {
        if self.writes >= MAX_WAITING_WRITES {
            return false;
        }
        self.writes += 1;
        self.jobs.push_back(Job {
            credential: commit.tenant.credential,
            group: commit.group,
            protocol_type: commit.protocol_type,
            changes: Vec::new().into_iter(),
            index: Some(index),
            taken: 0,
            reply: Arc::clone(reply),
        });
        true
    }

    /// The index row of `group` is written.
    pub(super) fn indexed(&mut self, group: Arc<str>) {
        if self.indexed.len() >= MAX_INDEXED {
            self.indexed.swap_remove_index(0);
        }
        self.indexed.insert(group);
    }

    /// Takes the next call's rows: in order, of the first job's credential, until the call is full.
    pub(super) fn gather(&mut self, now_ms: i64) -> Option<Gathered> {
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
        // Room for the fence, the index row and at least one offset.
        if entries.len() + 3 > MAX_OPERATIONS {
            return false;
        }
        if let Some(fences) = &self.fences {
            let key = fence_key(&job.group);
            let fence = || Entry::of(&job.group, Write::Fence(fences.row(now_ms)));
            entries.entry(key).or_insert_with(fence);
        }
        let row = || IndexRow {
            pt: job.protocol_type.as_ref().to_owned(),
            ts: now_ms,
        };
        if let Some(index) = job.index {
            self.writes -= 1;
            let entry = entries
                .entry(index_key(&job.group))
                .or_insert_with(|| Entry::of(&job.group, Write::Unindex));
            entry.write = match index {
                IndexChange::Put => Write::Index(row()),
                IndexChange::Delete => Write::Unindex,
            };
            if index == IndexChange::Delete {
                self.indexed.swap_remove(&job.group);
            }
            entry.waiting.push((Arc::clone(&job.reply), 0));
            return true;
        }
        let puts = job
            .changes
            .as_slice()
            .iter()
            .any(|(_, change)| matches!(change, Change::Put(_)));
        if puts && !self.indexed.contains(&job.group) {
            let entry = entries
                .entry(index_key(&job.group))
                .or_insert_with(|| Entry::of(&job.group, Write::Unindex));
            if matches!(entry.write, Write::Unindex) {
                entry.write = Write::Index(row());
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
            let entry = entries
                .entry(key.into_string())
                .or_insert_with(|| Entry::of(&job.group, Write::Offset(Change::Delete)));
            entry.write = Write::Offset(change);
            entry.waiting.push(waiter);
        }
        true
    }
}

impl Entry {
    /// One that nobody waits for yet.
    fn of(group: &Arc<str>, write: Write) -> Self {
        Self {
            group: Arc::clone(group),
            write,
            waiting: Vec::new(),
        }
    }
}

/// Takes the second half of a call's rows out of it. Each half has the fences of its groups.
pub(super) fn halve(entries: &mut IndexMap<String, Entry>) -> IndexMap<String, Entry> {
    let rest = entries.split_off(entries.len() / 2);
    let groups: BTreeSet<&Arc<str>> = rest.values().map(|entry| &entry.group).collect();
    let fences: Vec<(String, Entry)> = groups
        .into_iter()
        .filter_map(|group| {
            let key = fence_key(group);
            let Write::Fence(row) = &entries.get(&key)?.write else {
                return None;
            };
            Some((key, Entry::of(group, Write::Fence(row.clone()))))
        })
        .collect();
    let mut second: IndexMap<String, Entry> = fences.into_iter().collect();
    second.extend(rest);
    second
}

/// How many of these rows somebody waits for.
pub(super) fn asked(entries: &IndexMap<String, Entry>) -> usize {
    entries
        .values()
        .filter(|entry| !entry.waiting.is_empty())
        .count()
}

impl Queue {
    /// The call that writes these rows, each on condition that nothing younger is there: a call that
    /// is given up may be applied after the next.
    pub(super) fn batch(&self, entries: &IndexMap<String, Entry>) -> Result<Batch, Error> {
        let mut batch = Batch::new();
        for (key, entry) in entries {
            let expect = match (&self.fences, &entry.write) {
                (Some(fences), Write::Fence(_)) => fences.expect(&entry.group),
                // The call stands and falls with the fence.
                (Some(_), _) => Expect::Any,
                (None, _) => self.versions.expect(key),
            };
            let (forever, skip) = (Expiry::Forever, OnLoss::Skip);
            let added = match &entry.write {
                Write::Offset(Change::Put(row)) => batch.put(key, row, forever, expect, skip),
                Write::Index(row) => batch.put(key, row, forever, expect, skip),
                Write::Offset(Change::Delete) | Write::Unindex => batch.delete(key, expect, skip),
                Write::Fence(row) => batch.put(key, row, forever, expect, OnLoss::RollBack),
            };
            added.map_err(|_| Error::Unsendable("an offset row that Queen would refuse"))?;
        }
        Ok(batch)
    }

    /// What became of one row of a call.
    pub(super) fn heard(&mut self, key: &str, entry: &Entry, result: Option<OpResult>) -> Heard {
        let deletes = matches!(entry.write, Write::Offset(Change::Delete) | Write::Unindex);
        match (&mut self.fences, result) {
            (Some(fences), Some(OpResult::Applied(version))) => {
                if matches!(entry.write, Write::Fence(_)) {
                    fences.hold(&entry.group, version);
                }
                Heard::Written
            }
            (Some(_), Some(OpResult::Lost(..))) if deletes => Heard::Written,
            (None, Some(OpResult::Applied(_) | OpResult::Lost(Loss::Absent, _))) if deletes => {
                self.versions.forget(key);
                Heard::Written
            }
            (None, Some(OpResult::Applied(version))) => {
                self.versions.hold(key, version);
                Heard::Written
            }
            (None, Some(OpResult::Lost(loss, winner))) => {
                match (winner.version, loss) {
                    (Some(version), _) => self.versions.hold(key, version),
                    (None, Loss::Absent) => self.versions.forget(key),
                    (None, _) => return Heard::Beaten { by_unseen: true },
                }
                if entry.write.is(&winner) {
                    return Heard::Written;
                }
                Heard::Beaten { by_unseen: false }
            }
            _ => Heard::Neither,
        }
    }
}

/// What became of one row of a call.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Heard {
    /// It is as was asked.
    Written,
    /// Another version of it was there. When that was not told it has to be read.
    Beaten { by_unseen: bool },
    /// The answer makes no sense for it.
    Neither,
}

impl Write {
    /// Whether the row that made this write lose is what it would have written: then an earlier copy
    /// of the call was applied, whose answer did not come.
    fn is(&self, winner: &Winner) -> bool {
        match self {
            Self::Offset(Change::Put(row)) => winner.value::<OffsetRow>().as_ref() == Some(row),
            Self::Index(row) => winner.value::<IndexRow>().as_ref() == Some(row),
            Self::Offset(Change::Delete) | Self::Unindex | Self::Fence(_) => false,
        }
    }
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
