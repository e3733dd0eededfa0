//! Lookups against a log held in memory.

use std::convert::Infallible;
use std::sync::atomic::{AtomicUsize, Ordering};

use futures::FutureExt;
use futures::future::BoxFuture;
use proptest::prelude::*;
use uuid::Uuid;

use super::*;
use crate::time_index::Appended;

const PARTITION: PartitionKey = PartitionKey {
    topic_id: Uuid::from_u128(1),
    partition: 0,
};

struct Records {
    timestamps: Vec<i64>,
    per_call: usize,
    read: AtomicUsize,
}

impl Records {
    fn new(timestamps: Vec<i64>, per_call: usize) -> Self {
        Self {
            timestamps,
            per_call,
            read: AtomicUsize::new(0),
        }
    }

    fn log(&self, start: i64) -> Log {
        Log {
            partition: PARTITION,
            start,
            end: i64::try_from(self.timestamps.len()).unwrap(),
        }
    }

    /// The answer by definition.
    fn first(&self, start: i64, timestamp: i64) -> Option<TimedOffset> {
        (0..)
            .zip(&self.timestamps)
            .map(|(offset, &timestamp)| TimedOffset { offset, timestamp })
            .find(|record| record.offset >= start && record.timestamp >= timestamp)
    }
}

impl ReadTimes for Records {
    type Error = Infallible;

    fn read(&self, offset: i64, most: bool) -> BoxFuture<'_, Result<Vec<TimedOffset>, Infallible>> {
        let per_call = if most { self.per_call } else { 1 };
        let records: Vec<_> = (0..)
            .zip(&self.timestamps)
            .map(|(offset, &timestamp)| TimedOffset { offset, timestamp })
            .skip(usize::try_from(offset).unwrap())
            .take(per_call)
            .collect();
        self.read.fetch_add(records.len(), Ordering::Relaxed);
        async { Ok(records) }.boxed()
    }
}

fn run<T>(future: impl Future<Output = Result<T, Infallible>>) -> T {
    match future.now_or_never() {
        Some(Ok(value)) => value,
        _ => panic!("memory answers at once"),
    }
}

proptest! {
    /// Kafka's answer for any timestamps, whatever the index knows beforehand.
    #[test]
    fn finds_the_first_in_offset_order(
        timestamps in prop::collection::vec(0..40_i64, 0..200),
        per_call in 1..50_usize,
        learnt in prop::collection::vec((0..200_usize, 1..30_usize), 0..10),
        start in 0..200_i64,
        lookups in prop::collection::vec(0..45_i64, 1..6),
    ) {
        let records = Records::new(timestamps, per_call);
        let index = TimeIndex::new();
        for (first, len) in learnt {
            let Some(stretch) = records.timestamps.get(first..) else { continue };
            let stretch = &stretch[..len.min(stretch.len())];
            let Some(max) = stretch.iter().max() else { continue };
            let at = stretch.iter().position(|t| t == max).unwrap();
            let (first, at) = (i64::try_from(first).unwrap(), i64::try_from(at).unwrap());
            index.learn(PARTITION, Block {
                first,
                end: first + i64::try_from(stretch.len()).unwrap(),
                max_timestamp: *max,
                max_timestamp_at: first + at,
            });
        }
        let start = start.min(i64::try_from(records.timestamps.len()).unwrap());
        let log = records.log(start);
        for timestamp in lookups {
            let found = run(first_at_or_after(&index, &records, log, timestamp));
            prop_assert_eq!(found.record, records.first(start, timestamp));
            let max = records.timestamps[usize::try_from(start).unwrap()..].iter().max();
            let largest = run(largest(&index, &records, log)).record;
            let expected = max.and_then(|max| records.first(start, *max));
            prop_assert_eq!(largest, expected);
        }
    }
}

#[test]
fn reads_nothing_twice() {
    let records = Records::new((0..100_000).map(|n| n % 1000).collect(), 10_000);
    let index = TimeIndex::new();
    let log = records.log(0);
    assert_eq!(
        run(first_at_or_after(&index, &records, log, 5000)).record,
        None
    );
    assert_eq!(records.read.load(Ordering::Relaxed), 100_000);
    assert_eq!(
        run(first_at_or_after(&index, &records, log, 5000)).record,
        None
    );
    assert_eq!(records.read.load(Ordering::Relaxed), 100_000);
    let found = run(first_at_or_after(&index, &records, log, 999));
    assert_eq!(found.record.map(|record| record.offset), Some(999));
    assert!(records.read.load(Ordering::Relaxed) <= 110_000);
}

#[test]
fn reads_nothing_of_what_was_produced_here() {
    let records = Records::new((0..5000).collect(), 100);
    let index = TimeIndex::new();
    for base in (0..5000).step_by(50) {
        let batch = Appended {
            partition: PARTITION,
            count: 50,
            max_timestamp: base + 49,
            max_timestamp_at: 49,
        };
        index.appended(batch, base);
    }
    let found = run(largest(&index, &records, records.log(0)));
    assert_eq!(
        found.record,
        Some(TimedOffset {
            offset: 4999,
            timestamp: 4999
        })
    );
    assert_eq!(records.read.load(Ordering::Relaxed), 0);
    run(first_at_or_after(&index, &records, records.log(0), 4000));
    assert!(records.read.load(Ordering::Relaxed) <= 1100, "one block");
}

/// A log too long to scan whose timestamps rise.
struct Endless;

impl ReadTimes for Endless {
    type Error = Infallible;

    fn read(&self, offset: i64, most: bool) -> BoxFuture<'_, Result<Vec<TimedOffset>, Infallible>> {
        assert!(!most, "not to be scanned");
        async move {
            Ok(vec![TimedOffset {
                offset,
                timestamp: offset * 2,
            }])
        }
        .boxed()
    }
}

#[test]
fn searches_what_is_too_long_to_scan_and_says_so() {
    let index = TimeIndex::new();
    let log = Log {
        partition: PARTITION,
        start: 17,
        end: 50_000_000,
    };
    let found = run(first_at_or_after(&index, &Endless, log, 1_000_001));
    let record = TimedOffset {
        offset: 500_001,
        timestamp: 1_000_002,
    };
    assert_eq!(
        found,
        Found {
            record: Some(record),
            guessed: true
        }
    );
    let past = run(first_at_or_after(&index, &Endless, log, i64::MAX));
    assert_eq!(past.record, None);
    assert!(run(largest(&index, &Endless, log)).guessed);
}
