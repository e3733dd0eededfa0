//! Successive sends of one producer land one behind the other, and an idempotent producer's
//! sequences stand in the log in their order.

use std::collections::{BTreeMap, BTreeSet};

use super::index::{Index, Operation};
use super::log::{Logs, Writes};
use super::{Anomaly, Verdict};
use crate::call::{Call, Producer, Reply};
use crate::event::{Event, Op, Promise};
use crate::value::{Name, TopicPartition};

pub(super) fn check(index: &Index<'_>, logs: &Logs, found: &mut Vec<Verdict>) {
    told_offsets(index, found);
    sequences(index, logs, found);
}

/// The highest offset that a producer was told for a partition.
#[derive(Clone, Copy)]
struct Top {
    offset: i64,
    began: usize,
    ended: usize,
}

fn told_offsets(index: &Index<'_>, found: &mut Vec<Verdict>) {
    let mut tops: BTreeMap<(&Name, &TopicPartition), Vec<Top>> = BTreeMap::new();
    for (_, operation) in index.operations() {
        let Some((at, base, ended)) = stored(operation) else {
            continue;
        };
        let ordered = index.promised(operation.who, Promise::Ordered);
        let earlier = tops.entry((operation.who, at)).or_default();
        // Without the promise, sends that overlap may land in any order.
        let ahead = earlier
            .iter()
            .filter(|top| ordered || top.ended < operation.began)
            .max_by_key(|top| top.offset);
        if let Some(ahead) = ahead.filter(|ahead| ahead.offset > base) {
            let what = format!(
                "{} sent to {at} and was told {}, then sent again and was told {base}",
                operation.who, ahead.offset
            );
            let proof = [ahead.began, ahead.ended, operation.began, ended];
            found.push(Verdict::new(Anomaly::NonmonotonicSend, proof, what));
        }
        // Of those that ended before, only the highest matters; of those open, all do.
        earlier.retain(|top| top.ended >= operation.began || top.offset > base);
        earlier.push(Top {
            offset: base,
            began: operation.began,
            ended,
        });
    }
}

/// Where a batch was stored, as its producer was told, and the entry that told it.
fn stored<'h>(operation: &Operation<'h>) -> Option<(&'h TopicPartition, i64, usize)> {
    let Call::Produce { batch, acks, .. } = operation.call else {
        return None;
    };
    match operation.ok()? {
        (
            ended,
            Reply::Stored {
                base_offset: Some(base),
            },
        ) if *acks != 0 => Some((&batch.to, *base, ended)),
        _ => None,
    }
}

/// The one identity and sequence that a batch ever went out under.
fn identities(index: &Index<'_>) -> BTreeMap<Op, Option<(Producer, i32)>> {
    let mut identities: BTreeMap<Op, Option<(Producer, i32)>> = BTreeMap::new();
    for (_, _, event) in index.events() {
        let Event::Attempt {
            op,
            producer,
            sequence,
            ..
        } = event
        else {
            continue;
        };
        let now = producer.zip(*sequence);
        let known = identities.entry(*op).or_insert(now);
        // Sent under two identities, nobody knows which one landed.
        if *known != now {
            *known = None;
        }
    }
    identities
}

