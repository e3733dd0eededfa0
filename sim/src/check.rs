//! Judges a history. Pure functions over plain data: no world, no time, no network.
//!
//! The anomalies and their names are those of Jepsen's Kafka workload, as far as plain producers
//! and readers can show them: lost write, duplicate, inconsistent offsets, poll skip. Each verdict
//! names the values that prove it.

use std::collections::{BTreeMap, BTreeSet};

use serde::{Deserialize, Serialize};

use crate::history::{Batch, Entry, Event, Pass, Value};

/// Something that must never happen, with its proof.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, thiserror::Error)]
#[serde(rename_all = "snake_case", tag = "violation")]
pub enum Violation {
    /// An acknowledged value is not in the log.
    #[error("lost write: {value} was acknowledged and is nowhere in partition {partition}")]
    LostWrite {
        /// The value.
        value: Value,
        /// Where it was sent.
        partition: i32,
    },
    /// A value that a reader saw is no longer where it was.
    #[error("vanished: {value} was read at {partition}@{offset} and is not there at the end")]
    Vanished {
        /// The value.
        value: Value,
        /// Where it was.
        partition: i32,
        /// Where it was.
        offset: i64,
    },
    /// A value is in the log more than once.
    #[error("duplicate: {value} is at {first:?} and at {second:?} (partition, offset)")]
    Duplicate {
        /// The value.
        value: Value,
        /// Partition and offset.
        first: (i32, i64),
        /// Partition and offset.
        second: (i32, i64),
    },
    /// A value is elsewhere than its producer was told, or one offset showed two values.
    #[error("inconsistent offset: {partition}@{offset} was said to hold {told} and holds {found}")]
    InconsistentOffset {
        /// Where.
        partition: i32,
        /// Where.
        offset: i64,
        /// The value that should be there.
        told: Value,
        /// The value that is.
        found: Value,
    },
    /// An idempotent producer's values are not in the order they were sent in.
    #[error("order: {later} stands before {earlier} in partition {partition}")]
    Order {
        /// Where.
        partition: i32,
        /// Sent first.
        earlier: Value,
        /// Stands first.
        later: Value,
    },
    /// A value that nobody sent there.
    #[error("phantom: {value} is at {partition}@{offset} and was not sent there")]
    Phantom {
        /// The value.
        value: Value,
        /// Where it is.
        partition: i32,
        /// Where it is.
        offset: i64,
    },
    /// A reader went past a value without being given it.
    #[error("poll skip: after {partition}@{after} a reader was given {next}, not {skipped}")]
    PollSkip {
        /// Where.
        partition: i32,
        /// The offset it had read.
        after: i64,
        /// The offset it was given next.
        next: i64,
        /// An offset between them that holds a value.
        skipped: i64,
    },
    /// A producer was told that a batch can never be stored, although nothing was wrong with it.
    #[error("refused: {batch} with code {code}")]
    Refused {
        /// The batch.
        batch: Batch,
        /// Kafka's error code.
        code: i16,
    },
    /// A reader was told something that no retry heals.
    #[error("read refused: {partition}@{offset} with code {code}")]
    ReadRefused {
        /// Where.
        partition: i32,
        /// Where.
        offset: i64,
        /// Kafka's error code.
        code: i16,
    },
    /// What came back isn't Kafka's protocol.
    #[error("malformed: {what}")]
    Malformed {
        /// What is wrong.
        what: String,
    },
    /// After everything had healed, clients didn't finish in time.
    #[error("stuck: after the heal {unfinished} of {sent} batches were not answered, or not read")]
    Stuck {
        /// Batches sent and never answered.
        unfinished: usize,
        /// Batches sent.
        sent: usize,
    },
    /// A machine's program ended by itself.
    #[error("broken: {what}")]
    Broken {
        /// What it said.
        what: String,
    },
    /// Nothing was acknowledged: the run proves nothing.
    #[error("vacuous: no write was acknowledged")]
    Vacuous,
}

impl Violation {
    /// The name of its kind.
    pub const fn name(&self) -> &'static str {
        match self {
            Self::LostWrite { .. } => "lost write",
            Self::Vanished { .. } => "vanished",
            Self::Duplicate { .. } => "duplicate",
            Self::InconsistentOffset { .. } => "inconsistent offset",
            Self::Order { .. } => "order",
            Self::Phantom { .. } => "phantom",
            Self::PollSkip { .. } => "poll skip",
            Self::Refused { .. } => "refused",
            Self::ReadRefused { .. } => "read refused",
            Self::Malformed { .. } => "malformed",
            Self::Stuck { .. } => "stuck",
            Self::Broken { .. } => "broken",
            Self::Vacuous => "vacuous",
        }
    }
}

