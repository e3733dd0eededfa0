//! Where a consumer is in each of its partitions, and what it has fetched and not handed out. No
//! I/O and no clock.

use std::collections::{BTreeMap, BTreeSet, VecDeque};

use host::Monotonic;

use crate::client::records::Read;
use crate::history::{Polled, Seen, TopicPartition};

/// Where a position comes from.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Start {
    /// The group's committed offset, or the reset where there is none.
    Committed,
    /// `auto.offset.reset`.
    Reset,
    /// This offset.
    At(i64),
}

#[derive(Clone, Debug)]
enum Place {
    /// It is to be asked for.
    Committed,
    /// It is to be asked for.
    Reset,
    /// The next offset to be handed out.
    At(i64),
    /// It can't be read on.
    Stuck,
}

#[derive(Clone, Debug)]
struct Partition {
    place: Place,
    paused: bool,
    not_before: Option<Monotonic>,
    fetched: VecDeque<Seen>,
    /// Where it goes on behind what is fetched.
    next: i64,
    /// What is committed, or on its way.
    committed: Option<i64>,
}

/// The partitions of a consumer.
#[derive(Clone, Debug, Default)]
pub struct Positions {
    partitions: BTreeMap<TopicPartition, Partition>,
    /// The partition after which the next poll begins, so that none starves.
    after: Option<TopicPartition>,
}

impl Positions {
    /// Adds partitions; those that are there already stay as they are.
    pub fn add(&mut self, partitions: impl IntoIterator<Item = TopicPartition>, start: Start) {
        for at in partitions {
            self.partitions.entry(at).or_insert_with(|| Partition {
                place: match start {
                    Start::Committed => Place::Committed,
                    Start::Reset => Place::Reset,
                    Start::At(offset) => Place::At(offset),
                },
                paused: false,
                not_before: None,
                fetched: VecDeque::new(),
                next: 0,
                committed: None,
            });
        }
    }

    /// Drops partitions, with what was fetched of them.
    pub fn remove(&mut self, partitions: &BTreeSet<TopicPartition>) {
        self.partitions.retain(|at, _| !partitions.contains(at));
    }

    /// All of them.
    pub fn all(&self) -> BTreeSet<TopicPartition> {
        self.partitions.keys().cloned().collect()
    }

    /// Those whose committed offset is to be asked for.
    pub fn want_committed(&self) -> Vec<TopicPartition> {
        self.in_place(|place| matches!(place, Place::Committed))
    }

    /// Those whose reset offset is to be asked for.
    pub fn want_reset(&self) -> Vec<TopicPartition> {
        self.in_place(|place| matches!(place, Place::Reset))
    }

    fn in_place(&self, is: impl Fn(&Place) -> bool) -> Vec<TopicPartition> {
        let there = self.partitions.iter().filter(|(_, one)| is(&one.place));
        there.map(|(at, _)| at.clone()).collect()
    }

    /// Those to be fetched now, and from where.
    pub fn fetchable(&self, now: Monotonic) -> BTreeMap<TopicPartition, i64> {
        let ready = |one: &Partition| {
            let Place::At(offset) = one.place else {
                return None;
            };
            let waits = one.not_before.is_some_and(|not_before| not_before > now);
            (!one.paused && !waits && one.fetched.is_empty()).then_some(offset)
        };
        let all = self.partitions.iter();
        all.filter_map(|(at, one)| Some((at.clone(), ready(one)?)))
            .collect()
    }

    /// When another partition becomes fetchable by itself.
    pub fn next_deadline(&self, now: Monotonic) -> Option<Monotonic> {
        let waits = self.partitions.values().filter_map(|one| one.not_before);
        waits.filter(|not_before| *not_before > now).min()
    }

    /// The committed offset of `at`, if there is one. Says where it begins, if that is known now.
    pub fn handle_committed(&mut self, at: &TopicPartition, offset: Option<i64>) -> Option<i64> {
        let one = self.partitions.get_mut(at)?;
        if !matches!(one.place, Place::Committed) {
            return None;
        }
        one.committed = offset;
        one.place = offset.map_or(Place::Reset, Place::At);
        offset
    }

    /// The reset offset of `at`. Whether it is used.
    pub fn handle_reset(&mut self, at: &TopicPartition, offset: i64) -> bool {
        let Some(one) = self.partitions.get_mut(at) else {
            return false;
        };
        let wanted = matches!(one.place, Place::Reset);
        if wanted {
            one.place = Place::At(offset);
        }
        wanted
    }

