//! Both assignors against what they promise, on random groups.

use std::collections::{BTreeMap, BTreeSet};

use proptest::prelude::*;
use uuid::Uuid;

use crate::classic::{InstanceId, MemberId};
use crate::consumer::ids::{Partitions, TopicPartition};

use super::{Assignor, GroupSpec, MemberSpec};

fn topic(number: usize) -> Uuid {
    Uuid::from_u128(1 + number as u128)
}

fn ids(count: usize) -> Vec<MemberId> {
    (0..count)
        .map(|n| MemberId::new(&format!("m{n:03}")))
        .collect()
}

/// Members `ids`, each with a subscription (an index) and what it had.
fn spec<'a>(
    ids: &'a [MemberId],
    subscriptions: &[Vec<usize>],
    chosen: &[usize],
    widths: &[i32],
    current: &'a [Partitions],
) -> GroupSpec<'a> {
    GroupSpec {
        members: ids
            .iter()
            .zip(chosen)
            .enumerate()
            .map(|(n, (member_id, &subscription))| MemberSpec {
                member_id,
                instance_id: None,
                subscription,
                current: current.get(n),
            })
            .collect(),
        subscriptions: subscriptions
            .iter()
            .map(|topics| topics.iter().map(|&n| topic(n)).collect())
            .collect(),
        widths: widths
            .iter()
            .enumerate()
            .map(|(n, &width)| (topic(n), width))
            .collect(),
    }
}

fn numbers(assigned: &Partitions, of: usize) -> Vec<i32> {
    assigned
        .iter()
        .filter(|partition| partition.topic == topic(of))
        .map(|partition| partition.partition)
        .collect()
}

/// Every subscribed partition once, each with somebody who subscribes to it.
fn check_covers(group: &GroupSpec<'_>, assigned: &[Partitions]) {
    let mut seen = Partitions::new();
    for (member, partitions) in group.members.iter().zip(assigned) {
        for partition in partitions {
            assert!(seen.insert(*partition), "{partition:?} has one owner");
            assert!(group.subscriptions[member.subscription].contains(&partition.topic));
        }
    }
    let subscribed: BTreeSet<Uuid> = group
        .members
        .iter()
        .flat_map(|member| group.subscriptions[member.subscription].iter().copied())
        .collect();
    let expected: usize = subscribed
        .iter()
        .map(|topic| group.widths[topic] as usize)
        .sum();
    assert_eq!(seen.len(), expected, "every partition has an owner");
}

/// No single move between two members that could make it evens them out.
fn check_balanced(group: &GroupSpec<'_>, assigned: &[Partitions]) {
    let load: Vec<usize> = assigned.iter().map(Partitions::len).collect();
    for (from, partitions) in assigned.iter().enumerate() {
        for topic in partitions.iter().map(|p| p.topic).collect::<BTreeSet<_>>() {
            for (to, member) in group.members.iter().enumerate() {
                if group.subscriptions[member.subscription].contains(&topic) {
                    assert!(load[from] < load[to] + 2, "{from} could give to {to}");
                }
            }
        }
    }
}

fn moved(before: &[Partitions], after: &[Partitions]) -> usize {
    let pairs = before.iter().zip(after);
    pairs
        .map(|(before, after)| before.difference(after).count())
        .sum()
}

#[test]
fn range_gives_neighbours_and_puts_co_partitioned_topics_side_by_side() {
    let ids = ids(3);
    let group = spec(&ids, &[vec![0, 1]], &[0, 0, 0], &[7, 7], &[]);
    let assigned = Assignor::Range.assign(&group);
    for of in [0, 1] {
        assert_eq!(numbers(&assigned[0], of), [0, 1, 2]);
        assert_eq!(numbers(&assigned[1], of), [3, 4]);
        assert_eq!(numbers(&assigned[2], of), [5, 6]);
    }
}

#[test]
fn range_puts_static_members_first_whatever_their_ids() {
    let ids = ids(2);
    let instance = InstanceId::new("a");
    let mut group = spec(&ids, &[vec![0]], &[0, 0], &[3], &[]);
    group.members[1].instance_id = Some(&instance);
    let assigned = Assignor::Range.assign(&group);
    assert_eq!(numbers(&assigned[1], 0), [0, 1]);
    assert_eq!(numbers(&assigned[0], 0), [2]);
}

