//! Appending what `push` brings: one segment per (queue, lane) group, duplicates left out.

use indexmap::IndexMap;

use super::batch::Batch;
use super::change::LaneKey;
use super::dedup::Appended;
use super::segment::{Compressor, Packed, Packer, records};

/// Items of one call for one lane, in request order, packed by the caller.
#[derive(Debug)]
pub struct Group {
    /// Where to.
    pub lane: LaneKey,
    /// The records, as if none were a duplicate.
    pub packed: Packed,
    /// Each record's id as the caller gave it; empty when the caller gave none at all.
    pub transaction_ids: Vec<Option<Box<str>>>,
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
            _ => {
                let nth = (position - before) as u64;
                ItemOutcome {
                    at: Appended {
                        offset: self.first.offset.saturating_add_unsigned(nth),
                        message_id: self.first.message_id.plus(nth),
                    },
                    duplicate: false,
                }
            }
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
        let mut found = Vec::new();
        if group.transaction_ids.is_empty() || batch.dedup_window(&group.lane) == 0 {
            return Self(found);
        }
        let mut seen: IndexMap<&str, usize> = IndexMap::new();
        for (position, id) in group.transaction_ids.iter().enumerate() {
            let Some(id) = id.as_deref() else { continue };
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
    let ids: Vec<Option<&str>> = group
        .transaction_ids
        .iter()
        .enumerate()
        .filter(|(position, _)| !is_duplicate(*position))
        .map(|(_, id)| id.as_deref())
        .collect();
    let packed = if duplicates.is_empty() {
        group.packed
    } else {
        repack(&group.packed, is_duplicate)
    };
    let first = if packed.count == 0 {
        Appended {
            offset: 0,
            message_id: crate::ids::MessageId::UNKNOWN,
        }
    } else {
        batch.append(&group.lane, packed, &ids)
    };
    let duplicates = duplicates
        .into_iter()
        .map(|(position, original)| {
            let at = match original {
                Original::Committed(at) => at,
                Original::InGroup(rank) => Appended {
                    offset: first.offset.saturating_add_unsigned(rank as u64),
                    message_id: first.message_id.plus(rank as u64),
                },
            };
            (position, at)
        })
        .collect();
    Outcome { first, duplicates }
}

/// The records whose positions are not left out.
fn repack(packed: &Packed, leave_out: impl Fn(usize) -> bool) -> Packed {
    let mut packer = Packer::default();
    // Packed a moment ago in this process; were it damaged nothing would be appended.
    let raw = packed.unpack().unwrap_or_default();
    for (position, record) in records(&raw).flatten().enumerate() {
        if !leave_out(position) {
            packer.add(record.transaction_id, record.payload);
        }
    }
    packer.finish(&mut Compressor::default())
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
    transaction_ids: Vec<Option<Box<str>>>,
    any_id: bool,
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
        tenant: crate::ids::TenantId,
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
        gathered.any_id |= transaction_id.is_some();
        self.places.push((at, gathered.transaction_ids.len()));
        gathered
            .transaction_ids
            .push(transaction_id.map(Into::into));
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
                transaction_ids: if gathered.any_id {
                    gathered.transaction_ids
                } else {
                    Vec::new()
                },
            })
            .collect();
        (groups, self.places)
    }
}

/// Bytes a push adds to a commit.
pub fn bytes(groups: &[Group]) -> usize {
    groups.iter().map(|group| group.packed.body.len()).sum()
}
