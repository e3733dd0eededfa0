//! Histories told in a few words, for the checkers' tests: one topic, one partition, producer 1.

use super::{Verdict, check};
use crate::call::{Call, Failure, Isolation, Polled, Reply};
use crate::event::{Entry, Event, Op, Promise, Source};
use crate::value::{Batch, Name, Seen, TopicPartition, Value};

/// Partition 0 of the topic.
pub fn at() -> TopicPartition {
    TopicPartition::new("orders", 0)
}

/// Producer 1's value.
pub fn value(number: u64) -> Value {
    Value {
        producer: 1,
        number,
    }
}

/// That value, seen.
pub fn seen(offset: i64, number: u64) -> Seen {
    Seen {
        offset,
        value: value(number),
        digest: None,
    }
}

/// A batch of values.
pub fn batch(first: u64, count: u32) -> Batch {
    Batch::of_values(at(), value(first), count)
}

/// A call that needs nothing.
pub fn begin_transaction(transaction: u64) -> Call {
    Call::Begin { transaction }
}

fn sights(shown: &[(i64, u64)]) -> Vec<Seen> {
    shown
        .iter()
        .map(|(offset, number)| seen(*offset, *number))
        .collect()
}

/// A history, told step by step.
#[derive(Clone, Debug, Default)]
pub struct Story {
    entries: Vec<Entry>,
    now_ms: u64,
    ops: u64,
}

impl Story {
    /// One value of `p`, who promised everything, was sent and acknowledged at 0.
    pub fn acknowledged() -> Self {
        Self::acknowledged_many(1)
    }

    /// Values `0..count`, as one batch.
    pub fn acknowledged_many(count: u32) -> Self {
        let mut story = Self::default();
        story.promise("p", [Promise::Once, Promise::Ordered]);
        let op = story.produce("p", 0, count);
        story.stored(op, 0);
        story
    }

    /// Time passes.
    pub fn wait(&mut self, ms: u64) {
        self.now_ms += ms;
    }

    /// Something happens; its index.
    pub fn event(&mut self, who: &str, event: Event) -> usize {
        self.entries.push(Entry {
            at_ms: self.now_ms,
            who: who.into(),
            event,
        });
        self.entries.len() - 1
    }

    /// A client promises, even if late.
    pub fn promise(&mut self, who: &str, promises: impl IntoIterator<Item = Promise>) {
        let event = Event::Client {
            profile: Name::from("none"),
            promises: promises.into_iter().collect(),
        };
        self.event(who, event);
    }

    /// Nobody promised anything.
    pub fn forget_promises(&mut self) {
        for entry in &mut self.entries {
            if let Event::Client { promises, .. } = &mut entry.event {
                promises.clear();
            }
        }
    }

    /// An operation begins.
    pub fn begin(&mut self, who: &str, call: Call) -> Op {
        self.begin_within(who, call, None)
    }

    /// An operation with a bound begins.
    pub fn begin_within(&mut self, who: &str, call: Call, within_ms: Option<u64>) -> Op {
        self.ops += 1;
        let op = Op(self.ops);
        let event = Event::Invoke {
            op,
            call,
            within_ms,
        };
        self.event(who, event);
        op
    }

    fn who(&self, op: Op) -> String {
        let begun = self
            .entries
            .iter()
            .find(|entry| matches!(&entry.event, Event::Invoke { op: begun, .. } if *begun == op));
        begun.expect("it began").who.to_string()
    }

    /// It succeeds; the entry's index.
    pub fn ok(&mut self, op: Op, reply: Reply) -> usize {
        self.event(&self.who(op), Event::Ok { op, reply })
    }

    /// It fails.
    pub fn fail(&mut self, op: Op, failure: Failure) -> usize {
        self.event(&self.who(op), Event::Fail { op, failure })
    }