fn sequences(index: &Index<'_>, logs: &Logs, found: &mut Vec<Verdict>) {
    let (writes, identities) = (Writes::of(index), identities(index));
    for (at, log) in logs.judged() {
        let mut last: BTreeMap<Producer, (i32, usize, i64, Option<u64>)> = BTreeMap::new();
        // A repetition is a duplicate, and named so.
        let mut seen = BTreeSet::new();
        for (&offset, there) in &log.at {
            let Some(write) = writes.0.get(&there.value) else {
                continue;
            };
            if !seen.insert(there.value) {
                continue;
            }
            let Some(Some((producer, first))) = identities.get(&write.op) else {
                // It may have any sequence, of any identity.
                last.clear();
                continue;
            };
            let inner = write.batch.values().position(|value| value == there.value);
            let inner = i32::try_from(inner.unwrap_or_default()).unwrap_or(i32::MAX);
            // Sequences go round past the largest number.
            let sequence = first.wrapping_add(inner) & i32::MAX;
            let here = (sequence, there.entry, offset, write.transaction);
            let before = last.insert(*producer, here);
            let Some((before, entry, before_offset, transaction)) = before else {
                continue;
            };
            // What was aborted between two transactions has its sequences, and may not be there.
            if transaction != write.transaction {
                continue;
            }
            let behind = before.wrapping_add(1) & i32::MAX;
            if sequence == behind {
                continue;
            }
            let what = format!(
                "in {at}, sequence {sequence} of producer {} epoch {} stands at {offset}, \
                 behind {before} at {before_offset}",
                producer.id, producer.epoch
            );
            let proof = [entry, there.entry, write.operation.began];
            found.push(Verdict::new(Anomaly::SequenceGap, proof, what));
        }
    }
}

#[cfg(test)]
mod tests {
    use super::super::testing::Story;
    use crate::call::Producer;
    use crate::event::{Event, Op, Promise};

    #[test]
    fn successive_sends_land_one_behind_the_other() {
        let mut story = Story::default();
        let first = story.produce("p", 0, 1);
        story.stored(first, 5);
        let second = story.produce("p", 1, 1);
        story.stored(second, 4);
        assert_eq!(story.names(), ["nonmonotonic-send"]);
        assert_eq!(story.verdicts()[0].proof, [0, 1, 2, 3]);
    }

    #[test]
    fn sends_that_overlap_may_land_in_any_order_unless_that_was_promised() {
        let mut story = Story::default();
        story.promise("p", [Promise::Ordered]);
        let (first, second) = (story.produce("p", 0, 1), story.produce("p", 1, 1));
        story.stored(first, 5);
        story.stored(second, 4);
        assert_eq!(story.names(), ["nonmonotonic-send"]);
        story.forget_promises();
        assert!(story.names().is_empty());
    }

    fn attempt(story: &mut Story, op: Op, epoch: i16, sequence: i32) {
        let event = Event::Attempt {
            op,
            attempt: 1,
            producer: Some(Producer { id: 7, epoch }),
            sequence: Some(sequence),
        };
        story.event("p", event);
    }

    /// Two batches of two values under these sequences, in the log at 0 and 2.
    fn sequenced(one: (i16, i32), other: (i16, i32)) -> Story {
        let mut story = Story::default();
        for (first, (epoch, sequence)) in [(0, one), (2, other)] {
            let op = story.produce("p", first, 2);
            attempt(&mut story, op, epoch, sequence);
            story.stored(op, i64::try_from(first).unwrap());
        }
        story.log(&[(0, 0), (1, 1), (2, 2), (3, 3)]);
        story
    }

    #[test]
    fn sequences_stand_in_their_order() {
        assert!(sequenced((0, 10), (0, 12)).names().is_empty());
        assert_eq!(sequenced((0, 10), (0, 14)).names(), ["sequence-gap"]);
        assert_eq!(sequenced((0, 10), (0, 8)).names(), ["sequence-gap"]);
        let round = sequenced((0, i32::MAX - 1), (0, 0));
        assert!(round.names().is_empty(), "round past the largest");
        let bumped = sequenced((0, 10), (1, 0));
        assert!(bumped.names().is_empty(), "another epoch counts anew");
    }

    #[test]
    fn a_repetition_is_no_gap() {
        let mut story = sequenced((0, 10), (0, 12));
        story.log(&[(4, 0), (5, 1)]);
        assert!(story.names().is_empty(), "at-least-once");
    }

    #[test]
    fn a_batch_under_two_identities_proves_nothing() {
        let mut story = sequenced((0, 10), (0, 14));
        attempt(&mut story, Op(2), 1, 0);
        assert!(story.names().is_empty());
    }
}
