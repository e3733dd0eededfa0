//! Situations of consumer groups and their commits.

use std::collections::{BTreeMap, BTreeSet};

use super::{codes, count};
use crate::call::{Admin, Call, Reply};
use crate::check::index::Index;
use crate::event::Event;
use crate::value::{Name, TopicPartition};

pub(super) fn commits_during_rebalance(index: &Index<'_>) -> u64 {
    let joins: Vec<_> = index
        .operations()
        .filter_map(|(_, one)| match one.call {
            Call::Join { group, .. } => {
                Some((one.who, group, one.began..one.ended.unwrap_or(usize::MAX)))
            }
            _ => None,
        })
        .collect();
    count(index, |one| {
        let Call::Commit { group, member, .. } = one.call else {
            return false;
        };
        let others = |(who, of, _): &&(&Name, &Name, std::ops::Range<usize>)| {
            *who != one.who && *of == group
        };
        !member.is_empty()
            && joins
                .iter()
                .filter(others)
                .any(|(_, _, open)| open.contains(&one.began))
    })
}

pub(super) fn is_beat(call: &Call) -> bool {
    matches!(call, Call::ConsumerHeartbeat { .. })
}

/// Commits that were open when their member was told a higher epoch than theirs.
pub(super) fn commits_of_passed_epochs(index: &Index<'_>) -> u64 {
    let told: Vec<_> = index
        .operations()
        .filter_map(|(_, one)| match (one.call, one.ok()) {
            (
                Call::ConsumerHeartbeat { group, member, .. },
                Some((at, Reply::Beat { epoch, .. })),
            ) => Some((group, member, *epoch, at)),
            _ => None,
        })
        .collect();
    count(index, |one| match one.call {
        Call::Commit {
            group,
            member,
            generation: generation @ 1..,
            ..
        } => told.iter().any(|(of, who, epoch, at)| {
            let open = one.began..one.ended.unwrap_or(usize::MAX);
            of == &group && who == &member && epoch > generation && open.contains(at)
        }),
        _ => false,
    })
}

/// Partitions that one member of KIP-848 revoked, and another one was told to own after that.
pub(super) fn handed_on(index: &Index<'_>) -> u64 {
    let beating: BTreeSet<&Name> = index
        .operations()
        .filter_map(|(_, one)| match one.call {
            Call::ConsumerHeartbeat { member, .. } => Some(member),
            _ => None,
        })
        .collect();
    let mut free: BTreeMap<&TopicPartition, &Name> = BTreeMap::new();
    let mut times = 0;
    for (_, _, event) in index.events() {
        match event {
            Event::Revoked {
                member, partitions, ..
            } if beating.contains(member) => {
                free.extend(partitions.iter().map(|at| (at, member)));
            }
            Event::Assigned {
                member, partitions, ..
            } => {
                for at in partitions {
                    let before = free.remove(at);
                    times += u64::from(before.is_some_and(|before| before != member));
                }
            }
            _ => {}
        }
    }
    times
}

/// Joins of clients that were told one of these codes last.
pub(super) fn rejoins(index: &Index<'_>, with: &[i16]) -> u64 {
    let mut told: BTreeMap<&Name, usize> = BTreeMap::new();
    for (_, operation) in index.operations() {
        if with.iter().any(|code| codes(operation).contains(code)) {
            let at = operation.ended.unwrap_or(operation.began);
            told.entry(operation.who)
                .and_modify(|first| *first = at.min(*first))
                .or_insert(at);
        }
    }
    count(index, |one| {
        matches!(one.call, Call::Join { .. })
            && one.ok().is_some()
            && told.get(one.who).is_some_and(|told| *told < one.began)
    })
}

pub(super) fn commits_repeated(index: &Index<'_>) -> u64 {
    let mut unknown = BTreeSet::new();
    let mut times = 0;
    for (_, operation) in index.operations() {
        let Call::Commit { group, offsets, .. } = operation.call else {
            continue;
        };
        for (at, offset) in offsets {
            let what = (operation.who, group, at, offset);
            if operation.ok().is_some() {
                times += u64::from(unknown.remove(&what));
            } else if operation.failed().is_none() && operation.ended.is_some() {
                unknown.insert(what);
            }
        }
    }
    times
}

pub(super) fn partitions_added(index: &Index<'_>) -> u64 {
    let mut owned: BTreeSet<&Name> = BTreeSet::new();
    let mut times = 0;
    for (_, _, event) in index.events() {
        match event {
            Event::Assigned { partitions, .. } => {
                owned.extend(partitions.iter().map(|at| &at.topic));
            }
            Event::Invoke {
                call: Call::Admin(Admin::CreatePartitions { topic, .. }),
                ..
            } => times += u64::from(owned.contains(topic)),
            _ => {}
        }
    }
    times
}
