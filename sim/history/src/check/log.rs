//! The log as it was read at the end, against what was written: nothing lost, nothing twice,
//! nothing that nobody wrote, each where its producer was told, in order, with the same bytes.

use std::collections::{BTreeMap, BTreeSet};

use super::index::{Index, Operation};
use super::transactions::hidden;
use super::{Anomaly, Verdict};
use crate::call::{Admin, Call, Reply};
use crate::event::{Event, Op, Promise, Source};
use crate::value::{Batch, Name, TopicPartition, Value};

/// A record of the log.
#[derive(Clone, Copy, Debug)]
pub(super) struct There {
    pub value: Value,
    digest: Option<u32>,
    /// The entry that shows it.
    pub entry: usize,
}

/// The whole log of a partition.
#[derive(Debug, Default)]
pub(super) struct Log {
    pub at: BTreeMap<i64, There>,
    /// The first offset that is kept.
    pub start: i64,
    /// The offset after the last.
    pub end: i64,
    /// The entry that says that this is all.
    pub whole: usize,
}

/// Where a value is.
#[derive(Clone, Copy, Debug)]
struct Place<'l> {
    at: &'l TopicPartition,
    offset: i64,
    entry: usize,
}

impl std::fmt::Display for Place<'_> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{}@{}", self.at, self.offset)
    }
}

/// Every partition whose log was read to its end.
#[derive(Debug, Default)]
pub(super) struct Logs {
    whole: BTreeMap<TopicPartition, Log>,
    /// Offsets at which two ways to read the log disagree: offset, and both entries.
    disagree: Vec<(TopicPartition, i64, [usize; 2])>,
    /// Topics that were deleted or created again: what was in them is not known.
    deleted: BTreeSet<Name>,
}

impl Logs {
    pub fn of(index: &Index<'_>) -> Self {
        let mut read: BTreeMap<(Source, &TopicPartition), Log> = BTreeMap::new();
        let mut ended = BTreeSet::new();
        for (entry, _, event) in index.events() {
            match event {
                Event::Log {
                    source,
                    at,
                    records,
                } => {
                    let log = read.entry((*source, at)).or_default();
                    log.at.extend(records.iter().map(|seen| {
                        let there = There {
                            value: seen.value,
                            digest: seen.digest,
                            entry,
                        };
                        (seen.offset, there)
                    }));
                }
                Event::LogEnd {
                    source,
                    at,
                    start,
                    end,
                } => {
                    let log = read.entry((*source, at)).or_default();
                    (log.start, log.end, log.whole) = (*start, *end, entry);
                    ended.insert((*source, at));
                }
                _ => {}
            }
        }
        read.retain(|key, _| ended.contains(key));
        let mut logs = Self::default();
        for ((_, at), log) in read {
            match logs.whole.get(at) {
                None => {
                    logs.whole.insert(at.clone(), log);
                }
                Some(other) => {
                    let found = disagreements(other, &log);
                    logs.disagree
                        .extend(found.map(|(offset, proof)| (at.clone(), offset, proof)));
                }
            }
        }
        for (_, operation) in index.operations() {
            if let Call::Admin(Admin::DeleteTopic { topic }) = operation.call {
                logs.deleted.insert(topic.clone());
            }
        }
        logs
    }

    /// The whole log of a partition, when it was read and can be judged.
    pub fn get(&self, at: &TopicPartition) -> Option<&Log> {
        self.whole
            .get(at)
            .filter(|_| !self.deleted.contains(&at.topic))
    }

    /// Every log that can be judged.
    pub fn judged(&self) -> impl Iterator<Item = (&TopicPartition, &Log)> {
        self.whole
            .iter()
            .filter(|(at, _)| !self.deleted.contains(&at.topic))
    }

