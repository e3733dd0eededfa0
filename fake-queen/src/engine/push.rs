//! Appending what `push` brings: one segment per (queue, lane) group, duplicates left out.

use bytes::Bytes;
use indexmap::IndexMap;

use super::batch::Batch;
use super::change::LaneKey;
use super::dedup::{Appended, Dedup};
use super::id_run::{IdRun, IdRuns};
use super::segment::{Compressor, Packed, Packer, records};
use crate::ids::{MessageId, TenantId};

/// Items of one call for one lane, in request order, packed by the caller.
#[derive(Debug)]
pub struct Group {
    /// Where to.
    pub lane: LaneKey,
    /// The records, as if none were a duplicate.
    pub packed: Packed,
    /// The ids that the caller gave.
    pub id_runs: Vec<IdRun>,
}

/// What became of a group.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Outcome {
    /// The first appended record; meaningless when all were duplicates.
    first: Appended,
    /// Position in the group and the original, in order of position.
    duplicates: Vec<(usize, Appended)>,
}

/// What became of one item.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ItemOutcome {
    /// Where the record is.
    pub at: Appended,
    /// It was there before.
    pub duplicate: bool,
}

impl Outcome {
    /// The outcome of the item at `position` of its group.
    pub fn item(&self, position: usize) -> ItemOutcome {
        let before = self
            .duplicates
            .partition_point(|(duplicate, _)| *duplicate < position);
        match self.duplicates.get(before) {
            Some((duplicate, at)) if *duplicate == position => ItemOutcome {
                at: *at,
                duplicate: true,
            },
            _ => ItemOutcome {
                at: self.first.plus((position - before) as u64),
                duplicate: false,
            },
        }
    }

    /// Some item was there before this call.
    pub fn any_duplicate(&self) -> bool {
        !self.duplicates.is_empty()
    }
}

enum Original {
    Committed(Appended),
    /// Rank among this group's appended records.
    InGroup(usize),
}

/// Positions of a group's items that are duplicates, with their originals.
pub struct Duplicates(Vec<(usize, Original)>);

impl Duplicates {
    /// Looks a group's ids up, in the lane and in the group itself.
    pub fn find(batch: &Batch<'_>, group: &Group) -> Self {
        if batch.dedup_window(&group.lane) == 0 || Self::none(batch, group) {
            return Self(Vec::new());
        }
        let mut found = Vec::new();
        let mut seen: IndexMap<&str, usize> = IndexMap::new();
        let raw = unpacked(&group.packed);
        for (position, record) in records(&raw).flatten().enumerate() {
            let Some(id) = record.transaction_id else {
                continue;
            };
            let original = match seen.get(id) {
                Some(rank) => Some(Original::InGroup(*rank)),
                None => batch
                    .find_duplicate(&group.lane, id)
                    .map(Original::Committed),
            };
            match original {
                Some(original) => found.push((position, original)),
                None => {
                    seen.insert(id, position - found.len());
                }
            }
        }
        Self(found)
    }

    /// No id repeats, found without looking at records.
    fn none(batch: &Batch<'_>, group: &Group) -> bool {
        let mut own = Dedup::default();
        group.id_runs.iter().all(|run| {
            let count = u64::from(run.count);
            let fresh =
                !batch.any_duplicate(&group.lane, run) && !own.overlaps(&run.first, count, 0);
            if fresh && group.id_runs.len() > 1 {
                let nowhere = Appended {
                    offset: 0,
                    message_id: MessageId::UNKNOWN,
                };
                own.insert(&run.first, count, nowhere, 0);
            }
            fresh
        })
    }

    /// Some id was appended by an earlier call.
    pub fn any_committed(&self) -> bool {
        self.0
            .iter()
            .any(|(_, original)| matches!(original, Original::Committed(_)))
    }
}

