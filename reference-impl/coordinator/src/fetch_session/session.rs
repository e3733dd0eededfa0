//! One session: its partitions in reading order, and what the client knows of each.

use std::collections::BTreeMap;
use std::hash::Hash;
use std::sync::Arc;

use host::Monotonic;
use indexmap::IndexMap;

use super::{ContextPartition, PartitionFetch, PartitionOutcome, TopicPartition};

/// A watermark the client doesn't know.
const UNKNOWN: i64 = -1;

#[derive(Debug)]
struct Cached<T> {
    partition: TopicPartition<T>,
    fetch: PartitionFetch,
    high_watermark: i64,
    log_start_offset: i64,
}

impl<T> Cached<T> {
    /// Takes in what reading gave; whether the client has to hear of it.
    fn record(&mut self, outcome: PartitionOutcome) -> bool {
        match outcome {
            PartitionOutcome::Unread => false,
            PartitionOutcome::Failed => {
                // When the error goes away the client hears of that too.
                self.high_watermark = UNKNOWN;
                true
            }
            PartitionOutcome::Read {
                has_records,
                high_watermark,
                log_start_offset,
            } => {
                let moved = self.high_watermark != high_watermark
                    || self.log_start_offset != log_start_offset;
                self.high_watermark = high_watermark;
                self.log_start_offset = log_start_offset;
                has_records || moved
            }
        }
    }
}

#[derive(Debug)]
pub(super) struct Session<T> {
    pub(super) owner: Arc<str>,
    pub(super) uses_topic_ids: bool,
    pub(super) epoch: i32,
    pub(super) created: Monotonic,
    pub(super) last_used: Monotonic,
    /// The size under which the cache has counted and filed this session.
    pub(super) counted: usize,
    /// Reading order: a partition that gave records moves to the end.
    order: BTreeMap<u64, Cached<T>>,
    positions: IndexMap<TopicPartition<T>, u64>,
    next_position: u64,
}

impl<T: Clone + Eq + Hash> Session<T> {
    pub(super) fn new(
        owner: Arc<str>,
        uses_topic_ids: bool,
        epoch: i32,
        created: Monotonic,
    ) -> Self {
        Self {
            owner,
            uses_topic_ids,
            epoch,
            created,
            last_used: created,
            counted: 0,
            order: BTreeMap::new(),
            positions: IndexMap::new(),
            next_position: 0,
        }
    }

    pub(super) fn len(&self) -> usize {
        self.order.len()
    }

    /// Whether an update adds at most `room` partitions.
    pub(super) fn fits(
        &self,
        requested: &[(TopicPartition<T>, PartitionFetch)],
        forgotten: &[TopicPartition<T>],
        room: usize,
    ) -> bool {
        if requested.len() <= room {
            return true;
        }
        let added = requested
            .iter()
            .filter(|(partition, _)| !self.positions.contains_key(partition))
            .count();
        added <= room + forgotten.len().min(self.len())
    }

    pub(super) fn update(
        &mut self,
        requested: Vec<(TopicPartition<T>, PartitionFetch)>,
        forgotten: &[TopicPartition<T>],
    ) {
        for (partition, fetch) in requested {
            let known = self
                .positions
                .get(&partition)
                .and_then(|position| self.order.get_mut(position));
            match known {
                Some(cached) => cached.fetch = fetch,
                None => self.push(Cached {
                    partition,
                    fetch,
                    high_watermark: UNKNOWN,
                    log_start_offset: UNKNOWN,
                }),
            }
        }
        for partition in forgotten {
            if let Some(position) = self.positions.swap_remove(partition) {
                self.order.remove(&position);
            }
        }
    }

    pub(super) fn list(&self) -> Vec<ContextPartition<T>> {
        self.order
            .iter()
            .map(|(&position, cached)| ContextPartition {
                partition: cached.partition.clone(),
                fetch: cached.fetch,
                position,
            })
            .collect()
    }

    /// Takes in the outcomes of a listing; for each, whether it belongs into the response.
    pub(super) fn record(
        &mut self,
        listed: &[ContextPartition<T>],
        outcomes: &[PartitionOutcome],
    ) -> Vec<bool> {
        let mut include = Vec::with_capacity(listed.len());
        for (index, listed) in listed.iter().enumerate() {
            let outcome = outcomes
                .get(index)
                .copied()
                .unwrap_or(PartitionOutcome::Unread);
            include.push(self.record_at(listed.position, outcome));
        }
        include
    }

    /// As [`Session::record`], for a session made after its partitions were read.
    pub(super) fn record_first(
        &mut self,
        listed: &[ContextPartition<T>],
        outcomes: &[PartitionOutcome],
    ) {
        for (listed, &outcome) in listed.iter().zip(outcomes) {
            if let Some(&position) = self.positions.get(&listed.partition) {
                self.record_at(position, outcome);
            }
        }
    }

    fn record_at(&mut self, position: u64, outcome: PartitionOutcome) -> bool {
        let Some(cached) = self.order.get_mut(&position) else {
            return true;
        };
        let include = cached.record(outcome);
        let has_records = matches!(
            outcome,
            PartitionOutcome::Read {
                has_records: true,
                ..
            }
        );
        if has_records && let Some(cached) = self.order.remove(&position) {
            self.push(cached);
        }
        include
    }

    fn push(&mut self, cached: Cached<T>) {
        let position = self.next_position;
        self.next_position += 1;
        self.positions.insert(cached.partition.clone(), position);
        self.order.insert(position, cached);
    }
}