    fn places(&self) -> BTreeMap<Value, Vec<Place<'_>>> {
        let mut places: BTreeMap<Value, Vec<Place<'_>>> = BTreeMap::new();
        for (at, log) in self.judged() {
            for (&offset, there) in &log.at {
                places.entry(there.value).or_default().push(Place {
                    at,
                    offset,
                    entry: there.entry,
                });
            }
        }
        places
    }

    pub fn check(&self, index: &Index<'_>, found: &mut Vec<Verdict>) {
        let places = self.places();
        let (writes, hidden) = (Writes::of(index), hidden(index));
        for (at, offset, proof) in &self.disagree {
            let what = format!("two ways to read {at}@{offset} show different records");
            found.push(Verdict::new(Anomaly::InconsistentOffset, *proof, what));
        }
        for (_, operation) in index.operations() {
            if let Call::Produce { batch, acks, .. } = operation.call {
                let hidden = batch.values().all(|value| hidden.contains(&value));
                // Nobody is owed what was not committed.
                let owed = *acks != 0 && !hidden;
                self.judge_write(operation, batch, owed, &places, found);
            }
        }
        for (value, places) in &places {
            let written = writes.0.get(value);
            if let [first, second, ..] = places[..]
                && written.is_none_or(|write| index.promised(write.operation.who, Promise::Once))
            {
                let what = format!("{value} is at {first} and at {second}");
                let proof = [first.entry, second.entry]
                    .into_iter()
                    .chain(written.map(|write| write.operation.began));
                found.push(Verdict::new(Anomaly::Duplicate, proof, what));
            }
            for place in places {
                judge_place(*value, place, written, found);
            }
        }
        self.judge_order(index, &writes, found);
        self.judge_bytes(index, &writes, found);
    }

    fn judge_write(
        &self,
        operation: &Operation<'_>,
        batch: &Batch,
        owed: bool,
        places: &BTreeMap<Value, Vec<Place<'_>>>,
        found: &mut Vec<Verdict>,
    ) {
        let Some(log) = self.get(&batch.to) else {
            return;
        };
        if let Some((at, failure)) = operation.failed() {
            for place in batch
                .values()
                .filter_map(|value| places.get(&value)?.first())
            {
                let what = format!(
                    "{place} holds what {} was told can never be there ({})",
                    operation.who, failure.what
                );
                let proof = [operation.began, at, place.entry];
                found.push(Verdict::new(Anomaly::AbortedRead, proof, what));
            }
        }
        let Some((told, Reply::Stored { base_offset })) = operation.ok() else {
            return;
        };
        for (value, delta) in batch.values().zip(0..) {
            let offset = base_offset.map(|base| base + delta);
            let proof = [operation.began, told];
            // What was deleted on demand is not lost.
            if owed && !places.contains_key(&value) && offset.unwrap_or(0) >= log.start {
                let what = format!("{value} was acknowledged and is nowhere in {}", batch.to);
                let proof = proof.into_iter().chain([log.whole]);
                found.push(Verdict::new(Anomaly::LostWrite, proof, what));
                continue;
            }
            let Some(offset) = offset.filter(|offset| *offset >= log.start) else {
                continue;
            };
            let there = log.at.get(&offset);
            if there.is_none_or(|there| there.value != value) && owed {
                let holds = there.map_or("nothing".to_owned(), |there| there.value.to_string());
                let what = format!(
                    "{}@{offset} was said to hold {value} and holds {holds}",
                    batch.to
                );
                let shown = there.map_or(log.whole, |there| there.entry);
                let proof = proof.into_iter().chain([shown]);
                found.push(Verdict::new(Anomaly::InconsistentOffset, proof, what));
            }
        }
    }

    /// Values of one producer, by ascending offset, against the order they were handed over in.
    fn judge_order(&self, index: &Index<'_>, writes: &Writes<'_>, found: &mut Vec<Verdict>) {
        for (at, log) in self.judged() {
            let mut last: BTreeMap<u32, (Value, usize)> = BTreeMap::new();
            // A duplicate is named elsewhere; it isn't a second fault of order.
            let mut seen = BTreeSet::new();
            for there in log.at.values() {
                let ordered = writes
                    .0
                    .get(&there.value)
                    .is_some_and(|write| index.promised(write.operation.who, Promise::Ordered));
                if !ordered || !seen.insert(there.value) {
                    continue;
                }
                let now = (there.value, there.entry);
                if let Some((before, entry)) = last.insert(there.value.producer, now)
                    && before.number > there.value.number
                {
                    let what = format!("{before} stands before {} in {at}", there.value);
                    let proof = [entry, there.entry];
                    found.push(Verdict::new(Anomaly::Order, proof, what));
                }
            }
        }
    }

    /// Every sight of a value against what was written.
    fn judge_bytes(&self, index: &Index<'_>, writes: &Writes<'_>, found: &mut Vec<Verdict>) {
        let mut judge = |value: Value, digest: Option<u32>, entry: usize| {
            let Some(write) = writes.0.get(&value) else {
                return;
            };
            if let (Some(was), Some(is)) = (write.digest, digest)
                && was != is
            {
                let what = format!("{value} was written as {was:08x} and is read as {is:08x}");
                let proof = [write.operation.began, entry];
                found.push(Verdict::new(Anomaly::Corrupt, proof, what));
            }
        };
        for (_, log) in self.judged() {
            for there in log.at.values() {
                judge(there.value, there.digest, there.entry);
            }
        }
        for (_, operation) in index.operations() {
            if let Some((at, Reply::Polled(polled))) = operation.ok() {
                for seen in polled.iter().flat_map(|polled| &polled.records) {
                    judge(seen.value, seen.digest, at);
                }
            }
        }
    }
}

