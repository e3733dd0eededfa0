//! What waits to be written, and how the next call is gathered from it.
//!
//! Groups take turns: a call has so many rows of each, round and round until it is full, so that a
//! group that commits thousands of offsets delays no other by more than a call. What one group
//! commits is written in its order.

use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::sync::Arc;

use indexmap::{IndexMap, IndexSet};

use super::commit::{Change, Commit, Reply};
use super::fence::{FenceRow, Fences, fence_key};
use super::keys::{OffsetKey, index_key};
use super::rows::{IndexRow, OffsetRow};
use super::versions::Versions;
use crate::queen::kv::{Batch, Expect, Expiry, Loss, MAX_OPERATIONS, OnLoss, OpResult, Winner};
use crate::queen::{Credential, Error};

/// What may wait in one scope; more is refused.
const OF_SCOPE: Size = Size {
    writes: 131_072,
    bytes: 64 << 20,
};
/// What may wait of one group: half, so that no group has others refused.
const OF_GROUP: Size = Size {
    writes: OF_SCOPE.writes / 2,
    bytes: OF_SCOPE.bytes / 2,
};
/// What a group puts into a call before the next one's turn.
const TURN: Size = Size {
    writes: 32,
    bytes: 64 << 10,
};
/// Groups whose index row is known to be written; one of them is written again when there are more.
const MAX_INDEXED: usize = 10_000;

/// Writes, and the bytes of their keys and metadata.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
struct Size {
    writes: usize,
    bytes: usize,
}

impl Size {
    fn of(key: &OffsetKey, change: &Change) -> Self {
        let metadata = match change {
            Change::Put(row) => row.metadata.as_ref().map_or(0, String::len),
            Change::Delete => 0,
        };
        Self {
            writes: 1,
            bytes: key.as_str().len() + metadata,
        }
    }

    fn fits(self, bound: Self) -> bool {
        self.writes <= bound.writes && self.bytes <= bound.bytes
    }

    /// Nothing but an answer is kept for it.
    const INDEX: Self = Self {
        writes: 1,
        bytes: 0,
    };
}

impl std::ops::Add for Size {
    type Output = Self;

    fn add(self, more: Self) -> Self {
        Self {
            writes: self.writes + more.writes,
            bytes: self.bytes + more.bytes,
        }
    }
}

impl std::ops::AddAssign for Size {
    fn add_assign(&mut self, more: Self) {
        *self = *self + more;
    }
}

impl std::ops::SubAssign for Size {
    fn sub_assign(&mut self, less: Self) {
        self.writes -= less.writes;
        self.bytes -= less.bytes;
    }
}

/// The writes of one scope that wait.
#[derive(Debug, Default)]
pub(super) struct Queue {
    groups: BTreeMap<Arc<str>, Waiting>,
    /// The groups, in the order of their turns.
    turns: VecDeque<Arc<str>>,
    size: Size,
    /// Whether a task writes what waits.
    pub(super) running: bool,
    indexed: IndexSet<Arc<str>>,
    /// In a cluster only: there they are what every write is conditional on.
    pub(super) fences: Option<Fences>,
    /// Elsewhere these are.
    pub(super) versions: Versions,
}

/// What waits of one group, in the order in which it is written.
#[derive(Debug, Default)]
struct Waiting {
    jobs: VecDeque<Job>,
    size: Size,
}

