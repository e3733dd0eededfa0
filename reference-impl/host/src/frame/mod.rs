//! Length-prefixed frames over a byte stream, read under a budget and written under a deadline.
//!
//! A frame is a big-endian `i32` and that many bytes (Kafka's framing); what is inside is the
//! caller's. Nothing is allocated while a connection is idle.

mod reader;
mod writer;

use std::time::Duration;

pub use reader::{Frame, FrameReader, ReadError, ReadLimits};
pub use writer::{FrameWriter, WriteError};

/// The slowest peer that is served, beyond the first [`ReadLimits::stall`] of a frame: a whole
/// frame has to arrive, and a response to leave, at this rate on average, so that a byte now and
/// then does not hold memory for ever.
pub const MIN_BYTES_PER_SECOND: u64 = 64 * 1024;

fn time_for(bytes: usize) -> Duration {
    let bytes = u64::try_from(bytes).unwrap_or(u64::MAX);
    Duration::from_millis(bytes.saturating_mul(1000) / MIN_BYTES_PER_SECOND)
}