    /// What a fetch from `asked` on brought. Whether it is of use: the partition may have gone, or
    /// been moved, since.
    pub(in crate::client) fn handle_fetched(
        &mut self,
        at: &TopicPartition,
        asked: i64,
        read: Read,
    ) -> bool {
        let Some(one) = self.partitions.get_mut(at) else {
            return false;
        };
        if !matches!(one.place, Place::At(offset) if offset == asked) || !one.fetched.is_empty() {
            return false;
        }
        one.not_before = None;
        one.next = read.next;
        if read.records.is_empty() {
            // Only what nobody sees: go on behind it.
            one.place = Place::At(read.next);
        }
        one.fetched = read.records.into();
        true
    }

    /// The log does not hold `asked`: back to the reset.
    pub fn handle_out_of_range(&mut self, at: &TopicPartition, asked: i64) {
        if let Some(one) = self.partitions.get_mut(at)
            && matches!(one.place, Place::At(offset) if offset == asked)
        {
            one.place = Place::Reset;
        }
    }

    /// Not to be fetched before then.
    pub fn back_off(&mut self, at: &TopicPartition, until: Monotonic) {
        if let Some(one) = self.partitions.get_mut(at) {
            one.not_before = Some(until);
        }
    }

    /// It can't be read on.
    pub fn give_up(&mut self, at: &TopicPartition) {
        if let Some(one) = self.partitions.get_mut(at) {
            one.place = Place::Stuck;
        }
    }

    /// Goes to `offset`, and forgets what was fetched. Whether the partition is there.
    pub fn seek(&mut self, at: &TopicPartition, offset: i64) -> bool {
        let Some(one) = self.partitions.get_mut(at) else {
            return false;
        };
        one.place = Place::At(offset);
        one.fetched.clear();
        true
    }

    /// Everywhere back to the committed offset, which is to be asked for.
    pub fn rewind(&mut self) {
        for one in self.partitions.values_mut() {
            if !matches!(one.place, Place::Stuck) {
                one.place = Place::Committed;
                one.fetched.clear();
            }
        }
    }

    /// Neither fetches nor hands out, until [`resume`](Self::resume).
    pub fn pause(&mut self, at: &TopicPartition) {
        if let Some(one) = self.partitions.get_mut(at) {
            one.paused = true;
        }
    }

    /// Goes on after [`pause`](Self::pause).
    pub fn resume(&mut self, at: &TopicPartition) {
        if let Some(one) = self.partitions.get_mut(at) {
            one.paused = false;
        }
    }

    /// The next offset to be handed out.
    pub fn position(&self, at: &TopicPartition) -> Option<i64> {
        match self.partitions.get(at)?.place {
            Place::At(offset) => Some(offset),
            _ => None,
        }
    }

    /// Hands out at most `max` records.
    pub fn take(&mut self, max: usize) -> Vec<Polled> {
        let mut order: Vec<_> = self.partitions.keys().cloned().collect();
        if let Some(after) = &self.after {
            let first = order.partition_point(|at| at <= after);
            order.rotate_left(first);
        }
        let mut left = max;
        let mut polled = Vec::new();
        for at in order {
            let Some(one) = self.partitions.get_mut(&at) else {
                continue;
            };
            let Place::At(from) = one.place else {
                continue;
            };
            if left == 0 || one.paused || one.fetched.is_empty() {
                continue;
            }
            let count = left.min(one.fetched.len());
            let records: Vec<Seen> = one.fetched.drain(..count).collect();
            left -= count;
            let next = match one.fetched.front() {
                Some(first) => first.offset,
                None => one.next,
            };
            one.place = Place::At(next);
            self.after = Some(at.clone());
            polled.push(Polled {
                at,
                from,
                next,
                records,
            });
        }
        polled
    }

    /// The positions that differ from what is committed, as far as `of` goes.
    pub fn uncommitted(
        &self,
        of: Option<&BTreeSet<TopicPartition>>,
    ) -> BTreeMap<TopicPartition, i64> {
        let differs = |(at, one): (&TopicPartition, &Partition)| {
            let Place::At(offset) = one.place else {
                return None;
            };
            let asked = of.is_none_or(|of| of.contains(at));
            (asked && one.committed != Some(offset)).then(|| (at.clone(), offset))
        };
        self.partitions.iter().filter_map(differs).collect()
    }

