//! Transactions: a reader of committed records sees what is committed and nothing else, and
//! transactions do not depend on each other in a circle.

use std::collections::{BTreeMap, BTreeSet, VecDeque};

use super::index::{End, Index};
use super::log::{Logs, Writes};
use super::{Anomaly, Rules, Verdict};
use crate::call::{Call, Isolation, Polled, Reply};
use crate::event::Event;
use crate::value::{Name, Value};

/// A transaction: a client, and its number among the client's.
pub(super) type Key<'h> = (&'h Name, u64);

/// What is known of a transaction's end.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Fate {
    /// The entry that says that it is committed.
    pub committed: Option<usize>,
    /// The entry that says that it is aborted.
    pub aborted: Option<usize>,
    /// The entry that asks for the commit.
    pub asked: Option<usize>,
}

/// Every transaction of a history.
#[derive(Debug, Default)]
pub(super) struct Transactions<'h>(BTreeMap<Key<'h>, Fate>);

impl<'h> Transactions<'h> {
    pub fn of(index: &Index<'h>) -> Self {
        let mut all: BTreeMap<Key<'h>, Fate> = BTreeMap::new();
        for (_, operation) in index.operations() {
            let Call::End {
                transaction,
                commit,
            } = operation.call
            else {
                continue;
            };
            let fate = all.entry((operation.who, *transaction)).or_default();
            if *commit {
                fate.asked.get_or_insert(operation.began);
            }
            match (operation.end, commit) {
                (End::Ok(_), true) => fate.committed = operation.ended,
                // A commit that can't take effect any more leaves an aborted transaction.
                (End::Ok(_), false) | (End::Fail(_), true) => fate.aborted = operation.ended,
                _ => {}
            }
        }
        Self(all)
    }

    pub fn get(&self, who: &Name, transaction: u64) -> Option<Fate> {
        let all: &BTreeMap<Key<'_>, Fate> = &self.0;
        all.get(&(who, transaction)).copied()
    }
}

/// Values that a reader of committed records need not be shown: the log marks them aborted, or
/// their transaction did not commit for sure.
pub(super) fn hidden(index: &Index<'_>) -> BTreeSet<Value> {
    let mut hidden: BTreeSet<Value> = BTreeSet::new();
    for (_, _, event) in index.events() {
        if let Event::Aborted { values, .. } = event {
            hidden.extend(values);
        }
    }
    let transactions = Transactions::of(index);
    for (value, write) in &Writes::of(index).0 {
        let Some(transaction) = write.transaction else {
            continue;
        };
        let fate = transactions.get(write.operation.who, transaction);
        if fate.is_none_or(|fate| fate.committed.is_none()) {
            hidden.insert(*value);
        }
    }
    hidden
}

pub(super) fn check(index: &Index<'_>, logs: &Logs, rules: Rules, found: &mut Vec<Verdict>) {
    let (writes, transactions) = (Writes::of(index), Transactions::of(index));
    let mut marked: BTreeMap<Value, usize> = BTreeMap::new();
    for (at, _, event) in index.events() {
        if let Event::Aborted { values, .. } = event {
            marked.extend(values.iter().map(|value| (*value, at)));
        }
    }
    for (_, operation) in index.operations() {
        let (
            Call::Poll {
                isolation: Isolation::ReadCommitted,
                ..
            },
            Some((ended, Reply::Polled(polled))),
        ) = (operation.call, operation.ok())
        else {
            continue;
        };
        for seen in polled.iter().flat_map(|polled| &polled.records) {
            let value = seen.value;
            let Some(write) = writes.0.get(&value) else {
                continue;
            };
            let Some(number) = write.transaction else {
                continue;
            };
            let fate = transactions.get(write.operation.who, number);
            let fate = fate.unwrap_or_default();
            let aborted = fate.aborted.or_else(|| marked.get(&value).copied());
            let reader = operation.who;
            if let Some(aborted) = aborted.filter(|_| fate.committed.is_none()) {
                let what = format!("{reader} read {value}, whose transaction was aborted");
                let proof = [write.operation.began, aborted, ended];
                found.push(Verdict::new(Anomaly::AbortedRead, proof, what));
            } else if fate.asked.is_none_or(|asked| asked > ended) {
                let what = format!("{reader} read {value} before its transaction was to commit");
                let proof = [write.operation.began, ended].into_iter().chain(fate.asked);
                found.push(Verdict::new(Anomaly::PrecommittedRead, proof, what));
            }
        }
    }
    cycles(index, logs, &writes, &transactions, rules, found);
}

/// Why one transaction comes before another.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Because {
    /// The other one's write stands right behind its own.
    WriteWrite,
    /// The other one read what it wrote.
    WriteRead,
}

