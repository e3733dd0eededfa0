//! Situations of transactions.

use std::collections::{BTreeMap, BTreeSet};

use super::{codes, count, open_at};
use crate::call::{Call, Reply};
use crate::check::index::{Index, Operation};
use crate::event::{Event, Mark};
use crate::value::{Name, Value};

const END_TXN: i16 = 26;
const INVALID_PRODUCER_EPOCH: i16 = 47;
const PRODUCER_FENCED: i16 = 90;

/// Producers that were told that another one has taken their place.
pub(super) fn zombies_fenced(index: &Index<'_>) -> u64 {
    count(index, |one| {
        let codes = codes(one);
        codes.contains(&PRODUCER_FENCED) || codes.contains(&INVALID_PRODUCER_EPOCH)
    })
}

fn is_commit(call: &Call) -> bool {
    matches!(call, Call::End { commit: true, .. })
}

/// Commits that were asked for again after a reader had seen what they commit.
pub(super) fn landed_ends(index: &Index<'_>) -> u64 {
    let mut seen: BTreeMap<Value, usize> = BTreeMap::new();
    for (at, _, event) in index.events() {
        if let Event::Ok {
            reply: Reply::Polled(polled),
            ..
        } = event
        {
            for record in polled.iter().flat_map(|polled| &polled.records) {
                seen.entry(record.value).or_insert(at);
            }
        }
    }
    let mut landed: BTreeMap<(&Name, u64), usize> = BTreeMap::new();
    for (_, operation) in index.operations() {
        if let Call::Produce {
            batch,
            transaction: Some(number),
            ..
        } = operation.call
            && let Some(first) = batch.values().filter_map(|value| seen.get(&value)).min()
        {
            landed.insert((operation.who, *number), *first);
        }
    }
    count(index, |one| {
        let Call::End {
            transaction,
            commit: true,
        } = one.call
        else {
            return false;
        };
        let Some(landed) = landed.get(&(one.who, *transaction)) else {
            return false;
        };
        let ended = one.ended.unwrap_or(usize::MAX);
        index.events().any(|(at, who, event)| {
            at > *landed
                && at < ended
                && at > one.began
                && who == one.who
                && matches!(event, Event::Asked { api: END_TXN, .. })
        })
    })
}

fn crashes(index: &Index<'_>) -> impl Iterator<Item = usize> {
    index
        .events()
        .filter(|(_, _, event)| matches!(event, Event::Mark(Mark::Crash { .. })))
        .map(|(at, _, _)| at)
}

/// Crashes while a transaction's end was asked for.
pub(super) fn crashes_while_ending(index: &Index<'_>) -> u64 {
    let ending = |at: &usize| open_at(index, *at, is_commit);
    crashes(index).filter(ending).count() as u64
}

/// Crashes while offsets were added to a transaction.
pub(super) fn crashes_while_sending_offsets(index: &Index<'_>) -> u64 {
    let sends = |call: &Call| matches!(call, Call::SendOffsets { .. });
    let sending = |at: &usize| open_at(index, *at, sends);
    crashes(index).filter(sending).count() as u64
}

/// Crashes while a transaction held records and its end was not asked for.
pub(super) fn crashes_while_open(index: &Index<'_>) -> u64 {
    let stretches = stretches(index);
    let open = |at: &usize| {
        let mut all = stretches.iter();
        all.any(|(_, from, to)| from < at && at < to)
    };
    crashes(index).filter(open).count() as u64
}

/// From the first batch that a transaction was told is stored to its end's asking: the client, and
/// both entries.
fn stretches<'h>(index: &Index<'h>) -> Vec<(&'h Name, usize, usize)> {
    let mut first: BTreeMap<(&Name, u64), usize> = BTreeMap::new();
    let mut ends: BTreeMap<(&Name, u64), usize> = BTreeMap::new();
    for (_, operation) in index.operations() {
        match operation.call {
            Call::Produce {
                transaction: Some(number),
                ..
            } => {
                if let Some((at, _)) = operation.ok() {
                    first.entry((operation.who, *number)).or_insert(at);
                }
            }
            Call::End { transaction, .. } => {
                let key = (operation.who, *transaction);
                ends.entry(key).or_insert(operation.began);
            }
            _ => {}
        }
    }
    let open = first.into_iter();
    open.map(|(key, from)| (key.0, from, ends.get(&key).copied().unwrap_or(from)))
        .collect()
}

/// Partitions that were taken from a member while it had a transaction open.
pub(super) fn rebalances_inside(index: &Index<'_>) -> u64 {
    let stretches = stretches(index);
    let taken = index
        .events()
        .filter(|(at, who, event)| {
            matches!(event, Event::Revoked { .. } | Event::Lost { .. })
                && stretches
                    .iter()
                    .any(|(of, from, to)| of == who && from < at && at < to)
        })
        .count() as u64;
    // Where a library keeps a rebalance from its application until that polls, the group says so.
    let refused = count(index, |one| {
        matches!(one.call, Call::SendOffsets { .. }) && one.failed().is_some()
    });
    taken + refused
}

/// Answers that an offset waits in a transaction.
pub(super) fn unstable_offsets(index: &Index<'_>) -> u64 {
    const UNSTABLE_OFFSET_COMMIT: i16 = 88;
    count(index, |one| {
        matches!(one.call, Call::FetchOffsets { .. })
            && codes(one).contains(&UNSTABLE_OFFSET_COMMIT)
    })
}

/// Transactions that were aborted after their commit was refused.
pub(super) fn aborted_after_refusal(index: &Index<'_>) -> u64 {
    let refused: BTreeSet<(&Name, u64)> = index
        .operations()
        .filter_map(|(_, one)| match one.call {
            Call::End {
                transaction,
                commit: true,
            } if one.ok().is_none() && one.ended.is_some() => Some((one.who, *transaction)),
            _ => None,
        })
        .collect();
    let aborts = |one: &Operation<'_>| match one.call {
        Call::End {
            transaction,
            commit: false,
        } => one.ok().is_some() && refused.contains(&(one.who, *transaction)),
        _ => false,
    };
    count(index, aborts)
}
