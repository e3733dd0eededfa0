//! How the leader of a group gives out partitions. Pure functions.
//!
//! Range and round robin are those of Kafka's RangeAssignor and RoundRobinAssignor. Cooperative
//! sticky keeps what members own, evens out the rest, and takes a partition away before anybody
//! else gets it (KIP-429); which member gets which partition is its own choice, as each library's
//! is.

use std::collections::{BTreeMap, BTreeSet};

use crate::history::{Name, TopicPartition};

/// A `partition.assignment.strategy`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Assignor {
    /// Consecutive partitions of each topic.
    Range,
    /// One partition after the other.
    RoundRobin,
    /// As before as far as that is even, and nothing moves before it is given up.
    CooperativeSticky,
}

/// A member as its subscription describes it.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Subscription {
    /// Its topics.
    pub topics: BTreeSet<Name>,
    /// What it says it owns.
    pub owned: BTreeSet<TopicPartition>,
    /// In which generation it got that; -1 where it doesn't say.
    pub generation: i32,
}

/// Who gets what.
pub type Assignment = BTreeMap<Name, BTreeSet<TopicPartition>>;

impl Assignor {
    /// Its name in JoinGroup.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Range => "range",
            Self::RoundRobin => "roundrobin",
            Self::CooperativeSticky => "cooperative-sticky",
        }
    }

    /// The one called `name`.
    pub fn named(name: &str) -> Option<Self> {
        [Self::Range, Self::RoundRobin, Self::CooperativeSticky]
            .into_iter()
            .find(|assignor| assignor.name() == name)
    }

    /// Whether members keep what they own while they join (KIP-429).
    pub const fn is_cooperative(self) -> bool {
        matches!(self, Self::CooperativeSticky)
    }

    /// Gives out the partitions of topics, of which `counts` says how many each has, to members by
    /// their ids. Every member is in the result.
    pub fn assign(
        self,
        members: &BTreeMap<Name, Subscription>,
        counts: &BTreeMap<Name, i32>,
    ) -> Assignment {
        let mut assignment: Assignment = members
            .keys()
            .map(|member| (member.clone(), BTreeSet::new()))
            .collect();
        match self {
            Self::Range => range(members, counts, &mut assignment),
            Self::RoundRobin => round_robin(members, counts, &mut assignment),
            Self::CooperativeSticky => {
                sticky(members, counts, &mut assignment);
                give_up_first(members, &mut assignment);
            }
        }
        assignment
    }
}

fn partitions(topic: &Name, count: i32) -> impl Iterator<Item = TopicPartition> {
    (0..count).map(move |partition| TopicPartition::new(topic.clone(), partition))
}

fn give(assignment: &mut Assignment, member: &Name, partition: TopicPartition) {
    let owned = assignment.entry(member.clone()).or_default();
    owned.insert(partition);
}

fn range(
    members: &BTreeMap<Name, Subscription>,
    counts: &BTreeMap<Name, i32>,
    assignment: &mut Assignment,
) {
    for (topic, &count) in counts {
        let takers: Vec<_> = members
            .iter()
            .filter(|(_, member)| member.topics.contains(topic))
            .map(|(id, _)| id)
            .collect();
        let all: Vec<_> = partitions(topic, count).collect();
        let (each, more) = match takers.len() {
            0 => continue,
            takers => (all.len() / takers, all.len() % takers),
        };
        let mut rest = all.into_iter();
        for (at, taker) in takers.into_iter().enumerate() {
            for partition in rest.by_ref().take(each + usize::from(at < more)) {
                give(assignment, taker, partition);
            }
        }
    }
}

fn round_robin(
    members: &BTreeMap<Name, Subscription>,
    counts: &BTreeMap<Name, i32>,
    assignment: &mut Assignment,
) {
    let ids: Vec<_> = members.keys().collect();
    let mut next = 0;
    for (topic, &count) in counts {
        for partition in partitions(topic, count) {
            let taker = (0..ids.len())
                .map(|step| (next + step) % ids.len())
                .find(|at| members[ids[*at]].topics.contains(topic));
            let Some(at) = taker else {
                continue;
            };
            give(assignment, ids[at], partition);
            next = (at + 1) % ids.len();
        }
    }
}

/// Who owns each partition, as far as the members' claims agree: the latest generation is right,
/// and of two in the same nobody is.
fn owners(members: &BTreeMap<Name, Subscription>) -> BTreeMap<TopicPartition, Name> {
    let mut claims: BTreeMap<&TopicPartition, Vec<(i32, &Name)>> = BTreeMap::new();
    for (id, member) in members {
        for partition in &member.owned {
            let claims = claims.entry(partition).or_default();
            claims.push((member.generation, id));
        }
    }
    let right = claims.into_iter().filter_map(|(partition, mut claims)| {
        claims.sort();
        let (generation, id) = claims.pop()?;
        let contested = claims.last().is_some_and(|(other, _)| *other == generation);
        (!contested).then(|| (partition.clone(), id.clone()))
    });
    right.collect()
}

