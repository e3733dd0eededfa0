//! What readers were given while things went wrong, against the log and against itself.

use std::collections::{BTreeMap, BTreeSet};

use super::index::Index;
use super::log::Logs;
use super::transactions::hidden;
use super::{Anomaly, Verdict};
use crate::call::{Call, Isolation, Polled, Reply};
use crate::event::{Event, Mark, Promise};
use crate::value::{Name, TopicPartition, Value};

pub(super) fn check(index: &Index<'_>, logs: &Logs, found: &mut Vec<Verdict>) {
    let polls: BTreeMap<usize, (Isolation, &[Polled])> = index
        .operations()
        .filter_map(|(_, operation)| {
            let Call::Poll { isolation, .. } = operation.call else {
                return None;
            };
            match operation.ok() {
                Some((at, Reply::Polled(polled))) => Some((at, (*isolation, polled.as_slice()))),
                _ => None,
            }
        })
        .collect();
    let hidden = hidden(index);
    let mut positions = Positions::default();
    for (entry, who, event) in index.events() {
        positions.forget(who, event);
        let Some((isolation, polled)) = polls.get(&entry) else {
            continue;
        };
        for polled in *polled {
            positions.judge(entry, who, polled, found);
            judge_records(logs, entry, who, polled, found);
            let hidden = (*isolation == Isolation::ReadCommitted).then_some(&hidden);
            judge_skips(logs, entry, who, polled, hidden, found);
        }
    }
    unseen(index, logs, &polls, &hidden, found);
}

/// Where each reader is in each partition, and the entry that brought it there.
#[derive(Default)]
struct Positions<'h>(BTreeMap<(&'h Name, &'h TopicPartition), (i64, usize)>);

impl<'h> Positions<'h> {
    /// After these, a reader starts elsewhere in good order.
    fn forget(&mut self, who: &'h Name, event: &'h Event) {
        match event {
            Event::Assigned { partitions, .. }
            | Event::Revoked { partitions, .. }
            | Event::Lost { partitions, .. } => {
                for at in partitions {
                    self.0.remove(&(who, at));
                }
            }
            Event::Seek { at, .. } => {
                self.0.remove(&(who, at));
            }
            Event::Mark(Mark::ClientCrash { client }) => {
                self.0.retain(|(reader, _), _| *reader != client);
            }
            _ => {}
        }
    }

    fn judge(&mut self, entry: usize, who: &'h Name, polled: &'h Polled, found: &mut Vec<Verdict>) {
        let Polled { at, from, next, .. } = polled;
        if let Some((position, before)) = self.0.insert((who, at), (*next, entry)) {
            let anomaly = match position.cmp(from) {
                std::cmp::Ordering::Less => Some(Anomaly::PollSkip),
                std::cmp::Ordering::Equal => None,
                std::cmp::Ordering::Greater => Some(Anomaly::NonmonotonicPoll),
            };
            if let Some(anomaly) = anomaly {
                let what = format!("{who} had read {at} up to {position} and goes on at {from}");
                found.push(Verdict::new(anomaly, [before, entry], what));
            }
        }
        let offsets = polled.records.iter().map(|seen| seen.offset);
        let outside = offsets
            .clone()
            .find(|offset| !(*from..*next).contains(offset));
        let back = offsets
            .clone()
            .zip(offsets.skip(1))
            .find(|(one, other)| one >= other);
        if let Some((one, other)) = back {
            let what = format!("{who} was given {at}@{other} right behind {one}");
            found.push(Verdict::new(Anomaly::NonmonotonicPoll, [entry], what));
        } else if let Some(offset) = outside {
            let what = format!("{who} was given {at}@{offset}, from {from} to {next}");
            found.push(Verdict::new(Anomaly::NonmonotonicPoll, [entry], what));
        }
    }
}

/// Each record is, at the end, where it was seen.
fn judge_records(logs: &Logs, entry: usize, who: &Name, polled: &Polled, found: &mut Vec<Verdict>) {
    let Some(log) = logs.get(&polled.at) else {
        return;
    };
    for seen in polled
        .records
        .iter()
        .filter(|seen| seen.offset >= log.start)
    {
        let (value, place) = (seen.value, format!("{}@{}", polled.at, seen.offset));
        match log.at.get(&seen.offset) {
            None => {
                let what = format!("{who} read {value} at {place}, where nothing is at the end");
                let proof = [entry, log.whole];
                found.push(Verdict::new(Anomaly::Vanished, proof, what));
            }
            Some(there) if there.value != value => {
                let what = format!(
                    "{who} read {value} at {place}, which holds {} at the end",
                    there.value
                );
                let proof = [entry, there.entry];
                found.push(Verdict::new(Anomaly::InconsistentOffset, proof, what));
            }
            Some(_) => {}
        }
    }
}

/// A reader is given everything that is between its positions.
fn judge_skips(
    logs: &Logs,
    entry: usize,
    who: &Name,
    polled: &Polled,
    hidden: Option<&BTreeSet<Value>>,
    found: &mut Vec<Verdict>,
) {
    let Some(log) = logs.get(&polled.at) else {
        return;
    };
    let given: BTreeSet<i64> = polled.records.iter().map(|seen| seen.offset).collect();
    let range = polled.from..polled.next.max(polled.from);
    let skipped = log.at.range(range).find(|(offset, there)| {
        !given.contains(offset) && !hidden.is_some_and(|hidden| hidden.contains(&there.value))
    });
    if let Some((offset, there)) = skipped {
        let Polled { at, from, next, .. } = polled;
        let what = format!(
            "{who} went from {from} to {next} in {at} and was not given {} at {offset}",
            there.value
        );
        let proof = [entry, there.entry];
        found.push(Verdict::new(Anomaly::PollSkip, proof, what));
    }
}

