//! What lands together: a transaction's records and offsets, as a whole or not at all; of each
//! record that a loop read one that it made; and nothing of a producer that was fenced.

use std::collections::{BTreeMap, BTreeSet};

use super::index::{End, Index};
use super::log::{Logs, Writes};
use super::transactions::{Key, Transactions};
use super::{Anomaly, Verdict};
use crate::call::{Call, Reply};
use crate::event::Event;
use crate::value::{Name, TopicPartition, Value};

/// Where each value is in the logs that were read whole: the partition, the offset, the entry.
type Places<'l> = BTreeMap<Value, Vec<(&'l TopicPartition, i64, usize)>>;
/// A group's partition.
type Place<'h> = (&'h Name, &'h TopicPartition);

pub(super) fn check(index: &Index<'_>, logs: &Logs, found: &mut Vec<Verdict>) {
    let mut places = Places::new();
    for (at, log) in logs.judged() {
        for (&offset, there) in &log.at {
            let all = places.entry(there.value).or_default();
            all.push((at, offset, there.entry));
        }
    }
    let all = All {
        index,
        logs,
        writes: Writes::of(index),
        transactions: Transactions::of(index),
        told: told(index),
        places,
    };
    all.torn(found);
    all.loops(found);
    all.fenced(found);
}

/// The committed offset of each partition that was told last, and the entries of its asking and
/// telling.
fn told<'h>(index: &Index<'h>) -> BTreeMap<Place<'h>, (i64, usize, usize)> {
    let mut told = BTreeMap::new();
    for (_, operation) in index.operations() {
        if let (Call::FetchOffsets { group, .. }, Some((ended, Reply::Offsets(offsets)))) =
            (operation.call, operation.ok())
        {
            for (at, offset) in offsets {
                let offset = offset.unwrap_or(0);
                told.insert((group, at), (offset, operation.began, ended));
            }
        }
    }
    told
}

/// What a transaction wrote and committed.
#[derive(Default)]
struct Content<'h> {
    /// Acknowledged values and the entries that acknowledged them; `None` of a log that can't be
    /// judged.
    values: Vec<(Value, usize)>,
    judged: bool,
    offsets: Vec<(Place<'h>, i64, usize)>,
}

struct All<'i, 'h> {
    index: &'i Index<'h>,
    logs: &'i Logs,
    writes: Writes<'h>,
    transactions: Transactions<'h>,
    told: BTreeMap<Place<'h>, (i64, usize, usize)>,
    places: Places<'i>,
}