struct Graph<'h> {
    edges: BTreeMap<Key<'h>, BTreeMap<Key<'h>, (Because, usize)>>,
}

impl<'h> Graph<'h> {
    fn add(&mut self, from: Key<'h>, to: Key<'h>, because: Because, entry: usize) {
        if from != to {
            let edges = self.edges.entry(from).or_default();
            edges.entry(to).or_insert((because, entry));
        }
    }

    /// The shortest way from `start` back to itself.
    fn cycle(&self, start: Key<'h>) -> Option<Vec<Key<'h>>> {
        let mut before: BTreeMap<Key<'h>, Key<'h>> = BTreeMap::new();
        let mut next = VecDeque::from([start]);
        while let Some(at) = next.pop_front() {
            for &to in self.edges.get(&at).into_iter().flat_map(BTreeMap::keys) {
                if to == start {
                    let mut way = vec![at];
                    while let Some(&earlier) = way.last().and_then(|last| before.get(last)) {
                        way.push(earlier);
                    }
                    way.reverse();
                    return Some(way);
                }
                before.entry(to).or_insert_with(|| {
                    next.push_back(to);
                    at
                });
            }
        }
        None
    }
}

fn cycles(
    index: &Index<'_>,
    logs: &Logs,
    writes: &Writes<'_>,
    transactions: &Transactions<'_>,
    rules: Rules,
    found: &mut Vec<Verdict>,
) {
    let of = |value: Value| -> Option<Key<'_>> {
        let write = writes.0.get(&value)?;
        let key = (write.operation.who, write.transaction?);
        transactions.get(key.0, key.1)?.committed.map(|_| key)
    };
    let mut writes_only = Graph {
        edges: BTreeMap::new(),
    };
    let mut all = Graph {
        edges: BTreeMap::new(),
    };
    if rules.writes_of_transactions_never_interleave {
        for (_, log) in logs.judged() {
            let written = log
                .at
                .values()
                .filter_map(|there| Some((of(there.value)?, there.entry)));
            let written: Vec<_> = written.collect();
            for pair in written.windows(2) {
                if let [(one, _), (other, entry)] = pair {
                    writes_only.add(*one, *other, Because::WriteWrite, *entry);
                    all.add(*one, *other, Because::WriteWrite, *entry);
                }
            }
        }
    }
    for (_, operation) in index.operations() {
        let (
            Call::Poll {
                transaction: Some(reader),
                ..
            },
            Some((entry, Reply::Polled(polled))),
        ) = (operation.call, operation.ok())
        else {
            continue;
        };
        let reader = (operation.who, *reader);
        let committed = transactions.get(reader.0, reader.1);
        if committed.is_none_or(|fate| fate.committed.is_none()) {
            continue;
        }
        for seen in polled.iter().flat_map(|polled: &Polled| &polled.records) {
            if let Some(writer) = of(seen.value) {
                all.add(writer, reader, Because::WriteRead, entry);
            }
        }
    }
    name_cycles(&writes_only, Anomaly::G0, |_| true, found);
    let reads = |because: &[Because]| because.contains(&Because::WriteRead);
    name_cycles(&all, Anomaly::G1c, reads, found);
}

fn name_cycles(
    graph: &Graph<'_>,
    anomaly: Anomaly,
    counts: impl Fn(&[Because]) -> bool,
    found: &mut Vec<Verdict>,
) {
    let mut named: BTreeSet<Key<'_>> = BTreeSet::new();
    for &start in graph.edges.keys() {
        if named.contains(&start) {
            continue;
        }
        let Some(way) = graph.cycle(start) else {
            continue;
        };
        let steps = way.iter().zip(way.iter().cycle().skip(1));
        let edges: Vec<_> = steps
            .filter_map(|(from, to)| graph.edges.get(from)?.get(to).copied())
            .collect();
        let because: Vec<_> = edges.iter().map(|(because, _)| *because).collect();
        if !counts(&because) {
            continue;
        }
        let text: Vec<_> = way
            .iter()
            .map(|(who, number)| format!("{who}/{number}"))
            .collect();
        let what = format!("transactions in a circle: {}", text.join(" before "));
        let proof = edges.iter().map(|(_, entry)| *entry);
        found.push(Verdict::new(anomaly, proof, what));
        named.extend(way);
    }
}

#[cfg(test)]
mod tests {
    use super::super::testing::{Story, at, batch, seen, value};
    use super::super::{Rules, check_with};
    use crate::call::{Call, Failure, Isolation, Polled, Reply};
    use crate::event::Event;