/// Everything wrong in a history, in a fixed order.
///
/// What is in the log is judged only when the final pass has read all of it: a log read in part
/// proves nothing lost.
pub fn check(entries: &[Entry]) -> Vec<Violation> {
    let events = || entries.iter().map(|entry| &entry.event);
    let mut found = told(events());
    if events().any(|event| *event == Event::ReadAll) {
        let log = Log::of(events());
        found.extend(log.against_writes(events()));
        found.extend(log.against_live_reads(events()));
    }
    found
}

/// Batches sent, and of those the ones nobody answered.
pub fn unfinished(entries: &[Entry]) -> (usize, usize) {
    let (mut sent, mut answered) = (0, 0);
    for entry in entries {
        match entry.event {
            Event::Sent { .. } => sent += 1,
            Event::Acknowledged { .. } | Event::Refused { .. } => answered += 1,
            _ => {}
        }
    }
    (sent, sent - answered)
}

/// What clients were told that is wrong by itself.
fn told<'h>(events: impl Iterator<Item = &'h Event>) -> Vec<Violation> {
    let mut acknowledged = false;
    let mut found = Vec::new();
    for event in events {
        match event {
            Event::Acknowledged { .. } => acknowledged = true,
            Event::Refused { batch, code } => found.push(Violation::Refused {
                batch: *batch,
                code: *code,
            }),
            Event::ReadRefused {
                partition,
                offset,
                code,
                ..
            } => found.push(Violation::ReadRefused {
                partition: *partition,
                offset: *offset,
                code: *code,
            }),
            Event::Malformed { what } => found.push(Violation::Malformed { what: what.clone() }),
            Event::Sent { .. } | Event::Read { .. } | Event::ReadAll => {}
        }
    }
    if !acknowledged {
        found.push(Violation::Vacuous);
    }
    found
}

/// The log as the final pass read it.
struct Log {
    /// By partition, then offset.
    at: BTreeMap<(i32, i64), Value>,
    /// Every place of a value, in order.
    places: BTreeMap<Value, Vec<(i32, i64)>>,
}

