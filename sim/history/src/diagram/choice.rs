//! Which entries a diagram shows.

use std::collections::{BTreeMap, BTreeSet};

use crate::check::Verdict;
use crate::event::{Entry, Event, Mark, Op};

/// One row of a diagram.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Row {
    /// An entry, by its index.
    Entry(usize),
    /// So many entries that are not shown.
    Gap(usize),
}

/// Rows of surroundings, besides what must be shown.
const SURROUNDINGS: usize = 120;
/// Entries of one client before and after what it proves.
const AROUND: usize = 6;

/// The entries that prove `told`, what the world did, and what surrounds both; gaps between.
pub(super) fn choose(entries: &[Entry], told: &[&Verdict]) -> Vec<Row> {
    let proof: BTreeSet<usize> = told
        .iter()
        .flat_map(|verdict| &verdict.proof)
        .copied()
        .collect();
    let mut chosen = proof.clone();
    chosen.extend(operations(entries, &proof));
    chosen.extend(world(entries));
    let mut room = SURROUNDINGS;
    let mut surroundings = around(entries, &proof);
    if proof.is_empty() {
        surroundings.extend(0..entries.len());
    }
    for at in surroundings {
        if room == 0 {
            break;
        }
        if chosen.insert(at) {
            room -= 1;
        }
    }
    rows(entries.len(), &chosen)
}

/// Every entry of the operations that the proof touches.
fn operations(entries: &[Entry], proof: &BTreeSet<usize>) -> BTreeSet<usize> {
    let mut of: BTreeMap<Op, Vec<usize>> = BTreeMap::new();
    for (at, entry) in entries.iter().enumerate() {
        if let Some(op) = op(&entry.event) {
            of.entry(op).or_default().push(at);
        }
    }
    let touched = of
        .values()
        .filter(|all| all.iter().any(|at| proof.contains(at)));
    // A batch may have gone out a hundred times.
    touched
        .flat_map(|all| all.iter().take(12))
        .copied()
        .collect()
}

const fn op(event: &Event) -> Option<Op> {
    match event {
        Event::Invoke { op, .. }
        | Event::Ok { op, .. }
        | Event::Fail { op, .. }
        | Event::Unknown { op, .. }
        | Event::Attempt { op, .. } => Some(*op),
        _ => None,
    }
}

fn world(entries: &[Entry]) -> impl Iterator<Item = usize> {
    entries
        .iter()
        .enumerate()
        .filter(|(_, entry)| match &entry.event {
            Event::Mark(Mark::Situation { .. } | Mark::Owns { .. }) => false,
            Event::Mark(_) => true,
            _ => false,
        })
        .map(|(at, _)| at)
        .take(SURROUNDINGS)
}

/// What the clients that are concerned did just before and after, nearest first.
fn around(entries: &[Entry], proof: &BTreeSet<usize>) -> Vec<usize> {
    let mut near: Vec<(usize, usize)> = Vec::new();
    for &at in proof {
        let Some(who) = entries.get(at).map(|entry| &entry.who) else {
            continue;
        };
        let own = |(_, entry): &(usize, &Entry)| {
            entry.who == *who && !matches!(entry.event, Event::Log { .. } | Event::LogEnd { .. })
        };
        let before = entries.iter().enumerate().take(at);
        near.extend(
            before
                .rev()
                .filter(own)
                .take(AROUND)
                .map(|(one, _)| (at - one, one)),
        );
        let after = entries.iter().enumerate().skip(at + 1);
        near.extend(
            after
                .filter(own)
                .take(AROUND)
                .map(|(one, _)| (one - at, one)),
        );
    }
    near.sort_unstable();
    near.into_iter().map(|(_, at)| at).collect()
}

fn rows(count: usize, chosen: &BTreeSet<usize>) -> Vec<Row> {
    let mut rows = Vec::new();
    let mut next = 0;
    for &at in chosen {
        if at > next {
            rows.push(Row::Gap(at - next));
        }
        rows.push(Row::Entry(at));
        next = at + 1;
    }
    if count > next {
        rows.push(Row::Gap(count - next));
    }
    rows
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_left_out_is_counted() {
        let chosen = BTreeSet::from([2, 3, 7]);
        assert_eq!(
            rows(10, &chosen),
            [
                Row::Gap(2),
                Row::Entry(2),
                Row::Entry(3),
                Row::Gap(3),
                Row::Entry(7),
                Row::Gap(2)
            ]
        );
        assert_eq!(rows(0, &BTreeSet::new()), []);
    }
}