impl<'h> All<'_, 'h> {
    fn contents(&self) -> BTreeMap<Key<'h>, Content<'h>> {
        let mut contents: BTreeMap<Key<'h>, Content<'h>> = BTreeMap::new();
        for (_, operation) in self.index.operations() {
            match (operation.call, operation.ok()) {
                (
                    Call::Produce {
                        batch,
                        transaction: Some(number),
                        ..
                    },
                    Some((acknowledged, _)),
                ) => {
                    let key = (operation.who, *number);
                    let content = contents.entry(key).or_insert_with(|| Content {
                        judged: true,
                        ..Content::default()
                    });
                    // What was deleted on demand proves nothing.
                    let whole = self.logs.get(&batch.to).is_some_and(|log| log.start == 0);
                    content.judged &= whole;
                    let values = batch.values().map(|value| (value, acknowledged));
                    content.values.extend(values);
                }
                (
                    Call::SendOffsets {
                        transaction,
                        group,
                        offsets,
                        ..
                    },
                    Some((acknowledged, Reply::Committed { refused })),
                ) if refused.is_empty() => {
                    let key = (operation.who, *transaction);
                    let content = contents.entry(key).or_insert_with(|| Content {
                        judged: true,
                        ..Content::default()
                    });
                    let all = offsets.iter();
                    let all = all.map(|(at, offset)| ((group, at), *offset, acknowledged));
                    content.offsets.extend(all);
                }
                _ => {}
            }
        }
        contents
    }

    /// A transaction whose commit was asked for is there as a whole or not at all.
    fn torn(&self, found: &mut Vec<Verdict>) {
        for ((who, number), content) in self.contents() {
            let fate = self.transactions.get(who, number).unwrap_or_default();
            let Some(asked) = fate.asked.filter(|_| content.judged) else {
                continue;
            };
            let there = |value: &Value| self.places.get(value).and_then(|all| all.first());
            let shown = content.values.iter().find_map(|(value, _)| there(value));
            let hidden = content
                .values
                .iter()
                .find(|(value, _)| there(value).is_none());
            let Some((_, _, shown)) = shown else {
                continue;
            };
            if let Some((value, acknowledged)) = hidden {
                let what = format!("of transaction {number} of {who}, {value} is not in the log");
                let proof = [asked, *acknowledged, *shown];
                found.push(Verdict::new(Anomaly::Torn, proof, what));
                continue;
            }
            for (place, offset, sent) in content.offsets {
                let Some((told, began, ended)) = self.told.get(&place) else {
                    continue;
                };
                // Only what was asked after its end proves anything.
                let since = fate.committed.unwrap_or(*shown);
                if *told < offset && (*began > since || fate.committed.is_none()) {
                    let what = format!(
                        "transaction {number} of {who} is in the log, and its offset {offset} of {} is not: {told} is",
                        place.1
                    );
                    let proof = [sent, *shown, *ended];
                    found.push(Verdict::new(Anomaly::Torn, proof, what));
                }
            }
        }
    }

    /// Of every record that a loop has read, as the group's offsets say, there is one that was made.
    fn loops(&self, found: &mut Vec<Verdict>) {
        let mut made: BTreeMap<Value, Vec<(Value, usize)>> = BTreeMap::new();
        let mut makers: BTreeSet<&Name> = BTreeSet::new();
        for (at, who, event) in self.index.events() {
            if let Event::Derived { of, value } = event {
                made.entry(*of).or_default().push((*value, at));
                makers.insert(who);
            }
        }
        for (of, all) in &made {
            let there: Vec<_> = all
                .iter()
                .filter(|(value, _)| !self.is_aborted(*value))
                .filter_map(|(value, at)| Some((value, at, self.places.get(value)?.first()?.2)))
                .collect();
            if let [(one, made, shown), (other, made_again, shown_again), ..] = there[..] {
                let what = format!("both {one} and {other} were made of {of}, and are in the log");
                let proof = [*made, *made_again, shown, shown_again];
                found.push(Verdict::new(Anomaly::TwiceInLoop, proof, what));
            }
        }
        let groups = self.index.operations();
        let groups: BTreeSet<&Name> = groups
            .filter_map(|(_, operation)| match operation.call {
                Call::SendOffsets { group, .. } if makers.contains(operation.who) => Some(group),
                _ => None,
            })
            .collect();
        for ((group, at), (told, _, ended)) in &self.told {
            let Some(log) = self.logs.get(at).filter(|_| groups.contains(group)) else {
                continue;
            };
            for (offset, there) in log.at.range(..*told) {
                let none = Vec::new();
                let all = made.get(&there.value).unwrap_or(&none);
                // Where what was made went to a log that was not read, nothing is proved.
                let judged = all.iter().all(|(value, _)| {
                    let write = self.writes.0.get(value);
                    write.is_none_or(|write| self.logs.get(&write.batch.to).is_some())
                });
                let lost = !all.iter().any(|(value, _)| self.places.contains_key(value));
                if judged && lost {
                    let what = format!(
                        "{at}@{offset} counts as read up to {told} in {group}, and nothing made of {} is in the log",
                        there.value
                    );
                    let proof = [there.entry, *ended];
                    found.push(Verdict::new(Anomaly::LostInLoop, proof, what));
                }
            }
        }
    }

    /// Whether the value's transaction is known to be aborted: what a log holds of it counts for
    /// nothing.
    fn is_aborted(&self, value: Value) -> bool {
        let Some(write) = self.writes.0.get(&value) else {
            return false;
        };
        let Some(number) = write.transaction else {
            return false;
        };
        let fate = self.transactions.get(write.operation.who, number);
        fate.is_some_and(|fate| fate.committed.is_none() && fate.aborted.is_some())
    }

    /// Once another producer has a transactional id, the one before lands nothing that it asks for
    /// from then on.
    fn fenced(&self, found: &mut Vec<Verdict>) {
        let mut owners: BTreeMap<&Name, Vec<(usize, &Name)>> = BTreeMap::new();
        for (_, operation) in self.index.operations() {
            if let (
                Call::InitProducer {
                    transactional: Some(id),
                },
                Some((told, Reply::Producer(_))),
            ) = (operation.call, operation.ok())
            {
                owners.entry(id).or_default().push((told, operation.who));
            }
        }
        for (id, mut all) in owners {
            all.sort_unstable();
            for (_, operation) in self.index.operations() {
                let Call::End {
                    transaction,
                    commit: true,
                } = operation.call
                else {
                    continue;
                };
                let who = operation.who;
                let own = all
                    .iter()
                    .rfind(|(told, of)| *of == who && *told < operation.began);
                let Some((own, _)) = own else {
                    continue;
                };
                let after = |(told, of): &&(usize, &Name)| {
                    *of != who && *told > *own && *told < operation.began
                };
                let Some((fenced, by)) = all.iter().find(after) else {
                    continue;
                };
                let landed = match operation.end {
                    End::Ok(_) => operation.ended,
                    End::Fail(_) => None,
                    End::Unknown => self.shown(who, *transaction),
                };
                // An empty transaction lands nothing: nobody is asked.
                let wrote = self.shown(who, *transaction);
                if let (Some(landed), Some(shown)) = (landed, wrote) {
                    let what = format!(
                        "{who} committed transaction {transaction} after {by} was given {id}"
                    );
                    let proof = [*own, *fenced, operation.began, landed, shown];
                    found.push(Verdict::new(Anomaly::Zombie, proof, what));
                }
            }
        }
    }

    /// The entry that shows a value of the transaction in the log.
    fn shown(&self, who: &Name, transaction: u64) -> Option<usize> {
        let of = self.writes.0.iter().filter(|(_, write)| {
            write.operation.who == who && write.transaction == Some(transaction)
        });
        let mut places = of.filter_map(|(value, _)| self.places.get(value)?.first());
        places.next().map(|(_, _, entry)| *entry)
    }
}