impl Log {
    fn of<'h>(events: impl Iterator<Item = &'h Event>) -> Self {
        let mut log = Self {
            at: BTreeMap::new(),
            places: BTreeMap::new(),
        };
        for event in events {
            if let Event::Read {
                pass: Pass::Final,
                partition,
                offset,
                value,
            } = *event
            {
                log.at.insert((partition, offset), value);
                log.places
                    .entry(value)
                    .or_default()
                    .push((partition, offset));
            }
        }
        log
    }

    fn against_writes<'h>(&self, events: impl Iterator<Item = &'h Event>) -> Vec<Violation> {
        let mut found = Vec::new();
        let mut sent: BTreeMap<Value, i32> = BTreeMap::new();
        for event in events {
            match *event {
                Event::Sent { batch } => {
                    sent.extend(batch.values().map(|value| (value, batch.partition)));
                }
                Event::Acknowledged { batch, base_offset } => {
                    found.extend(self.judge_acknowledged(batch, base_offset));
                }
                _ => {}
            }
        }
        for (value, places) in &self.places {
            if let [first, second, ..] = places[..] {
                found.push(Violation::Duplicate {
                    value: *value,
                    first,
                    second,
                });
            }
        }
        let mut last: BTreeMap<(i32, u32), Value> = BTreeMap::new();
        let mut seen = BTreeSet::new();
        for (&(partition, offset), &value) in &self.at {
            if sent.get(&value) != Some(&partition) {
                found.push(Violation::Phantom {
                    value,
                    partition,
                    offset,
                });
            }
            // A duplicate was named above; it isn't a second fault of order.
            if !seen.insert(value) {
                continue;
            }
            if let Some(&before) = last.get(&(partition, value.producer))
                && before.number > value.number
            {
                found.push(Violation::Order {
                    partition,
                    earlier: value,
                    later: before,
                });
            }
            last.insert((partition, value.producer), value);
        }
        found
    }

    fn judge_acknowledged(&self, batch: Batch, base_offset: Option<i64>) -> Vec<Violation> {
        let mut found = Vec::new();
        for (value, delta) in batch.values().zip(0..) {
            if !self.places.contains_key(&value) {
                found.push(Violation::LostWrite {
                    value,
                    partition: batch.partition,
                });
                continue;
            }
            let Some(offset) = base_offset.map(|base| base + delta) else {
                continue;
            };
            match self.at.get(&(batch.partition, offset)) {
                Some(there) if *there != value => found.push(Violation::InconsistentOffset {
                    partition: batch.partition,
                    offset,
                    told: value,
                    found: *there,
                }),
                None => found.push(Violation::Vanished {
                    value,
                    partition: batch.partition,
                    offset,
                }),
                Some(_) => {}
            }
        }
        found
    }

    fn against_live_reads<'h>(&self, events: impl Iterator<Item = &'h Event>) -> Vec<Violation> {
        let mut found = Vec::new();
        let mut positions: BTreeMap<i32, i64> = BTreeMap::new();
        for event in events {
            let Event::Read {
                pass: Pass::Live,
                partition,
                offset,
                value,
            } = *event
            else {
                continue;
            };
            match self.at.get(&(partition, offset)) {
                None => found.push(Violation::Vanished {
                    value,
                    partition,
                    offset,
                }),
                Some(there) if *there != value => found.push(Violation::InconsistentOffset {
                    partition,
                    offset,
                    told: value,
                    found: *there,
                }),
                Some(_) => {}
            }
            let after = positions.insert(partition, offset).unwrap_or(-1);
            let mut between = self
                .at
                .range((partition, after + 1)..(partition, offset.max(after + 1)));
            if let Some((&(_, skipped), _)) = between.next() {
                found.push(Violation::PollSkip {
                    partition,
                    after,
                    next: offset,
                    skipped,
                });
            }
        }
        found
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn value(number: u64) -> Value {
        Value {
            producer: 1,
            number,
        }
    }

    fn batch(first: u64, count: u32) -> Batch {
        Batch {
            first: value(first),
            count,
            partition: 0,
        }
    }

    fn read(pass: Pass, offset: i64, number: u64) -> Event {
        Event::Read {
            pass,
            partition: 0,
            offset,
            value: value(number),
        }
    }

    fn acknowledged(first: u64, count: u32, base_offset: i64) -> Event {
        Event::Acknowledged {
            batch: batch(first, count),
            base_offset: Some(base_offset),
        }
    }

    /// The names of what is wrong when two values were sent, acknowledged, and this happened.
    fn names(events: impl IntoIterator<Item = Event>) -> Vec<&'static str> {
        let sent = Event::Sent { batch: batch(0, 2) };
        let all = [sent, acknowledged(0, 2, 0)]
            .into_iter()
            .chain(events)
            .chain([Event::ReadAll]);
        let entries: Vec<_> = all.map(|event| Entry { at_ms: 0, event }).collect();
        check(&entries).iter().map(Violation::name).collect()
    }

    #[test]
    fn a_log_that_is_what_was_told_is_fine() {
        let live = [read(Pass::Live, 0, 0), read(Pass::Live, 1, 1)];
        let last = [read(Pass::Final, 0, 0), read(Pass::Final, 1, 1)];
        assert!(names(live.into_iter().chain(last)).is_empty());
    }

    #[test]
    fn each_anomaly_has_its_name() {
        let fine = || [read(Pass::Final, 0, 0), read(Pass::Final, 1, 1)];
        assert_eq!(names([read(Pass::Final, 0, 0)]), ["lost write"]);
        assert_eq!(
            names(fine().into_iter().chain([read(Pass::Final, 2, 1)])),
            ["duplicate"]
        );
        assert_eq!(
            names([read(Pass::Final, 0, 1), read(Pass::Final, 1, 0)]),
            ["inconsistent offset", "inconsistent offset", "order"]
        );
        assert_eq!(
            names([read(Pass::Final, 1, 0), read(Pass::Final, 2, 1)]),
            ["vanished", "inconsistent offset"]
        );
        assert_eq!(
            names(fine().into_iter().chain([read(Pass::Final, 2, 2)])),
            ["phantom"]
        );
        assert_eq!(
            names([read(Pass::Live, 1, 1)].into_iter().chain(fine())),
            ["poll skip"]
        );
        assert_eq!(
            names(
                [
                    read(Pass::Live, 0, 0),
                    read(Pass::Live, 1, 1),
                    read(Pass::Live, 2, 7)
                ]
                .into_iter()
                .chain(fine())
            ),
            ["vanished"]
        );
        let refused = Event::Refused {
            batch: batch(2, 1),
            code: 45,
        };
        assert_eq!(names(fine().into_iter().chain([refused])), ["refused"]);
    }

    #[test]
    fn a_log_read_in_part_proves_nothing_lost() {
        let entries = [
            Event::Sent { batch: batch(0, 2) },
            acknowledged(0, 2, 0),
            read(Pass::Final, 0, 0),
        ];
        let entries = entries.map(|event| Entry { at_ms: 0, event });
        assert!(check(&entries).is_empty());
        assert_eq!(unfinished(&entries), (1, 0), "sent, unanswered");
    }

    #[test]
    fn a_run_that_stored_nothing_proves_nothing() {
        assert_eq!(check(&[]), [Violation::Vacuous]);
    }
}