/// What is in the log was given to one of those who read everything.
fn unseen(
    index: &Index<'_>,
    logs: &Logs,
    polls: &BTreeMap<usize, (Isolation, &[Polled])>,
    hidden: &BTreeSet<Value>,
    found: &mut Vec<Verdict>,
) {
    let mut given: BTreeMap<&TopicPartition, BTreeSet<i64>> = BTreeMap::new();
    for (entry, who, event) in index.events() {
        if !index.promised(who, Promise::ReadsAll) {
            continue;
        }
        match event {
            Event::Assigned { partitions, .. } => {
                for at in partitions {
                    given.entry(at).or_default();
                }
            }
            Event::Seek { at, .. } => {
                given.entry(at).or_default();
            }
            _ => {}
        }
        for polled in polls.get(&entry).map_or(&[][..], |(_, polled)| polled) {
            let offsets = polled.records.iter().map(|seen| seen.offset);
            given.entry(&polled.at).or_default().extend(offsets);
        }
    }
    for (at, given) in given {
        let Some(log) = logs.get(at) else {
            continue;
        };
        let missing = log
            .at
            .iter()
            .find(|(offset, there)| !given.contains(offset) && !hidden.contains(&there.value));
        if let Some((offset, there)) = missing {
            let what = format!("nobody was given {} at {at}@{offset}", there.value);
            found.push(Verdict::new(Anomaly::Unseen, [there.entry], what));
        }
    }
}

#[cfg(test)]
mod tests {
    use super::super::testing::{Story, at, value};
    use crate::event::{Event, Mark, Promise};

    fn fine(story: &mut Story) -> Vec<&'static str> {
        story.log(&[(0, 0), (1, 1), (2, 2)]);
        story.names()
    }

    fn story() -> Story {
        Story::acknowledged_many(3)
    }

    #[test]
    fn a_reader_that_follows_is_fine() {
        let mut story = story();
        story.polled("r", 0, 1, &[(0, 0)]);
        story.polled("r", 1, 3, &[(1, 1), (2, 2)]);
        assert!(fine(&mut story).is_empty());
    }

    #[test]
    fn a_value_that_a_reader_passed_is_skipped() {
        let mut within = story();
        within.polled("r", 0, 3, &[(0, 0), (2, 2)]);
        assert_eq!(fine(&mut within), ["poll-skip"]);
        let mut between = story();
        between.polled("r", 0, 1, &[(0, 0)]);
        between.polled("r", 2, 3, &[(2, 2)]);
        assert_eq!(fine(&mut between), ["poll-skip"]);
        // Two readers, or one that was told to.
        let mut told = story();
        told.polled("r", 0, 1, &[(0, 0)]);
        told.polled("q", 2, 3, &[(2, 2)]);
        told.event(
            "r",
            Event::Seek {
                at: at(),
                offset: 2,
            },
        );
        told.polled("r", 2, 3, &[(2, 2)]);
        assert!(fine(&mut told).is_empty());
    }

    #[test]
    fn a_reader_goes_back_only_when_told() {
        let mut back = story();
        back.polled("r", 0, 2, &[(0, 0), (1, 1)]);
        let mut told = back.clone();
        back.polled("r", 1, 2, &[(1, 1)]);
        assert_eq!(fine(&mut back), ["nonmonotonic-poll"]);
        told.event(
            "world",
            Event::Mark(Mark::ClientCrash { client: "r".into() }),
        );
        told.polled("r", 1, 2, &[(1, 1)]);
        assert!(fine(&mut told).is_empty());
        let mut within = story();
        within.polled("r", 0, 2, &[(1, 1), (0, 0)]);
        assert_eq!(fine(&mut within), ["nonmonotonic-poll"]);
    }

    #[test]
    fn what_was_read_stays() {
        let mut vanished = story();
        vanished.polled("r", 0, 4, &[(0, 0), (1, 1), (2, 2), (3, 9)]);
        assert_eq!(fine(&mut vanished), ["vanished"]);
        let mut other = story();
        other.polled("r", 0, 1, &[(0, 1)]);
        assert_eq!(fine(&mut other), ["inconsistent-offset"]);
    }

    #[test]
    fn those_who_read_everything_see_everything() {
        let mut story = story();
        story.polled("r", 0, 2, &[(0, 0), (1, 1)]);
        let mut promised = story.clone();
        assert!(fine(&mut story).is_empty(), "r promised nothing");
        promised.promise("r", [Promise::ReadsAll]);
        promised.promise("q", [Promise::ReadsAll]);
        let mut together = promised.clone();
        assert_eq!(fine(&mut promised), ["unseen"]);
        together.polled("q", 2, 3, &[(2, 2)]);
        assert!(fine(&mut together).is_empty(), "between them");
    }

    #[test]
    fn a_reader_of_committed_records_is_not_shown_the_aborted() {
        let aborted = Event::Aborted {
            at: at(),
            values: vec![value(1)],
        };
        let mut committed = story();
        committed.event("world", aborted.clone());
        committed.polled_committed("r", 0, 3, &[(0, 0), (2, 2)]);
        assert!(fine(&mut committed).is_empty());
        let mut uncommitted = story();
        uncommitted.event("world", aborted);
        uncommitted.polled("r", 0, 3, &[(0, 0), (2, 2)]);
        assert_eq!(fine(&mut uncommitted), ["poll-skip"]);
    }
}
