//! Which timestamps a batch may have (KIP-937).

use kafka_wire::ErrorCode;
use kafka_wire::records::{NO_TIMESTAMP, Records};

use super::unit::{Failure, RecordFault};

/// Records of one batch that an answer tells of: a million of them would not fit into one.
const MAX_TOLD: usize = 100;

/// How far from the clock the timestamps of a topic may be, in milliseconds.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Tolerance {
    /// Behind it.
    pub before_ms: i64,
    /// Ahead of it.
    pub after_ms: i64,
}

impl Tolerance {
    /// Every timestamp.
    pub const ANY: Self = Self {
        before_ms: i64::MAX,
        after_ms: i64::MAX,
    };

    /// What that is at `now_ms`.
    pub const fn at(self, now_ms: i64) -> Times {
        Times {
            earliest: now_ms.saturating_sub(self.before_ms),
            latest: now_ms.saturating_add(self.after_ms),
        }
    }
}

/// The timestamps that records may have, in milliseconds since the epoch, both ends included.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Times {
    earliest: i64,
    latest: i64,
}

impl Times {
    /// Whether a record may have this timestamp; it may have none.
    const fn take(self, timestamp: i64) -> bool {
        timestamp == NO_TIMESTAMP || (self.earliest <= timestamp && timestamp <= self.latest)
    }

    /// Judges records whose timestamps lie between `min` and `max`.
    ///
    /// # Errors
    ///
    /// `INVALID_TIMESTAMP`, with the records it is about.
    pub(super) fn judge(self, records: &Records, min: i64, max: i64) -> Result<(), Failure> {
        if self.earliest <= min && max <= self.latest {
            return Ok(());
        }
        let outside = (0..).zip(records).filter_map(|(index, record)| {
            let timestamp = record.ok()?.timestamp;
            (!self.take(timestamp)).then(|| RecordFault {
                index,
                message: format!(
                    "Timestamp {timestamp} of message with offset {index} is out of range. The timestamp should be within [{}, {}]",
                    self.earliest, self.latest
                ),
            })
        });
        let told: Vec<RecordFault> = outside.take(MAX_TOLD).collect();
        if told.is_empty() {
            return Ok(());
        }
        Err(Failure::of_records(
            ErrorCode::InvalidTimestamp,
            "One or more records have been rejected due to invalid timestamp",
            told,
        ))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use rstest::rstest;

    #[rstest]
    #[case(Tolerance { before_ms: 10, after_ms: 5 }, &[(-1, true), (89, false), (90, true), (105, true), (106, false)])]
    #[case(Tolerance::ANY, &[(i64::MAX, true), (0, true), (-1, true)])]
    #[case(Tolerance { before_ms: i64::MAX, after_ms: 0 }, &[(100, true), (101, false), (0, true)])]
    fn both_ends_are_included(#[case] tolerance: Tolerance, #[case] timestamps: &[(i64, bool)]) {
        let times = tolerance.at(100);
        for &(timestamp, taken) in timestamps {
            assert_eq!(times.take(timestamp), taken, "{timestamp}");
        }
    }
}
