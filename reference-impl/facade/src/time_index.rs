//! Which offset belongs to a time: a sparse index of the largest timestamp in stretches of each
//! partition's log.
//!
//! Kafka answers a time with the first offset, in offset order, whose timestamp is at least that.
//! Producers set timestamps, so they need not rise and plain binary search is wrong. The index
//! learns from what is produced and fetched; what it doesn't know, a lookup scans and keeps.
//! Touches nothing but memory; [`lookup`] reads the log.

mod blocks;
pub mod lookup;

use std::sync::{Mutex, MutexGuard, PoisonError};

use indexmap::IndexMap;
use uuid::Uuid;

use blocks::Blocks;
pub use blocks::{Block, Stretch};

/// Blocks kept over all partitions, 48 bytes each: enough for a quarter of a billion records.
const MAX_BLOCKS: usize = 262_144;

/// A partition of a topic, by the topic's id: a recreated topic is another one.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct PartitionKey {
    /// The topic's id.
    pub topic_id: Uuid,
    /// The partition.
    pub partition: i32,
}

/// A batch that is about to be appended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Appended {
    /// Where.
    pub partition: PartitionKey,
    /// How many records.
    pub count: u32,
    /// Their largest timestamp.
    pub max_timestamp: i64,
    /// The position of the first record with it.
    pub max_timestamp_at: u32,
}

/// The index of a node.
#[derive(Debug, Default)]
pub struct TimeIndex {
    inner: Mutex<Inner>,
}

#[derive(Debug, Default)]
struct Inner {
    partitions: IndexMap<PartitionKey, Entry>,
    blocks: usize,
    clock: u64,
}

#[derive(Debug, Default)]
struct Entry {
    blocks: Blocks,
    used: u64,
}

impl TimeIndex {
    /// An index that knows nothing.
    pub fn new() -> Self {
        Self::default()
    }

    fn lock(&self) -> MutexGuard<'_, Inner> {
        self.inner.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Learns of a batch that was just stored at `base_offset`, the end of its log.
    pub fn appended(&self, batch: Appended, base_offset: i64) {
        let block = Block {
            first: base_offset,
            end: base_offset.saturating_add(i64::from(batch.count)),
            max_timestamp: batch.max_timestamp,
            max_timestamp_at: base_offset.saturating_add(i64::from(batch.max_timestamp_at)),
        };
        self.lock()
            .update(batch.partition, |blocks| blocks.append(block));
    }

    /// Learns of records that were read.
    pub fn learn(&self, partition: PartitionKey, block: Block) {
        self.lock().update(partition, |blocks| blocks.insert(block));
    }

    /// The stretches of `from..to` in order, known and unknown. What lies outside is forgotten
    /// where it can't be true any more: below `from` it was removed, above `to` it belongs to a
    /// log that is gone.
    pub fn stretches(&self, partition: PartitionKey, from: i64, to: i64) -> Vec<Stretch> {
        let mut stretches = Vec::new();
        self.lock().update(partition, |blocks| {
            blocks.confine(from, to);
            stretches = blocks.stretches(from, to);
        });
        stretches
    }
}

impl Inner {
    fn update(&mut self, partition: PartitionKey, change: impl FnOnce(&mut Blocks)) {
        // Without an id a topic can't be told from another one.
        if partition.topic_id.is_nil() {
            change(&mut Blocks::default());
            return;
        }
        self.clock += 1;
        let entry = self.partitions.entry(partition).or_default();
        entry.used = self.clock;
        let before = entry.blocks.len();
        change(&mut entry.blocks);
        let after = entry.blocks.len();
        if after == 0 {
            // What was only asked about is not worth a place.
            self.partitions.swap_remove(&partition);
        }
        self.blocks = self.blocks - before + after;
        if self.blocks > MAX_BLOCKS {
            self.evict();
        }
    }

    /// Forgets the partitions that were used least recently, down to three quarters of the budget:
    /// the sort is paid for by the many insertions in between.
    fn evict(&mut self) {
        let mut by_use: Vec<_> = self.partitions.iter().map(|(k, e)| (e.used, *k)).collect();
        by_use.sort_unstable_by_key(|(used, _)| *used);
        for (_, key) in by_use {
            if self.blocks <= MAX_BLOCKS / 4 * 3 {
                break;
            }
            if let Some(entry) = self.partitions.swap_remove(&key) {
                self.blocks -= entry.blocks.len();
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn is_bounded() {
        let index = TimeIndex::new();
        for partition in 0..300_000 {
            let partition = PartitionKey {
                topic_id: Uuid::nil(),
                partition,
            };
            index.learn(
                partition,
                Block {
                    first: 0,
                    end: 1,
                    max_timestamp: 5,
                    max_timestamp_at: 0,
                },
            );
        }
        let inner = index.lock();
        assert!(inner.blocks <= MAX_BLOCKS && inner.partitions.len() == inner.blocks);
    }
}
