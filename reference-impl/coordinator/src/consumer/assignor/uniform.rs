//! Balanced and sticky: as few partitions move as balance allows.
//!
//! Everybody keeps what is still theirs; what nobody has goes to the least loaded; then partitions
//! move from the most to the least loaded of those that subscribe to them while that evens two
//! members out. With one subscription for all, loads differ by one at most.

use std::collections::{BTreeMap, BTreeSet};

use super::super::ids::{Partitions, TopicPartition};
use super::{Class, GroupSpec};

pub(super) fn assign(group: &GroupSpec<'_>) -> Vec<Partitions> {
    let mut classes = group.classes();
    // Those with little choice first: the others can still even them out.
    classes.sort_by_key(|class| class.members.len());
    let mut work = Work::keep(group, &classes);
    for (index, class) in classes.iter().enumerate() {
        work.hand_out(group, index, class);
    }
    // Each move lowers the sum of the squared loads, so this ends.
    loop {
        let mut moved = false;
        for (index, class) in classes.iter().enumerate() {
            moved |= work.even_out(index, class);
        }
        if !moved {
            break;
        }
    }
    work.assigned()
}

struct Work {
    /// Partitions of each class that each member has: sparse, since there may be many classes.
    held: BTreeMap<(usize, usize), Partitions>,
    loads: Vec<usize>,
}

impl Work {
    /// What each member had and may keep.
    fn keep(group: &GroupSpec<'_>, classes: &[Class]) -> Self {
        let mut work = Self {
            held: BTreeMap::new(),
            loads: vec![0; group.members.len()],
        };
        for (class_index, class) in classes.iter().enumerate() {
            let mut taken = Partitions::new();
            for &index in &class.members {
                let Some(current) = group.members[index].current else {
                    continue;
                };
                for &topic in &class.topics {
                    let first = TopicPartition::new(topic, 0);
                    let end = TopicPartition::new(topic, group.width(topic));
                    for partition in current.range(first..end) {
                        if taken.insert(*partition) {
                            work.give(index, class_index, *partition);
                        }
                    }
                }
            }
        }
        work
    }

    fn give(&mut self, member: usize, class: usize, partition: TopicPartition) {
        let held = self.held.entry((class, member)).or_default();
        held.insert(partition);
        self.loads[member] += 1;
    }

    fn holds_some(&self, member: usize, class: usize) -> bool {
        let held = self.held.get(&(class, member));
        held.is_some_and(|held| !held.is_empty())
    }

    /// The members of a class, least loaded first.
    fn by_load(&self, class: &Class) -> BTreeSet<(usize, usize)> {
        let entry = |&index: &usize| (self.loads[index], index);
        class.members.iter().map(entry).collect()
    }

    /// Gives what nobody has to the least loaded, in order.
    fn hand_out(&mut self, group: &GroupSpec<'_>, class_index: usize, class: &Class) {
        let taken: Partitions = class
            .members
            .iter()
            .filter_map(|&index| self.held.get(&(class_index, index)))
            .flatten()
            .copied()
            .collect();
        let mut by_load = self.by_load(class);
        for &topic in &class.topics {
            for number in 0..group.width(topic) {
                let partition = TopicPartition::new(topic, number);
                if taken.contains(&partition) {
                    continue;
                }
                if let Some((load, index)) = by_load.pop_first() {
                    self.give(index, class_index, partition);
                    by_load.insert((load + 1, index));
                }
            }
        }
    }

    /// Moves partitions of a class from its most to its least loaded members; false when none moved.
    fn even_out(&mut self, class_index: usize, class: &Class) -> bool {
        let mut by_load = self.by_load(class);
        let mut donors: BTreeSet<(usize, usize)> = by_load
            .iter()
            .filter(|&&(_, index)| self.holds_some(index, class_index))
            .copied()
            .collect();
        let mut moved = false;
        while let (Some(&(most, from)), Some(&(least, to))) = (donors.last(), by_load.first()) {
            if most < least + 2 {
                break;
            }
            let held = self.held.get_mut(&(class_index, from));
            let Some(partition) = held.and_then(Partitions::pop_last) else {
                donors.pop_last();
                continue;
            };
            self.loads[from] -= 1;
            self.give(to, class_index, partition);
            by_load.remove(&(most, from));
            by_load.insert((most - 1, from));
            by_load.remove(&(least, to));
            by_load.insert((least + 1, to));
            donors.remove(&(most, from));
            if self.holds_some(from, class_index) {
                donors.insert((most - 1, from));
            }
            donors.remove(&(least, to));
            donors.insert((least + 1, to));
            moved = true;
        }
        moved
    }

    fn assigned(self) -> Vec<Partitions> {
        let mut assigned = vec![Partitions::new(); self.loads.len()];
        for ((_, member), held) in self.held {
            assigned[member].extend(held);
        }
        assigned
    }
}
