//! Situations of credentials that end while they are used.

use std::collections::{BTreeMap, BTreeSet};

use super::open_at;
use crate::call::Call;
use crate::check::index::Index;
use crate::event::{Event, Mark};
use crate::value::Name;

/// A credential that ended, or lost something, and whose it was then.
struct End<'h> {
    at: usize,
    principal: &'h Name,
    /// Nothing in it is everything.
    actions: &'h [Name],
    clients: BTreeSet<&'h Name>,
}

/// Every end, but those of credentials that nobody had used.
fn ends<'h>(index: &Index<'h>) -> Vec<End<'h>> {
    let mut holders: BTreeMap<&Name, BTreeSet<&Name>> = BTreeMap::new();
    let mut ends = Vec::new();
    for (at, who, event) in index.events() {
        match event {
            Event::Authenticated { principal, .. } => {
                for held in holders.values_mut() {
                    held.remove(who);
                }
                holders.entry(principal).or_default().insert(who);
            }
            Event::Mark(Mark::Revoke {
                principal, actions, ..
            }) => {
                let clients = holders.get(principal).cloned().unwrap_or_default();
                if !clients.is_empty() {
                    ends.push(End {
                        at,
                        principal,
                        actions,
                        clients,
                    });
                }
            }
            _ => {}
        }
    }
    ends
}

/// The ends at which a client that held the credential is as `is` says.
fn ended(index: &Index<'_>, is: impl Fn(&End<'_>, &Name) -> bool) -> u64 {
    let ends = ends(index);
    let met = ends
        .iter()
        .filter(|end| end.clients.iter().any(|client| is(end, client)));
    met.count() as u64
}

/// Whether `client` had an operation open then.
fn has_open(index: &Index<'_>, at: usize, client: &Name, is: impl Fn(&Call) -> bool) -> bool {
    let mut all = index.operations();
    all.any(|(_, one)| {
        one.who == client
            && is(one.call)
            && one.began < at
            && one.ended.is_none_or(|ended| ended > at)
    })
}

pub(super) fn ended_while_idle(index: &Index<'_>) -> u64 {
    ended(index, |end, client| {
        !has_open(index, end.at, client, |_| true)
    })
}

pub(super) fn ended_in_mid_produce(index: &Index<'_>) -> u64 {
    ended(index, |end, client| {
        has_open(index, end.at, client, |call| {
            matches!(call, Call::Produce { .. })
        })
    })
}

pub(super) fn ended_in_a_rebalance(index: &Index<'_>) -> u64 {
    ended(index, |end, client| {
        let joining = |call: &Call| matches!(call, Call::Join { .. } | Call::Sync { .. });
        let mut all = index.operations();
        let is_member = all.any(|(_, one)| one.who == client && joining(one.call));
        is_member && open_at(index, end.at, joining)
    })
}

pub(super) fn ended_inside_a_transaction(index: &Index<'_>) -> u64 {
    ended(index, |end, client| {
        let before = index.entries.get(..end.at).unwrap_or_default();
        let mut calls = before.iter().rev().filter_map(|entry| match &entry.event {
            Event::Invoke { call, .. } if entry.who == *client => Some(call),
            _ => None,
        });
        let last = calls.find_map(|call| match call {
            Call::Begin { .. } => Some(true),
            Call::End { .. } | Call::InitProducer { .. } => Some(false),
            _ => None,
        });
        last == Some(true)
    })
}

pub(super) fn narrowed_in_use(index: &Index<'_>) -> u64 {
    let used = |end: &End<'_>| {
        let before = index.entries.get(..end.at).unwrap_or_default();
        before.iter().any(|entry| match &entry.event {
            Event::Served {
                principal, action, ..
            } => principal == end.principal && end.actions.contains(action),
            _ => false,
        })
    };
    ends(index).iter().filter(|end| used(end)).count() as u64
}

pub(super) fn served_as_successor(index: &Index<'_>) -> u64 {
    let ends = ends(index);
    let mut later: BTreeSet<usize> = BTreeSet::new();
    for (at, who, event) in index.events() {
        if let Event::Authenticated { principal, .. } = event {
            let succeeds = |end: &&End<'_>| {
                end.at < at && end.principal != principal && end.clients.contains(who)
            };
            later.extend(ends.iter().filter(succeeds).map(|end| end.at));
        }
    }
    later.len() as u64
}

pub(super) fn authenticated_again(index: &Index<'_>) -> u64 {
    let mut seen = BTreeSet::new();
    let mut times = 0;
    for (_, who, event) in index.events() {
        if let Event::Authenticated { connection, .. } = event {
            times += u64::from(!seen.insert((who, *connection)));
        }
    }
    times
}