fn judge_place(
    value: Value,
    place: &Place<'_>,
    written: Option<&Write<'_>>,
    found: &mut Vec<Verdict>,
) {
    if written.is_some_and(|write| write.batch.to == *place.at) {
        return;
    }
    let what = format!("{value} is at {place} and was not sent there");
    let proof = [place.entry]
        .into_iter()
        .chain(written.map(|write| write.operation.began));
    found.push(Verdict::new(Anomaly::Phantom, proof, what));
}

/// Offsets at which two logs of a partition differ, within what both of them keep.
fn disagreements(one: &Log, other: &Log) -> impl Iterator<Item = (i64, [usize; 2])> {
    let start = one.start.max(other.start);
    let offsets: BTreeSet<i64> = one.at.keys().chain(other.at.keys()).copied().collect();
    let (one_end, other_end) = (one.whole, other.whole);
    offsets
        .into_iter()
        .filter(move |offset| *offset >= start)
        .filter_map(move |offset| {
            let (left, right) = (one.at.get(&offset), other.at.get(&offset));
            let value = |there: Option<&There>| there.map(|there| there.value);
            (value(left) != value(right)).then(|| {
                let entry = |there: Option<&There>, end| there.map_or(end, |there| there.entry);
                (offset, [entry(left, one_end), entry(right, other_end)])
            })
        })
        .collect::<Vec<_>>()
        .into_iter()
}

/// A value's write.
pub(super) struct Write<'h> {
    pub op: Op,
    pub operation: Operation<'h>,
    pub batch: &'h Batch,
    pub transaction: Option<u64>,
    digest: Option<u32>,
}

/// Every value that was handed to a producer.
pub(super) struct Writes<'h>(pub BTreeMap<Value, Write<'h>>);

impl<'h> Writes<'h> {
    pub fn of(index: &Index<'h>) -> Self {
        let mut writes = BTreeMap::new();
        for (op, operation) in index.operations() {
            let Call::Produce {
                batch, transaction, ..
            } = operation.call
            else {
                continue;
            };
            for record in &batch.records {
                let write = Write {
                    op,
                    operation: *operation,
                    batch,
                    transaction: *transaction,
                    digest: record.digest,
                };
                writes.insert(record.value, write);
            }
        }
        Self(writes)
    }
}

#[cfg(test)]
mod tests;