    /// These offsets are committed.
    pub fn handle_commit(&mut self, offsets: &BTreeMap<TopicPartition, i64>) {
        for (at, offset) in offsets {
            if let Some(one) = self.partitions.get_mut(at) {
                one.committed = Some(*offset);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;
    use crate::history::Value;

    fn at(partition: i32) -> TopicPartition {
        TopicPartition::new("t", partition)
    }

    fn read(offsets: std::ops::Range<i64>, next: i64) -> Read {
        let seen = |offset| Seen {
            offset,
            value: Value {
                producer: 0,
                number: offset.unsigned_abs(),
            },
            digest: None,
        };
        Read {
            records: offsets.map(seen).collect(),
            next,
        }
    }

    fn now() -> Monotonic {
        Monotonic::from_origin(Duration::from_secs(1))
    }

    fn shown(polled: &[Polled]) -> Vec<(i32, i64, i64, usize)> {
        let show = |one: &Polled| (one.at.partition, one.from, one.next, one.records.len());
        polled.iter().map(show).collect()
    }

    #[test]
    fn a_partition_begins_where_it_was_committed_or_reset() {
        let mut positions = Positions::default();
        positions.add([at(0), at(1)], Start::Committed);
        assert_eq!(positions.want_committed(), [at(0), at(1)]);
        assert!(positions.fetchable(now()).is_empty());
        assert_eq!(positions.handle_committed(&at(0), Some(5)), Some(5));
        assert_eq!(positions.handle_committed(&at(1), None), None);
        assert_eq!(positions.want_reset(), [at(1)]);
        assert!(positions.handle_reset(&at(1), 2));
        assert!(!positions.handle_reset(&at(1), 3), "it was not asked for");
        assert_eq!(positions.fetchable(now()), [(at(0), 5), (at(1), 2)].into());
    }

    #[test]
    fn records_are_handed_out_in_turns_and_fetched_when_they_are_gone() {
        let mut positions = Positions::default();
        positions.add([at(0), at(1)], Start::At(0));
        assert!(positions.handle_fetched(&at(0), 0, read(0..3, 4)));
        assert!(positions.handle_fetched(&at(1), 0, read(0..1, 1)));
        assert_eq!(shown(&positions.take(2)), [(0, 0, 2, 2)]);
        assert_eq!(
            shown(&positions.take(9)),
            [(1, 0, 1, 1), (0, 2, 4, 1)],
            "the other one first, and behind what nobody sees"
        );
        assert_eq!(positions.fetchable(now()), [(at(0), 4), (at(1), 1)].into());
        assert!(positions.handle_fetched(&at(0), 4, read(0..0, 6)));
        assert_eq!(positions.position(&at(0)), Some(6));
    }

    #[test]
    fn what_was_fetched_for_another_position_is_of_no_use() {
        let mut positions = Positions::default();
        positions.add([at(0)], Start::At(0));
        positions.seek(&at(0), 7);
        assert!(!positions.handle_fetched(&at(0), 0, read(0..3, 3)));
        positions.remove(&[at(0)].into());
        assert!(!positions.handle_fetched(&at(0), 7, read(7..9, 9)));
        positions.add([at(0)], Start::Committed);
        assert!(!positions.handle_fetched(&at(0), 7, read(7..9, 9)));
        assert!(positions.take(9).is_empty());
    }

    #[test]
    fn paused_and_failed_partitions_rest() {
        let mut positions = Positions::default();
        positions.add([at(0), at(1), at(2)], Start::At(0));
        positions.handle_fetched(&at(0), 0, read(0..1, 1));
        positions.pause(&at(0));
        let later = now() + Duration::from_millis(5);
        positions.back_off(&at(1), later);
        assert!(positions.take(9).is_empty());
        assert_eq!(positions.fetchable(now()), [(at(2), 0)].into());
        assert_eq!(positions.next_deadline(now()), Some(later));
        assert_eq!(positions.fetchable(later), [(at(1), 0), (at(2), 0)].into());
        positions.resume(&at(0));
        assert_eq!(shown(&positions.take(9)), [(0, 0, 1, 1)]);
        positions.handle_out_of_range(&at(2), 0);
        assert_eq!(positions.want_reset(), [at(2)]);
        positions.give_up(&at(1));
        assert_eq!(positions.position(&at(1)), None);
    }

    #[test]
    fn only_what_moved_is_committed() {
        let mut positions = Positions::default();
        positions.add([at(0), at(1)], Start::Committed);
        positions.handle_committed(&at(0), Some(3));
        positions.handle_committed(&at(1), Some(0));
        positions.handle_fetched(&at(1), 0, read(0..2, 2));
        assert!(
            positions.uncommitted(None).is_empty(),
            "nothing is handed out"
        );
        positions.take(9);
        let moved = BTreeMap::from([(at(1), 2)]);
        assert_eq!(positions.uncommitted(None), moved);
        assert!(positions.uncommitted(Some(&[at(0)].into())).is_empty());
        positions.handle_commit(&moved);
        assert!(positions.uncommitted(None).is_empty());
    }
}
