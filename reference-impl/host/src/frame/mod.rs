//! Length-prefixed frames over a byte stream, read under a budget and written under a deadline.
//!
//! A frame is a big-endian `i32` and that many bytes (Kafka's framing); what is inside is the
//! caller's. Nothing is allocated while a connection is idle.

mod reader;
mod writer;

use std::time::Duration;

use tokio::time::Instant;

pub use reader::{Frame, FrameReader, ReadError, ReadLimits};
pub use writer::{FrameWriter, WriteError};

/// The slowest peer that is served for longer than its time-out: each byte pays for so much of the
/// time, so that a byte now and then does not hold memory for ever.
pub const MIN_BYTES_PER_SECOND: u64 = 64 * 1024;

fn time_for(bytes: usize) -> Duration {
    let bytes = u64::try_from(bytes).unwrap_or(u64::MAX);
    Duration::from_millis(bytes.saturating_mul(1000) / MIN_BYTES_PER_SECOND)
}

/// Until when a peer has done its part. It can't pay in advance: what it took fast yesterday does
/// not excuse it today.
#[derive(Clone, Copy, Debug)]
pub struct Pace {
    paid_until: Instant,
}

impl Pace {
    /// A peer that owes nothing until now.
    pub fn start() -> Self {
        Self {
            paid_until: Instant::now(),
        }
    }

    /// Since when it owes its part.
    pub fn paid_until(&self) -> Instant {
        self.paid_until
    }

    /// It moved `bytes`.
    pub fn moved(&mut self, bytes: usize) {
        let now = Instant::now();
        let paid = self.paid_until.checked_add(time_for(bytes));
        self.paid_until = paid.map_or(now, |paid| paid.min(now));
    }
}
