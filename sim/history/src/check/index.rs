//! A history, found again by operation and by client. All checks look through this.

use std::collections::{BTreeMap, BTreeSet};
use std::ops::Range;

use super::{Anomaly, Verdict};
use crate::call::{Call, Failure, Producer, Reply};
use crate::event::{Entry, Event, Mark, Op, Promise};
use crate::value::{Name, TopicPartition};

/// How an operation ended.
#[derive(Clone, Copy, Debug)]
pub(crate) enum End<'h> {
    Ok(&'h Reply),
    Fail(&'h Failure),
    /// The client said that it doesn't know, or said nothing.
    Unknown,
}

/// An operation with both its ends.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Operation<'h> {
    pub who: &'h Name,
    pub call: &'h Call,
    /// The entry that began it.
    pub began: usize,
    /// The entry that ended it.
    pub ended: Option<usize>,
    pub end: End<'h>,
    pub within_ms: Option<u64>,
    /// How often it went out, as far as its client tells.
    pub attempts: u32,
    /// The identity it went out under, of an idempotent producer.
    pub producer: Option<Producer>,
}

impl<'h> Operation<'h> {
    /// What it brought, and the entry that says so.
    pub fn ok(&self) -> Option<(usize, &'h Reply)> {
        match (self.end, self.ended) {
            (End::Ok(reply), Some(at)) => Some((at, reply)),
            _ => None,
        }
    }

    /// Why it failed, and the entry that says so.
    pub fn failed(&self) -> Option<(usize, &'h Failure)> {
        match (self.end, self.ended) {
            (End::Fail(failure), Some(at)) => Some((at, failure)),
            _ => None,
        }
    }
}

pub(crate) struct Index<'h> {
    pub entries: &'h [Entry],
    ops: BTreeMap<Op, Operation<'h>>,
    promises: BTreeMap<&'h Name, BTreeSet<Promise>>,
    /// The entry from which on nothing goes wrong.
    pub healed: Option<usize>,
    /// The last entry that says that a client is gone.
    crashed: BTreeMap<&'h Name, usize>,
    wrong: Vec<Verdict>,
}

impl<'h> Index<'h> {
    pub fn of(entries: &'h [Entry]) -> Self {
        let mut index = Self {
            entries,
            ops: BTreeMap::new(),
            promises: BTreeMap::new(),
            healed: None,
            crashed: BTreeMap::new(),
            wrong: Vec::new(),
        };
        for (at, entry) in entries.iter().enumerate() {
            index.take(at, entry);
        }
        index
    }

    fn take(&mut self, at: usize, entry: &'h Entry) {
        match &entry.event {
            Event::Client { promises, .. } => {
                self.promises
                    .entry(&entry.who)
                    .or_default()
                    .extend(promises);
            }
            Event::Invoke {
                op,
                call,
                within_ms,
            } => {
                let begun = Operation {
                    who: &entry.who,
                    call,
                    began: at,
                    ended: None,
                    end: End::Unknown,
                    within_ms: *within_ms,
                    attempts: 0,
                    producer: None,
                };
                if let Some(before) = self.ops.insert(*op, begun) {
                    self.wrong(
                        [before.began, at],
                        format!("operation {} begins twice", op.0),
                    );
                }
            }
            Event::Ok { op, reply } => self.end(at, entry, *op, End::Ok(reply)),
            Event::Fail { op, failure } => self.end(at, entry, *op, End::Fail(failure)),
            Event::Unknown { op, .. } => self.end(at, entry, *op, End::Unknown),
            Event::Attempt { op, producer, .. } => {
                if let Some(begun) = self.ops.get_mut(op) {
                    begun.attempts += 1;
                    begun.producer = *producer;
                }
            }
            Event::Mark(Mark::Heal) => self.healed = Some(at),
            Event::Mark(Mark::ClientCrash { client }) => {
                self.crashed.insert(client, at);
            }
            _ => {}
        }
    }

    fn end(&mut self, at: usize, entry: &'h Entry, op: Op, end: End<'h>) {
        let Some(begun) = self.ops.get_mut(&op) else {
            self.wrong([at], format!("operation {} ends and never began", op.0));
            return;
        };
        if let Some(before) = begun.ended {
            let what = format!("operation {} ends twice", op.0);
            self.wrong([before, at], what);
        } else if *begun.who != entry.who {
            let what = format!("{} ends operation {} of {}", entry.who, op.0, begun.who);
            let began = begun.began;
            self.wrong([began, at], what);
        } else {
            begun.ended = Some(at);
            begun.end = end;
        }
    }

    fn wrong(&mut self, proof: impl IntoIterator<Item = usize>, what: String) {
        self.wrong
            .push(Verdict::new(Anomaly::IllFormed, proof, what));
    }

    pub fn check(&self, found: &mut Vec<Verdict>) {
        found.extend_from_slice(&self.wrong);
    }

    /// Whether `who` made `promise`.
    pub fn promised(&self, who: &Name, promise: Promise) -> bool {
        self.promises
            .get(who)
            .is_some_and(|promises| promises.contains(&promise))
    }

    /// Whether `who` was gone at some time after the entry `at`.
    pub fn crashed_since(&self, who: &Name, at: usize) -> bool {
        self.crashed.get(who).is_some_and(|crashed| *crashed > at)
    }

    /// Whether, between two entries, the application of `member` gave `at` up or heard that it is lost.
    pub fn gave_up(&self, member: &Name, at: &TopicPartition, between: Range<usize>) -> bool {
        let between = self.entries.get(between).unwrap_or_default();
        between.iter().any(|entry| match &entry.event {
            Event::Revoked {
                member: who,
                partitions,
                ..
            }
            | Event::Lost {
                member: who,
                partitions,
                ..
            } => who == member && partitions.contains(at),
            _ => false,
        })
    }

    /// Every operation, in the order in which they began.
    pub fn operations(&self) -> impl Iterator<Item = (Op, &Operation<'h>)> {
        let mut all: Vec<_> = self.ops.iter().map(|(op, all)| (*op, all)).collect();
        all.sort_by_key(|(_, operation)| operation.began);
        all.into_iter()
    }

    /// Every entry with its index.
    pub fn events(&self) -> impl Iterator<Item = (usize, &'h Name, &'h Event)> {
        self.entries
            .iter()
            .enumerate()
            .map(|(at, entry)| (at, &entry.who, &entry.event))
    }

    /// The time of an entry.
    pub fn at_ms(&self, at: usize) -> u64 {
        self.entries.get(at).map_or(0, |entry| entry.at_ms)
    }
}

#[cfg(test)]
mod tests {
    use super::super::testing::{Story, begin_transaction};
    use crate::call::Reply;
    use crate::event::{Event, Op};

    #[test]
    fn an_end_has_one_beginning_of_the_same_client() {
        let mut story = Story::acknowledged();
        let op = story.begin("a", begin_transaction(0));
        story.ok(op, Reply::Done);
        assert!(story.verdicts().is_empty());
        story.ok(op, Reply::Done);
        assert_eq!(story.names(), ["ill-formed"]);

        let mut story = Story::acknowledged();
        story.event(
            "a",
            Event::Ok {
                op: Op(77),
                reply: Reply::Done,
            },
        );
        assert_eq!(story.names(), ["ill-formed"]);

        let mut story = Story::acknowledged();
        let op = story.begin("a", begin_transaction(0));
        story.event(
            "b",
            Event::Ok {
                op,
                reply: Reply::Done,
            },
        );
        assert_eq!(story.names(), ["ill-formed"]);
    }
}