    fn write(story: &mut Story, who: &str, transaction: u64, number: u64) {
        let call = Call::Produce {
            batch: batch(number, 1),
            acks: -1,
            transaction: Some(transaction),
        };
        story.done(who, call, Reply::Stored { base_offset: None });
    }

    fn end(story: &mut Story, who: &str, transaction: u64, commit: bool) {
        let call = Call::End {
            transaction,
            commit,
        };
        story.done(who, call, Reply::Done);
    }

    fn read_in(story: &mut Story, who: &str, transaction: u64, number: u64) {
        let call = Call::Poll {
            isolation: Isolation::ReadCommitted,
            transaction: Some(transaction),
        };
        let offset = i64::try_from(number).unwrap();
        let polled = Polled {
            at: at(),
            from: offset,
            next: offset + 1,
            records: vec![seen(offset, number)],
        };
        story.done(who, call, Reply::Polled(vec![polled]));
    }

    #[test]
    fn the_aborted_is_not_read_as_committed() {
        let read = |committed: bool, aborted: bool| {
            let mut story = Story::acknowledged();
            write(&mut story, "t", 1, 1);
            end(&mut story, "t", 1, !aborted);
            if committed {
                story.polled_committed("r", 0, 2, &[(0, 0), (1, 1)]);
            } else {
                story.polled("r", 0, 2, &[(0, 0), (1, 1)]);
            }
            story.names()
        };
        assert_eq!(read(true, true), ["aborted-read"]);
        assert!(read(true, false).is_empty());
        assert!(read(false, true).is_empty(), "it asked for everything");
    }

    #[test]
    fn what_the_log_marks_aborted_is_not_read_as_committed() {
        let mut story = Story::acknowledged();
        write(&mut story, "t", 1, 1);
        let commit = Call::End {
            transaction: 1,
            commit: true,
        };
        let op = story.begin("t", commit);
        story.unknown(op, Failure::here("timeout"));
        story.polled_committed("r", 0, 2, &[(0, 0), (1, 1)]);
        assert!(story.names().is_empty(), "it may have committed");
        let aborted = Event::Aborted {
            at: at(),
            values: vec![value(1)],
        };
        story.event("world", aborted);
        assert_eq!(story.names(), ["aborted-read"]);
    }

    #[test]
    fn nobody_reads_ahead_of_the_commit() {
        let mut story = Story::acknowledged();
        write(&mut story, "t", 1, 1);
        let mut own = story.clone();
        story.polled_committed("r", 0, 2, &[(0, 0), (1, 1)]);
        assert_eq!(story.names(), ["precommitted-read"]);
        end(&mut story, "t", 1, true);
        assert_eq!(story.names(), ["precommitted-read"], "it was too early");
        read_in(&mut own, "t", 1, 1);
        assert_eq!(own.names(), ["precommitted-read"], "not even its own");
    }

    #[test]
    fn an_aborted_write_is_not_lost() {
        let mut story = Story::acknowledged();
        write(&mut story, "t", 1, 1);
        let mut committed = story.clone();
        end(&mut story, "t", 1, false);
        story.log(&[(0, 0)]);
        assert!(story.names().is_empty());
        end(&mut committed, "t", 1, true);
        committed.log(&[(0, 0)]);
        assert_eq!(committed.names(), ["lost-write"]);
    }

    /// Both commit after both wrote, so that each may have read the other.
    fn circle(reads: &[(&str, u64)]) -> Story {
        let mut story = Story::acknowledged();
        write(&mut story, "s", 1, 1);
        write(&mut story, "t", 1, 2);
        let ends = ["s", "t"].map(|who| {
            let call = Call::End {
                transaction: 1,
                commit: true,
            };
            story.begin(who, call)
        });
        for (who, number) in reads {
            read_in(&mut story, who, 1, *number);
        }
        for op in ends {
            story.ok(op, Reply::Done);
        }
        story
    }

    #[test]
    fn information_does_not_flow_in_a_circle() {
        assert!(circle(&[("s", 2)]).names().is_empty());
        let story = circle(&[("s", 2), ("t", 1)]);
        assert_eq!(story.names(), ["g1c"]);
        assert_eq!(story.verdicts()[0].proof.len(), 2, "both reads");
    }

    #[test]
    fn interleaved_writes_are_kafkas_way_unless_forbidden() {
        let mut story = circle(&[]);
        write(&mut story, "s", 1, 3);
        story.log(&[(0, 0), (1, 1), (2, 2), (3, 3)]);
        assert!(story.names().is_empty());
        let strict = Rules {
            writes_of_transactions_never_interleave: true,
        };
        let verdicts = check_with(story.entries(), strict);
        let names: Vec<_> = verdicts.iter().map(|one| one.anomaly.name()).collect();
        assert_eq!(names, ["g0"]);
    }
}