#[cfg(test)]
mod tests {
    use super::super::testing::{Story, at, batch, value};
    use crate::call::{Call, Failure, Producer, Reply};
    use crate::event::Event;
    use crate::value::{Batch, TopicPartition, Value};

    fn made(number: u64) -> Value {
        Value {
            producer: 101,
            number,
        }
    }

    fn elsewhere() -> TopicPartition {
        TopicPartition::new("made", 0)
    }

    fn write(story: &mut Story, who: &str, transaction: u64, batch: Batch) {
        let call = Call::Produce {
            batch,
            acks: -1,
            transaction: Some(transaction),
        };
        story.done(who, call, Reply::Stored { base_offset: None });
    }

    fn sent(story: &mut Story, transaction: u64, offset: i64) {
        let call = Call::SendOffsets {
            transaction,
            group: "g".into(),
            member: "m".into(),
            generation: 1,
            offsets: vec![(at(), offset)],
        };
        let refused = Vec::new();
        story.done("t", call, Reply::Committed { refused });
    }

    fn told(story: &mut Story, offset: Option<i64>) {
        let call = Call::FetchOffsets {
            group: "g".into(),
            partitions: vec![at()],
        };
        story.done("auditor", call, Reply::Offsets(vec![(at(), offset)]));
    }

    fn commit(transaction: u64) -> Call {
        Call::End {
            transaction,
            commit: true,
        }
    }

    /// One record was read, and as often as `attempts` says something was made of it and its
    /// commit asked for, of which nobody knows the end. Then the logs and the offset are these.
    fn looped(attempts: u64, shown: &[u64], offset: Option<i64>) -> Vec<&'static str> {
        let mut story = Story::acknowledged();
        for attempt in 1..=attempts {
            let derived = Event::Derived {
                of: value(0),
                value: made(attempt),
            };
            story.event("t", derived);
            write(
                &mut story,
                "t",
                attempt,
                Batch::of_values(elsewhere(), made(attempt), 1),
            );
            sent(&mut story, attempt, 1);
            let op = story.begin("t", commit(attempt));
            story.unknown(op, Failure::here("timeout"));
        }
        told(&mut story, offset);
        story.log(&[(0, 0)]);
        story.log_of(&elsewhere(), shown.iter().map(|number| made(*number)));
        story.names()
    }

    #[test]
    fn a_loop_makes_one_of_each() {
        assert!(looped(1, &[1], Some(1)).is_empty());
        assert!(looped(1, &[], None).is_empty());
        assert!(looped(2, &[2], Some(1)).is_empty());
        assert_eq!(looped(2, &[1, 2], Some(1)), ["twice-in-loop"]);
        assert_eq!(looped(1, &[], Some(1)), ["lost-in-loop"]);
    }

    #[test]
    fn records_and_offsets_land_together() {
        assert_eq!(looped(1, &[1], None), ["torn-transaction"]);
    }

    #[test]
    fn records_land_together() {
        let told = |shown: &[(i64, u64)]| {
            let mut story = Story::acknowledged();
            write(&mut story, "t", 1, batch(1, 1));
            write(&mut story, "t", 1, batch(2, 1));
            let op = story.begin("t", commit(1));
            story.unknown(op, Failure::here("timeout"));
            story.log(shown);
            story.names()
        };
        assert!(told(&[(0, 0)]).is_empty());
        assert!(told(&[(0, 0), (1, 1), (2, 2)]).is_empty());
        assert_eq!(told(&[(0, 0), (1, 1)]), ["torn-transaction"]);
    }

    #[test]
    fn a_fenced_producer_lands_nothing() {
        let told = |first: bool| {
            let mut story = Story::acknowledged();
            let init = |story: &mut Story, who: &str, epoch| {
                let call = Call::InitProducer {
                    transactional: Some("id".into()),
                };
                let identity = Producer { id: 7, epoch };
                story.done(who, call, Reply::Producer(identity));
            };
            init(&mut story, "a", 0);
            write(&mut story, "a", 1, batch(1, 1));
            let op = first.then(|| story.begin("a", commit(1)));
            init(&mut story, "b", 1);
            let op = op.unwrap_or_else(|| story.begin("a", commit(1)));
            story.ok(op, Reply::Done);
            story.log(&[(0, 0), (1, 1)]);
            story.names()
        };
        assert!(told(true).is_empty(), "it had asked before");
        assert_eq!(told(false), ["zombie"]);
    }
}
