//! Native consumption: a cursor per lane and consumer group, leased batches, retries, dead
//! letters (contract section 4.10). Cursors are rows like any other: a claim or an ack is durable
//! before it is answered. Kafka facades use none of this.

pub mod ack;
pub mod admin;
pub mod claim;
pub mod lease;
pub mod pop;
pub mod progress;
pub mod register;
pub mod resolve;
pub mod rows;
pub mod staged;
pub mod state;

/// The group of consumers that name none.
pub const QUEUE_MODE: &str = "__QUEUE_MODE__";