#[derive(Debug)]
struct Job {
    credential: Credential,
    group: Arc<str>,
    protocol_type: Arc<str>,
    changes: std::vec::IntoIter<(OffsetKey, Change)>,
    /// Whether any of them stores an offset.
    puts: bool,
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
        self.turns.is_empty()
    }

    /// Queues a commit behind all others of its group; gives it back when too much waits.
    pub(super) fn push(&mut self, commit: Commit, reply: &Arc<Reply>) -> Result<(), Commit> {
        let sizes = commit.changes.iter();
        let size = sizes.fold(Size::default(), |all, (key, change)| {
            all + Size::of(key, change)
        });
        if !self.has_room(&commit.group, size) {
            return Err(commit);
        }
        let job = Job {
            credential: commit.tenant.credential,
            group: commit.group,
            protocol_type: commit.protocol_type,
            puts: (commit.changes.iter()).any(|(_, change)| matches!(change, Change::Put(_))),
            changes: commit.changes.into_iter(),
            index: None,
            taken: 0,
            reply: Arc::clone(reply),
        };
        self.put(job, size);
        Ok(())
    }

    /// Queues a change of the index row of a commit's group, behind everything else of it; false when
    /// too much waits.
    pub(super) fn push_index(
        &mut self,
        commit: Commit,
        index: IndexChange,
        reply: &Arc<Reply>,
    ) -> bool {
        let has_room = self.has_room(&commit.group, Size::INDEX);
        if has_room {
            let job = Job {
                credential: commit.tenant.credential,
                group: commit.group,
                protocol_type: commit.protocol_type,
                puts: false,
                changes: Vec::new().into_iter(),
                index: Some(index),
                taken: 0,
                reply: Arc::clone(reply),
            };
            self.put(job, Size::INDEX);
        }
        has_room
    }

    fn has_room(&self, group: &str, size: Size) -> bool {
        let of_group = self.groups.get(group).map(|waiting| waiting.size);
        (self.size + size).fits(OF_SCOPE) && (of_group.unwrap_or_default() + size).fits(OF_GROUP)
    }

    fn put(&mut self, job: Job, size: Size) {
        if !self.groups.contains_key(&job.group) {
            self.turns.push_back(Arc::clone(&job.group));
        }
        let waiting = self.groups.entry(Arc::clone(&job.group)).or_default();
        waiting.size += size;
        waiting.jobs.push_back(job);
        self.size += size;
    }

    /// The index row of `group` is written.
    pub(super) fn indexed(&mut self, group: Arc<str>) {
        if self.indexed.len() >= MAX_INDEXED {
            self.indexed.swap_remove_index(0);
        }
        self.indexed.insert(group);
    }

    /// Takes the next call's rows, of the credential of whose turn it is, until the call is full. Who
    /// got nothing comes first in the next one.
    pub(super) fn gather(&mut self, now_ms: i64) -> Option<Gathered> {
        let first = self.groups.get(self.turns.front()?)?;
        let credential = first.jobs.front()?.credential.clone();
        let mut entries: IndexMap<String, Entry> = IndexMap::new();
        let mut round = std::mem::take(&mut self.turns);
        let (mut passed_over, mut served) = (VecDeque::new(), VecDeque::new());
        let mut held_up = VecDeque::new();
        loop {
            let Some(group) = round.pop_front() else {
                if served.is_empty() {
                    break;
                }
                round = std::mem::take(&mut served);
                continue;
            };
            let Some(mut waiting) = self.groups.remove(&group) else {
                continue;
            };
            let before = waiting.size;
            let end = self.turn(&mut waiting, &credential, &mut entries, now_ms);
            let got_something = waiting.size != before;
            if !waiting.jobs.is_empty() {
                self.groups.insert(Arc::clone(&group), waiting);
            }
            match end {
                TurnEnd::Done => {}
                TurnEnd::Over => served.push_back(group),
                TurnEnd::OtherCredential if got_something => held_up.push_back(group),
                TurnEnd::OtherCredential => passed_over.push_back(group),
                TurnEnd::Full => {
                    match got_something {
                        true => served.push_back(group),
                        false => round.push_front(group),
                    }
                    break;
                }
            }
        }
        self.turns = passed_over;
        for more in [&mut round, &mut served, &mut held_up] {
            self.turns.append(more);
        }
        Some(Gathered {
            credential,
            entries,
        })
    }

    /// One turn of a group.
    fn turn(
        &mut self,
        waiting: &mut Waiting,
        credential: &Credential,
        entries: &mut IndexMap<String, Entry>,
        now_ms: i64,
    ) -> TurnEnd {
        let left = Size {
            writes: waiting.size.writes.saturating_sub(TURN.writes),
            bytes: waiting.size.bytes.saturating_sub(TURN.bytes),
        };
        while let Some(job) = waiting.jobs.front_mut() {
            if job.credential != *credential {
                return TurnEnd::OtherCredential;
            }
            // A row larger than a turn is one.
            if waiting.size.writes <= left.writes || waiting.size.bytes < left.bytes {
                return TurnEnd::Over;
            }
            match self.take(job, &mut waiting.size, left, entries, now_ms) {
                TurnEnd::Done => {
                    waiting.jobs.pop_front();
                }
                end => return end,
            }
        }
        TurnEnd::Done
    }

    /// Moves the changes of `job` into `entries`, until only `left` is left of its group.
    fn take(
        &mut self,
        job: &mut Job,
        waiting: &mut Size,
        left: Size,
        entries: &mut IndexMap<String, Entry>,
        now_ms: i64,
    ) -> TurnEnd {
        // Room for the fence, the index row and at least one offset.
        if entries.len() + 3 > MAX_OPERATIONS {
            return TurnEnd::Full;
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
            self.size -= Size::INDEX;
            *waiting -= Size::INDEX;
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
            return TurnEnd::Done;
        }
        if job.puts && !self.indexed.contains(&job.group) {
            let entry = entries
                .entry(index_key(&job.group))
                .or_insert_with(|| Entry::of(&job.group, Write::Unindex));
            if matches!(entry.write, Write::Unindex) {
                entry.write = Write::Index(row());
            }
        }
        while let Some(next) = job.changes.as_slice().first() {
            if entries.len() >= MAX_OPERATIONS && !entries.contains_key(next.0.as_str()) {
                return TurnEnd::Full;
            }
            if waiting.writes <= left.writes || waiting.bytes < left.bytes {
                return TurnEnd::Over;
            }
            let Some((key, change)) = job.changes.next() else {
                return TurnEnd::Done;
            };
            let size = Size::of(&key, &change);
            self.size -= size;
            *waiting -= size;
            let waiter = (Arc::clone(&job.reply), job.taken);
            job.taken += 1;
            let entry = entries
                .entry(key.into_string())
                .or_insert_with(|| Entry::of(&job.group, Write::Offset(Change::Delete)));
            entry.write = Write::Offset(change);
            entry.waiting.push(waiter);
        }
        TurnEnd::Done
    }
}

/// Why a group's turn ends.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum TurnEnd {
    /// Nothing of it, or of its job, is left.
    Done,
    /// It has put its part into the call.
    Over,
    /// What comes next is another credential's, for another call.
    OtherCredential,
    /// The call is full.
    Full,
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

#[cfg(test)]
mod tests;