fn sticky(
    members: &BTreeMap<Name, Subscription>,
    counts: &BTreeMap<Name, i32>,
    assignment: &mut Assignment,
) {
    let owners = owners(members);
    let wants = |id: &Name, topic: &Name| {
        members
            .get(id)
            .is_some_and(|member| member.topics.contains(topic))
    };
    let mut free = Vec::new();
    for (topic, &count) in counts {
        for partition in partitions(topic, count) {
            match owners.get(&partition).filter(|id| wants(id, topic)) {
                Some(owner) => give(assignment, owner, partition),
                None => free.push(partition),
            }
        }
    }
    for partition in free {
        let takers = assignment
            .iter()
            .filter(|(id, _)| wants(id, &partition.topic));
        let least = takers.min_by_key(|(id, owned)| (owned.len(), (*id).clone()));
        if let Some((taker, _)) = least {
            let taker = taker.clone();
            give(assignment, &taker, partition);
        }
    }
    // Each move makes the loads more even, so there are finitely many.
    while let Some((from, to, partition)) = uneven(assignment, wants) {
        assignment.entry(from).or_default().remove(&partition);
        give(assignment, &to, partition);
    }
}

/// A partition that its owner has too many of, and who should have it.
fn uneven(
    assignment: &Assignment,
    wants: impl Fn(&Name, &Name) -> bool,
) -> Option<(Name, Name, TopicPartition)> {
    for (to, has) in assignment {
        for (from, owned) in assignment {
            if owned.len() < has.len() + 2 {
                continue;
            }
            let movable = owned.iter().rev().find(|one| wants(to, &one.topic));
            if let Some(partition) = movable {
                return Some((from.clone(), to.clone(), partition.clone()));
            }
        }
    }
    None
}

