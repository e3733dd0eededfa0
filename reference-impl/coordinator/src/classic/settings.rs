//! What bounds a group.

use std::time::Duration;

/// How long the join of a new member may stay parked: it has no session yet, and a client that went
/// away can't be told from one that waits (Kafka's constant).
pub const NEW_MEMBER_JOIN_TIMEOUT: Duration = Duration::from_secs(5 * 60);

/// Shorter rebalance timeouts are lengthened to this. With zero, nobody could ever sync in time, and
/// a group whose static members are away would spin until their sessions end.
pub const MIN_REBALANCE_TIMEOUT: Duration = Duration::from_millis(100);

/// Longest reason of a client (KIP-800) kept for the log, in bytes.
pub(super) const REASON_BYTES: usize = 256;

/// The bounds of every group of a coordinator.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Settings {
    /// `group.initial.rebalance.delay.ms`: how long the first join of an empty group waits for
    /// company. Each newcomer extends it by as much, up to the largest rebalance timeout.
    pub initial_rebalance_delay: Duration,
    /// `group.min.session.timeout.ms`.
    pub min_session_timeout: Duration,
    /// `group.max.session.timeout.ms`.
    pub max_session_timeout: Duration,
    /// Longer rebalance timeouts are shortened to this; shorter than [`MIN_REBALANCE_TIMEOUT`] lengthened.
    pub max_rebalance_timeout: Duration,
    /// `group.max.size`, and the most members that may owe the join MEMBER_ID_REQUIRED asks for.
    pub max_size: usize,
    /// The most bytes of member metadata one group holds; a join past it finds the group full.
    pub max_metadata_bytes: usize,
    /// The most bytes of assignments one group holds.
    pub max_assignment_bytes: usize,
}

impl Default for Settings {
    /// Kafka's defaults. Kafka has no bound on size and metadata of a group but its record size.
    fn default() -> Self {
        Self {
            initial_rebalance_delay: Duration::from_secs(3),
            min_session_timeout: Duration::from_secs(6),
            max_session_timeout: Duration::from_secs(300),
            max_rebalance_timeout: Duration::from_secs(30 * 60),
            max_size: 10_000,
            max_metadata_bytes: 32 << 20,
            max_assignment_bytes: 32 << 20,
        }
    }
}