    /// Nobody knows.
    pub fn unknown(&mut self, op: Op, failure: Failure) -> usize {
        self.event(&self.who(op), Event::Unknown { op, failure })
    }

    /// Begins and succeeds; the index of the end.
    pub fn done(&mut self, who: &str, call: Call, reply: Reply) -> usize {
        let op = self.begin(who, call);
        self.ok(op, reply)
    }

    /// A batch is handed over.
    pub fn produce(&mut self, who: &str, first: u64, count: u32) -> Op {
        let call = Call::Produce {
            batch: batch(first, count),
            acks: -1,
            transaction: None,
        };
        self.begin(who, call)
    }

    /// A batch is stored.
    pub fn stored(&mut self, op: Op, base_offset: i64) -> usize {
        let base_offset = Some(base_offset);
        self.ok(op, Reply::Stored { base_offset })
    }

    /// A reader polls offsets and values.
    pub fn polled(&mut self, who: &str, from: i64, next: i64, shown: &[(i64, u64)]) -> usize {
        self.poll(Isolation::ReadUncommitted, who, from, next, shown)
    }

    /// A reader of committed records polls.
    pub fn polled_committed(
        &mut self,
        who: &str,
        from: i64,
        next: i64,
        shown: &[(i64, u64)],
    ) -> usize {
        self.poll(Isolation::ReadCommitted, who, from, next, shown)
    }

    fn poll(
        &mut self,
        isolation: Isolation,
        who: &str,
        from: i64,
        next: i64,
        shown: &[(i64, u64)],
    ) -> usize {
        let call = Call::Poll {
            isolation,
            transaction: None,
        };
        let polled = Polled {
            at: at(),
            from,
            next,
            records: sights(shown),
        };
        self.done(who, call, Reply::Polled(vec![polled]))
    }

    /// A consumer reads the whole log, from 0.
    pub fn log(&mut self, shown: &[(i64, u64)]) {
        self.log_from(0, shown);
    }

    /// The log starts later.
    pub fn log_from(&mut self, start: i64, shown: &[(i64, u64)]) {
        self.log_at(&at(), start, shown);
    }

    /// Of another partition.
    pub fn log_at(&mut self, at: &TopicPartition, start: i64, shown: &[(i64, u64)]) {
        self.log_whole(at, start, sights(shown));
    }

    /// Of another partition, values one behind the other.
    pub fn log_of(&mut self, at: &TopicPartition, values: impl IntoIterator<Item = Value>) {
        let records = (0..).zip(values).map(|(offset, value)| Seen {
            offset,
            value,
            digest: None,
        });
        self.log_whole(at, 0, records.collect());
    }

    /// With checksums.
    pub fn log_records(&mut self, records: Vec<Seen>) {
        self.log_whole(&at(), 0, records);
    }

    fn log_whole(&mut self, at: &TopicPartition, start: i64, records: Vec<Seen>) {
        let end = records.last().map_or(start, |last| last.offset + 1);
        let source = Source::Consumer;
        self.event(
            "auditor",
            Event::Log {
                source,
                at: at.clone(),
                records,
            },
        );
        let whole = Event::LogEnd {
            source,
            at: at.clone(),
            start,
            end,
        };
        self.event("auditor", whole);
    }

    /// A part of the log.
    pub fn log_part(&mut self, shown: &[(i64, u64)]) {
        let part = Event::Log {
            source: Source::Consumer,
            at: at(),
            records: sights(shown),
        };
        self.event("auditor", part);
    }

    /// What it holds.
    pub fn entries(&self) -> &[Entry] {
        &self.entries
    }

    /// What is wrong with it.
    pub fn verdicts(&self) -> Vec<Verdict> {
        check(&self.entries)
    }

    /// The names of what is wrong with it.
    pub fn names(&self) -> Vec<&'static str> {
        let verdicts = self.verdicts();
        verdicts
            .iter()
            .map(|verdict| verdict.anomaly.name())
            .collect()
    }
}
