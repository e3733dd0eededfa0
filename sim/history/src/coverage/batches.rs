//! Situations of batches and their retries.

use std::collections::BTreeMap;

use crate::call::{Call, Reply};
use crate::check::index::Index;
use crate::event::{Event, Op};
use crate::value::{Name, TopicPartition, Value};

/// The entries at which each batch went out.
pub(super) fn attempts(index: &Index<'_>) -> BTreeMap<Op, Vec<usize>> {
    let mut attempts: BTreeMap<Op, Vec<usize>> = BTreeMap::new();
    for (at, _, event) in index.events() {
        if let Event::Attempt { op, .. } = event {
            attempts.entry(*op).or_default().push(at);
        }
    }
    for (op, operation) in index.operations() {
        if !matches!(operation.call, Call::Produce { .. }) {
            attempts.remove(&op);
        }
    }
    attempts
}

/// Batches that went out again after something had shown that they are in the log: a reader that
/// got them, or an acknowledgement of something that stands behind them.
pub(super) fn landed_retries(index: &Index<'_>) -> u64 {
    let mut seen: BTreeMap<Value, usize> = BTreeMap::new();
    for (at, _, event) in index.events() {
        if let Event::Ok {
            reply: Reply::Polled(polled),
            ..
        } = event
        {
            for record in polled.iter().flat_map(|polled| &polled.records) {
                seen.entry(record.value).or_insert(at);
            }
        }
    }
    let attempts = attempts(index);
    let mut stored: BTreeMap<&TopicPartition, Vec<(i64, usize)>> = BTreeMap::new();
    let mut again = Vec::new();
    for (op, operation) in index.operations() {
        let Call::Produce { batch, .. } = operation.call else {
            continue;
        };
        let base = match operation.ok() {
            Some((at, Reply::Stored { base_offset })) => {
                let told = stored.entry(&batch.to).or_default();
                told.extend(base_offset.map(|base| (base, at)));
                *base_offset
            }
            _ => None,
        };
        if let Some([_, .., last]) = attempts.get(&op).map(Vec::as_slice) {
            again.push((batch, base, *last));
        }
    }
    let landed = again.into_iter().filter(|(batch, base, last)| {
        let first = batch.values().next().and_then(|value| seen.get(&value));
        let behind =
            |(other, at): &(i64, usize)| base.is_some_and(|base| *other > base) && at < last;
        first.is_some_and(|seen| seen < last)
            || stored
                .get(&batch.to)
                .is_some_and(|all| all.iter().any(behind))
    });
    landed.count() as u64
}

/// The most batches that one producer had sent and not heard of when the entry `at` came.
pub(super) fn most_in_flight(index: &Index<'_>, at: usize) -> usize {
    let attempts = attempts(index);
    let mut open: BTreeMap<&Name, usize> = BTreeMap::new();
    for (op, operation) in index.operations() {
        let sent = attempts
            .get(&op)
            .and_then(|sent| sent.first())
            .is_some_and(|sent| *sent < at);
        if sent && operation.ended.is_none_or(|ended| ended > at) {
            *open.entry(operation.who).or_default() += 1;
        }
    }
    open.into_values().max().unwrap_or(0)
}
