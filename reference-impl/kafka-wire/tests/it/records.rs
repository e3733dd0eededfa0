//! The record batch codec: against the `kafka-protocol` crate, against batches that Kafka's own
//! clients wrote, and against hostile bytes.

#![expect(clippy::unwrap_used, reason = "a test fails by panicking")]

mod arbitrary;
mod cross_check;
mod golden;
mod header;
mod hostile;
mod memory;
mod round_trip;