#[test]
fn uniform_moves_only_what_a_newcomer_needs() {
    let three = ids(3);
    let current = [
        (0..6).map(|n| TopicPartition::new(topic(0), n)).collect(),
        (6..12).map(|n| TopicPartition::new(topic(0), n)).collect(),
    ];
    let group = spec(&three, &[vec![0]], &[0, 0, 0], &[12], &current);
    let assigned = Assignor::Uniform.assign(&group);
    assert_eq!(
        assigned.iter().map(Partitions::len).collect::<Vec<_>>(),
        [4, 4, 4]
    );
    assert_eq!(moved(&current, &assigned), 4);
}

#[test]
fn uniform_spreads_each_topic_over_its_members() {
    let four = ids(4);
    let group = spec(&four, &[vec![0, 1]], &[0; 4], &[4, 4], &[]);
    let assigned = Assignor::Uniform.assign(&group);
    for member in &assigned {
        assert_eq!((numbers(member, 0).len(), numbers(member, 1).len()), (1, 1));
    }
}

/// Subscriptions over `topics` topics, and each member's choice among them.
fn groups() -> impl Strategy<Value = (Vec<i32>, Vec<Vec<usize>>, Vec<usize>)> {
    (1..6_usize, 1..5_usize).prop_flat_map(|(topics, subscriptions)| {
        let subscription = proptest::collection::btree_set(0..topics, 0..=topics)
            .prop_map(|set| set.into_iter().collect::<Vec<_>>());
        (
            proptest::collection::vec(1..20_i32, topics),
            proptest::collection::vec(subscription, subscriptions),
            proptest::collection::vec(0..subscriptions, 1..9),
        )
    })
}

proptest! {
    #[test]
    fn every_partition_has_one_owner_that_wants_it(
        (widths, subscriptions, chosen) in groups(),
        uniform in any::<bool>(),
    ) {
        let assignor = if uniform { Assignor::Uniform } else { Assignor::Range };
        let ids = ids(chosen.len());
        let group = spec(&ids, &subscriptions, &chosen, &widths, &[]);
        let assigned = assignor.assign(&group);
        check_covers(&group, &assigned);
        if uniform {
            check_balanced(&group, &assigned);
        }
    }

    #[test]
    fn uniform_is_stable_balanced_and_sticky(
        (widths, subscriptions, chosen) in groups(),
        leaves in any::<prop::sample::Index>(),
        wider in any::<prop::sample::Index>(),
    ) {
        let mut ids = ids(chosen.len());
        let mut chosen = chosen;
        let group = spec(&ids, &subscriptions, &chosen, &widths, &[]);
        let mut before = Assignor::Uniform.assign(&group);
        let group = spec(&ids, &subscriptions, &chosen, &widths, &before);
        prop_assert_eq!(&Assignor::Uniform.assign(&group), &before, "nothing changed");

        let leaver = leaves.index(ids.len());
        ids.remove(leaver);
        chosen.remove(leaver);
        before.remove(leaver);
        let mut widths = widths;
        let widened = wider.index(widths.len());
        widths[widened] += 3;
        let group = spec(&ids, &subscriptions, &chosen, &widths, &before);
        let after = Assignor::Uniform.assign(&group);
        check_covers(&group, &after);
        check_balanced(&group, &after);
        let one_subscription = chosen.iter().all(|&choice| choice == chosen[0]);
        if one_subscription && !chosen.is_empty() {
            // Whoever stays had no more than the fair share of before, which only grew.
            prop_assert_eq!(moved(&before, &after), 0);
        }
    }

    #[test]
    fn the_order_of_topics_and_earlier_rounds_does_not_lose_balance(
        widths in proptest::collection::vec(1..30_i32, 1..4),
        sizes in proptest::collection::vec(1..7_usize, 1..6),
    ) {
        // Members come and go; with one subscription loads differ by one at most, always.
        let topics: Vec<usize> = (0..widths.len()).collect();
        let mut current: BTreeMap<usize, Partitions> = BTreeMap::new();
        for size in sizes {
            let ids = ids(size);
            let had: Vec<Partitions> =
                (0..size).map(|n| current.get(&n).cloned().unwrap_or_default()).collect();
            let group = spec(&ids, std::slice::from_ref(&topics), &vec![0; size], &widths, &had);
            let assigned = Assignor::Uniform.assign(&group);
            check_covers(&group, &assigned);
            let loads: Vec<usize> = assigned.iter().map(Partitions::len).collect();
            prop_assert!(loads.iter().max().unwrap() - loads.iter().min().unwrap() <= 1);
            current = assigned.into_iter().enumerate().collect();
        }
    }
}
