//! Whatever is queued by whomever: nothing is lost, each group keeps its order, and none waits for
//! another's thousands.

use proptest::collection::vec;
use proptest::prelude::*;

use super::*;
use crate::offsets::commit::Receipt;
use crate::offsets::{OffsetRow, Tenant};
use crate::queen::Scope;

fn credential(n: usize) -> Credential {
    Credential {
        bearer: Some(host::Secret::new(format!("token-{n}"))),
        host: None,
    }
}

/// A commit of `rows` partitions that nobody commits again: the first is `first`.
fn commit(group: usize, token: usize, first: i32, rows: usize) -> Commit {
    let group = format!("g{group}");
    let row = |offset| OffsetRow {
        offset,
        metadata: None,
        ts: 1,
    };
    let change = |n: i32| {
        let key = OffsetKey::new(&group, "t", n).unwrap();
        (key, Change::Put(row(i64::from(n))))
    };
    let changes = (first..).take(rows).map(change).collect();
    Commit {
        tenant: Tenant {
            scope: Scope::new("scope"),
            credential: credential(token),
        },
        group: group.into(),
        protocol_type: "consumer".into(),
        changes,
    }
}

/// The offsets that a call writes, by group.
fn written(call: &Gathered) -> BTreeMap<Arc<str>, Vec<i64>> {
    let mut rows: BTreeMap<Arc<str>, Vec<i64>> = BTreeMap::new();
    for entry in call.entries.values() {
        if let Write::Offset(Change::Put(row)) = &entry.write {
            let of_group = rows.entry(Arc::clone(&entry.group)).or_default();
            of_group.push(row.offset);
        }
    }
    rows
}

fn push(queue: &mut Queue, commit: Commit) -> bool {
    let (_receipt, reply) = Receipt::new(commit.changes.len());
    queue.push(commit, &reply).is_ok()
}

#[test]
fn a_group_with_thousands_of_offsets_lets_the_others_into_the_next_call() {
    let mut queue = Queue::new(None);
    assert!(push(&mut queue, commit(0, 0, 0, 60_000)));
    for n in 1..=20 {
        assert!(push(&mut queue, commit(n, 0, 0, 1)));
    }
    let call = queue.gather(0).unwrap();
    let rows = written(&call);
    assert_eq!(rows.len(), 21, "everybody is in the first call");
    assert!(call.entries.len() > MAX_OPERATIONS - 3, "and it is full");
}

#[test]
fn a_group_that_is_refused_has_no_other_refused() {
    let mut queue = Queue::new(None);
    assert!(push(&mut queue, commit(0, 0, 0, OF_GROUP.writes)));
    assert!(!push(&mut queue, commit(0, 0, 0, 1)));
    assert!(push(&mut queue, commit(1, 0, 0, 1)));
    while queue.gather(0).is_some() {}
    assert_eq!(queue.size, Size::default());
    assert!(queue.is_empty() && queue.groups.is_empty());
}

proptest! {
    #[test]
    fn every_group_keeps_its_order_and_has_its_turns(
        commits in vec((0..6_usize, 0..3_usize, 1..400_usize), 1..40),
        gather_after in vec(0..3_usize, 40),
    ) {
        let mut queue = Queue::new(None);
        let mut queued: BTreeMap<Arc<str>, Vec<i64>> = BTreeMap::new();
        let mut seen: BTreeMap<Arc<str>, Vec<i64>> = BTreeMap::new();
        let mut next = 0;
        let mut gather = |queue: &mut Queue| {
            let before = queue.turns.clone();
            let Some(call) = queue.gather(0) else {
                return;
            };
            assert!(call.entries.len() <= MAX_OPERATIONS);
            let rows = written(&call);
            assert!(!rows.is_empty(), "a call that writes nothing");
            let first = before.front().expect("there was something");
            assert!(rows.contains_key(first), "the first in turn is served");
            // Who got nothing of a call of its own credential saw it filled by turns.
            let of_call = |group: &Arc<str>| {
                let job = queue.groups.get(group).and_then(|waiting| waiting.jobs.front());
                job.is_some_and(|job| job.credential == call.credential && job.taken == 0)
            };
            let unserved = before.iter().any(|group| !rows.contains_key(group) && of_call(group));
            if unserved {
                assert!(call.entries.len() + 3 > MAX_OPERATIONS, "there was room");
                assert!(rows.values().all(|rows| rows.len() <= TURN.writes), "{rows:?}");
            }
            for (group, mut rows) in rows {
                seen.entry(group).or_default().append(&mut rows);
            }
        };
        for ((group, token, rows), gathers) in commits.into_iter().zip(gather_after) {
            let commit = commit(group, token, next, rows);
            let offsets = (i64::from(next)..).take(rows);
            queued.entry(Arc::clone(&commit.group)).or_default().extend(offsets);
            next += rows as i32;
            prop_assert!(push(&mut queue, commit));
            for _ in 0..gathers {
                gather(&mut queue);
            }
        }
        while !queue.is_empty() {
            gather(&mut queue);
        }
        prop_assert_eq!(seen, queued);
        prop_assert_eq!(queue.size, Size::default());
        prop_assert!(queue.groups.is_empty());
    }
}