/// Appends a group without its duplicates.
pub fn append(batch: &mut Batch<'_>, group: Group, duplicates: Duplicates) -> Outcome {
    let Duplicates(duplicates) = duplicates;
    let is_duplicate = |position: usize| {
        duplicates
            .binary_search_by_key(&position, |(duplicate, _)| *duplicate)
            .is_ok()
    };
    let (packed, id_runs) = if duplicates.is_empty() {
        (group.packed, group.id_runs)
    } else {
        repack(&group.packed, is_duplicate)
    };
    let first = if packed.count == 0 {
        Appended {
            offset: 0,
            message_id: MessageId::UNKNOWN,
        }
    } else {
        batch.append(&group.lane, packed, id_runs)
    };
    let duplicates = duplicates
        .into_iter()
        .map(|(position, original)| {
            let at = match original {
                Original::Committed(at) => at,
                Original::InGroup(rank) => first.plus(rank as u64),
            };
            (position, at)
        })
        .collect();
    Outcome { first, duplicates }
}

/// The records whose positions are not left out, and their ids.
fn repack(packed: &Packed, leave_out: impl Fn(usize) -> bool) -> (Packed, Vec<IdRun>) {
    let (mut packer, mut id_runs) = (Packer::default(), IdRuns::default());
    let raw = unpacked(packed);
    for (position, record) in records(&raw).flatten().enumerate() {
        if !leave_out(position) {
            packer.add(record.transaction_id, record.payload);
            id_runs.add(record.transaction_id);
        }
    }
    (packer.finish(&mut Compressor::default()), id_runs.finish())
}

/// The records of a group, packed a moment ago in this process.
fn unpacked(packed: &Packed) -> Bytes {
    let raw = packed.unpack();
    debug_assert!(raw.is_ok(), "what was packed unpacks");
    raw.unwrap_or_default()
}

/// Plans a push: group by group, each on its own.
pub fn plan(batch: &mut Batch<'_>, groups: Vec<Group>) -> Vec<Outcome> {
    groups
        .into_iter()
        .map(|group| {
            let duplicates = Duplicates::find(batch, &group);
            append(batch, group, duplicates)
        })
        .collect()
}

/// A group in the making.
#[derive(Debug, Default)]
struct Gathered {
    packer: Packer,
    id_runs: IdRuns,
    count: usize,
}

/// Gathers items of one call into groups, in order of first appearance, and packs them.
#[derive(Debug, Default)]
pub struct Grouper {
    groups: IndexMap<LaneKey, Gathered>,
    /// The lane of the item before: calls name their lanes in long runs.
    last: Option<usize>,
    /// Group and position of each item.
    places: Vec<(usize, usize)>,
}

impl Grouper {
    /// Adds an item.
    pub fn add(
        &mut self,
        tenant: TenantId,
        queue: &str,
        lane: &str,
        transaction_id: Option<&str>,
        payload: &str,
    ) {
        let at = match self.last.and_then(|at| self.groups.get_index(at)) {
            Some((key, _)) if *key.queue == *queue && *key.lane == *lane => {
                self.last.unwrap_or_default()
            }
            _ => {
                let key = LaneKey {
                    tenant,
                    queue: queue.into(),
                    lane: lane.into(),
                };
                let entry = self.groups.entry(key);
                let at = entry.index();
                entry.or_default();
                at
            }
        };
        self.last = Some(at);
        let gathered = &mut self.groups[at];
        gathered.packer.add(transaction_id, payload);
        gathered.id_runs.add(transaction_id);
        self.places.push((at, gathered.count));
        gathered.count += 1;
    }

    /// The groups, and for each item its group and its position there.
    pub fn finish(self) -> (Vec<Group>, Vec<(usize, usize)>) {
        let mut compressor = Compressor::default();
        let groups = self
            .groups
            .into_iter()
            .map(|(lane, gathered)| Group {
                lane,
                packed: gathered.packer.finish(&mut compressor),
                id_runs: gathered.id_runs.finish(),
            })
            .collect();
        (groups, self.places)
    }
}

/// Bytes a push adds to a commit.
pub fn bytes(groups: &[Group]) -> usize {
    groups.iter().map(|group| group.packed.body.len()).sum()
}
