//! What is known of one partition: disjoint stretches of offsets with their largest timestamps.

use std::collections::BTreeMap;

/// Records that one block gathers before the next begins: what a lookup reads at most in vain.
const BLOCK_RECORDS: i64 = 1024;

/// A stretch of offsets and its largest timestamp.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Block {
    /// The first offset.
    pub first: i64,
    /// The offset after the last.
    pub end: i64,
    /// The largest timestamp.
    pub max_timestamp: i64,
    /// The first offset that has it.
    pub max_timestamp_at: i64,
}

/// A part of a log, as the index sees it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Stretch {
    /// Its largest timestamp is known.
    Known(Block),
    /// Nothing is known of these offsets.
    Unknown {
        /// The first offset.
        first: i64,
        /// The offset after the last.
        end: i64,
    },
}

/// Disjoint blocks by their first offset.
#[derive(Debug, Default)]
pub(super) struct Blocks(BTreeMap<i64, Block>);

impl Blocks {
    pub(super) fn len(&self) -> usize {
        self.0.len()
    }

    /// Adds the end of the log. What was known from there on belonged to a log that is gone.
    pub(super) fn append(&mut self, block: Block) {
        self.forget_from(block.first);
        self.insert(block);
    }

    /// Adds what was read. A stretch that is known already adds nothing.
    pub(super) fn insert(&mut self, block: Block) {
        if block.first >= block.end {
            return;
        }
        let before = self.0.range(..block.end).next_back().map(|(_, b)| *b);
        match before {
            Some(known) if known.first <= block.first && block.end <= known.end => {}
            Some(known) if known.end > block.first => self.replace(block),
            Some(known) if known.end == block.first && known.end - known.first < BLOCK_RECORDS => {
                self.0.insert(known.first, joined(known, block));
            }
            _ => {
                self.0.insert(block.first, block);
            }
        }
    }

    /// Adds a stretch of which a part is known: that part's blocks go, for they say nothing about
    /// the rest of it.
    fn replace(&mut self, block: Block) {
        let overlapping: Vec<i64> = self
            .0
            .range(..block.end)
            .rev()
            .take_while(|(_, known)| known.end > block.first)
            .map(|(first, _)| *first)
            .collect();
        for first in overlapping {
            self.0.remove(&first);
        }
        self.0.insert(block.first, block);
    }

    /// Forgets what lies outside the log `from..to`: removed below, never there (or not yet seen
    /// by who asks) above.
    pub(super) fn confine(&mut self, from: i64, to: i64) {
        self.forget_from(to);
        while let Some((&first, block)) = self.0.first_key_value() {
            if block.end > from {
                break;
            }
            self.0.remove(&first);
        }
    }

    /// Forgets every block that reaches beyond `offset`.
    fn forget_from(&mut self, offset: i64) {
        while let Some((&first, block)) = self.0.last_key_value() {
            if block.end <= offset {
                break;
            }
            self.0.remove(&first);
        }
    }

    pub(super) fn stretches(&self, from: i64, to: i64) -> Vec<Stretch> {
        let mut stretches = Vec::new();
        let mut at = from;
        for block in self.0.values() {
            if block.end <= at {
                continue;
            }
            if block.first >= to {
                break;
            }
            if block.first > at {
                stretches.push(Stretch::Unknown {
                    first: at,
                    end: block.first,
                });
            }
            stretches.push(Stretch::Known(*block));
            at = block.end;
        }
        if at < to {
            stretches.push(Stretch::Unknown { first: at, end: to });
        }
        stretches
    }
}

fn joined(one: Block, next: Block) -> Block {
    let (max_timestamp, max_timestamp_at) = if next.max_timestamp > one.max_timestamp {
        (next.max_timestamp, next.max_timestamp_at)
    } else {
        (one.max_timestamp, one.max_timestamp_at)
    };
    Block {
        first: one.first,
        end: next.end,
        max_timestamp,
        max_timestamp_at,
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn block(first: i64, timestamps: &[i64]) -> Block {
        let (at, max) = timestamps
            .iter()
            .enumerate()
            .rev()
            .max_by_key(|(_, timestamp)| **timestamp)
            .unwrap();
        Block {
            first,
            end: first + i64::try_from(timestamps.len()).unwrap(),
            max_timestamp: *max,
            max_timestamp_at: first + i64::try_from(at).unwrap(),
        }
    }

    #[test]
    fn gathers_small_batches() {
        let mut blocks = Blocks::default();
        for offset in 0..4096 {
            blocks.append(block(offset, &[offset % 7]));
        }
        assert_eq!(blocks.len(), 4);
        let Stretch::Known(first) = blocks.stretches(0, 4096)[0] else {
            panic!("all was appended")
        };
        assert_eq!((first.max_timestamp, first.max_timestamp_at), (6, 6));
    }

    #[test]
    fn a_log_that_starts_anew_replaces_the_old_one() {
        let mut blocks = Blocks::default();
        blocks.append(block(0, &[9; 100]));
        blocks.append(block(0, &[1]));
        assert_eq!(blocks.stretches(0, 1), [Stretch::Known(block(0, &[1]))]);
        assert_eq!(blocks.len(), 1);
    }

    proptest! {
        /// Whatever is learnt in whatever order, every stretch tells the truth about the log, and
        /// the stretches cover it without overlap.
        #[test]
        fn tells_the_truth(
            log in prop::collection::vec(0..50_i64, 1..120),
            learnt in prop::collection::vec((0..120_usize, 1..40_usize), 0..40),
            bounds in (0..120_usize, 0..120_usize),
        ) {
            let mut blocks = Blocks::default();
            for (first, len) in learnt {
                let end = (first + len).min(log.len());
                if first < end {
                    blocks.insert(block(i64::try_from(first).unwrap(), &log[first..end]));
                }
            }
            let from = bounds.0.min(log.len());
            let to = bounds.1.clamp(from, log.len());
            let (from, to) = (i64::try_from(from).unwrap(), i64::try_from(to).unwrap());
            blocks.confine(from, to);
            let mut at = from;
            for stretch in blocks.stretches(from, to) {
                match stretch {
                    Stretch::Known(known) => {
                        prop_assert!(known.first <= at && at < known.end && known.end <= to);
                        prop_assert!(known.first == at || at == from);
                        let first = usize::try_from(known.first).unwrap();
                        let end = usize::try_from(known.end).unwrap();
                        prop_assert_eq!(known, block(known.first, &log[first..end]));
                        at = known.end;
                    }
                    Stretch::Unknown { first, end } => {
                        prop_assert!(first == at && first < end);
                        at = end;
                    }
                }
            }
            prop_assert_eq!(at, to);
        }
    }
}
