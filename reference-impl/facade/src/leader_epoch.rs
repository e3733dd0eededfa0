//! The leader epoch of every partition: one, that has never ended.
//!
//! Nobody leads in Queen, so Metadata names no epoch (−1) and clients have no reason to send one.
//! Whoever sends a later epoch than 0 has it from another cluster and is told so, as Apache Kafka
//! tells a client that knows more than the broker (KIP-320).

use kafka_wire::ErrorCode;

/// The one epoch.
pub const EPOCH: i32 = 0;
/// Kafka's "none".
pub const UNDEFINED: i32 = -1;

/// Judges the epoch that a client believes to be current.
///
/// # Errors
///
/// UNKNOWN_LEADER_EPOCH for a later one than this node knows.
pub const fn check(current_leader_epoch: i32) -> Result<(), ErrorCode> {
    if current_leader_epoch > EPOCH {
        Err(ErrorCode::UnknownLeaderEpoch)
    } else {
        Ok(())
    }
}