/// What a member still owns goes to nobody else in this generation.
fn give_up_first(members: &BTreeMap<Name, Subscription>, assignment: &mut Assignment) {
    for (id, member) in members {
        for partition in &member.owned {
            for (other, owned) in assignment.iter_mut() {
                if other != id {
                    owned.remove(partition);
                }
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn members(topics: &[(&str, &[&str])]) -> BTreeMap<Name, Subscription> {
        let member = |(id, topics): &(&str, &[&str])| {
            let subscription = Subscription {
                topics: topics.iter().map(|topic| Name::from(*topic)).collect(),
                ..Subscription::default()
            };
            (Name::from(*id), subscription)
        };
        topics.iter().map(member).collect()
    }

    fn counts(counts: &[(&str, i32)]) -> BTreeMap<Name, i32> {
        let count = |(topic, count): &(&str, i32)| (Name::from(*topic), *count);
        counts.iter().map(count).collect()
    }

    fn shown(assignment: &Assignment) -> Vec<String> {
        let show = |(id, owned): (&Name, &BTreeSet<TopicPartition>)| {
            let owned: Vec<_> = owned.iter().map(ToString::to_string).collect();
            format!("{id}: {}", owned.join(" "))
        };
        assignment.iter().map(show).collect()
    }

    /// The examples in the documentation of RangeAssignor and RoundRobinAssignor.
    #[test]
    fn the_eager_ones_are_kafkas() {
        let both: &[&str] = &["t0", "t1"];
        let members = members(&[("c0", both), ("c1", both)]);
        let counts = counts(&[("t0", 3), ("t1", 3)]);
        assert_eq!(
            shown(&Assignor::Range.assign(&members, &counts)),
            ["c0: t0-0 t0-1 t1-0 t1-1", "c1: t0-2 t1-2"]
        );
        assert_eq!(
            shown(&Assignor::RoundRobin.assign(&members, &counts)),
            ["c0: t0-0 t0-2 t1-1", "c1: t0-1 t1-0 t1-2"]
        );
    }

    #[test]
    fn round_robin_skips_who_has_not_subscribed() {
        let members = members(&[
            ("c0", &["t0"]),
            ("c1", &["t0", "t1"]),
            ("c2", &["t0", "t1", "t2"]),
        ]);
        let counts = counts(&[("t0", 1), ("t1", 2), ("t2", 3)]);
        assert_eq!(
            shown(&Assignor::RoundRobin.assign(&members, &counts)),
            ["c0: t0-0", "c1: t1-0", "c2: t1-1 t2-0 t2-1 t2-2"]
        );
    }

    fn owns(members: &mut BTreeMap<Name, Subscription>, assignment: &Assignment, generation: i32) {
        for (id, owned) in assignment {
            if let Some(member) = members.get_mut(id) {
                member.owned = owned.clone();
                member.generation = generation;
            }
        }
    }

    #[test]
    fn a_partition_moves_in_two_generations() {
        let sticky = Assignor::CooperativeSticky;
        let counts = counts(&[("t", 4)]);
        let mut group = members(&[("a", &["t"])]);
        let first = sticky.assign(&group, &counts);
        assert_eq!(shown(&first), ["a: t-0 t-1 t-2 t-3"]);
        group.extend(members(&[("b", &["t"])]));
        owns(&mut group, &first, 1);
        let second = sticky.assign(&group, &counts);
        assert_eq!(shown(&second), ["a: t-0 t-1", "b: "]);
        owns(&mut group, &second, 2);
        let third = sticky.assign(&group, &counts);
        assert_eq!(shown(&third), ["a: t-0 t-1", "b: t-2 t-3"]);
    }

    #[test]
    fn an_old_claim_counts_for_nothing_and_two_new_ones_neither() {
        let mut group = members(&[("a", &["t"]), ("b", &["t"])]);
        let claim = |group: &mut BTreeMap<Name, Subscription>, id: &str, generation| {
            let member = group.get_mut(&Name::from(id)).expect("a member");
            member.owned = [TopicPartition::new("t", 0)].into();
            member.generation = generation;
        };
        claim(&mut group, "a", 3);
        claim(&mut group, "b", 4);
        assert_eq!(
            owners(&group).get(&TopicPartition::new("t", 0)),
            Some(&Name::from("b"))
        );
        claim(&mut group, "a", 4);
        assert!(owners(&group).is_empty());
    }

    fn subscriptions() -> impl Strategy<Value = BTreeMap<Name, Subscription>> {
        let topics = proptest::collection::btree_set(0..3_usize, 1..=3);
        proptest::collection::vec(topics, 1..6).prop_map(|members| {
            let member = |(at, topics): (usize, BTreeSet<usize>)| {
                let topics = topics
                    .into_iter()
                    .map(|topic| Name::from(format!("t{topic}")));
                let subscription = Subscription {
                    topics: topics.collect(),
                    owned: BTreeSet::new(),
                    generation: -1,
                };
                (Name::from(format!("m{at}")), subscription)
            };
            members.into_iter().enumerate().map(member).collect()
        })
    }

    proptest! {
        #[test]
        fn everything_wanted_goes_to_one_who_wants_it(
            members in subscriptions(),
            sizes in proptest::array::uniform3(0..5_i32),
        ) {
            let counts: BTreeMap<_, _> = sizes
                .iter()
                .enumerate()
                .map(|(topic, size)| (Name::from(format!("t{topic}")), *size))
                .collect();
            for assignor in [Assignor::Range, Assignor::RoundRobin, Assignor::CooperativeSticky] {
                let assignment = assignor.assign(&members, &counts);
                for (topic, &count) in &counts {
                    let wanted = members.values().any(|member| member.topics.contains(topic));
                    for partition in partitions(topic, count) {
                        let takers: Vec<_> = assignment
                            .iter()
                            .filter(|(_, owned)| owned.contains(&partition))
                            .map(|(id, _)| id)
                            .collect();
                        prop_assert_eq!(takers.len(), usize::from(wanted), "{}", partition);
                        for taker in takers {
                            prop_assert!(members[taker].topics.contains(topic));
                        }
                    }
                }
            }
        }

        #[test]
        fn sticky_settles_evenly_without_ever_having_two_owners(
            count in 0..12_i32,
            sizes in proptest::collection::vec(1..6_usize, 1..5),
        ) {
            let counts = counts(&[("t", count)]);
            let mut held = Assignment::new();
            for (round, size) in sizes.iter().enumerate() {
                let ids: Vec<String> = (0..*size).map(|at| format!("m{at}")).collect();
                let topics: &[&str] = &["t"];
                let listed: Vec<_> = ids.iter().map(|id| (id.as_str(), topics)).collect();
                // Leavers give up all they own; the others settle within two generations.
                for generation in 0..2 {
                    let mut group = members(&listed);
                    owns(&mut group, &held, i32::try_from(2 * round + generation).unwrap());
                    held = Assignor::CooperativeSticky.assign(&group, &counts);
                    for (id, owned) in &held {
                        for (other, theirs) in &group {
                            prop_assert!(
                                other == id || owned.is_disjoint(&theirs.owned),
                                "{id} gets what {other} still owns"
                            );
                        }
                    }
                }
                let loads: Vec<_> = held.values().map(BTreeSet::len).collect();
                let (most, least) = (loads.iter().max(), loads.iter().min());
                prop_assert!(most.unwrap() - least.unwrap() <= 1, "{loads:?}");
                prop_assert_eq!(loads.iter().sum::<usize>(), usize::try_from(count).unwrap());
            }
        }
    }
}
