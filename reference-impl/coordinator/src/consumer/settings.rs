//! What bounds a consumer group, and the numbers Kafka's brokers configure.

use std::time::Duration;

/// `group.consumer.migration.policy`: whether a live group may change its protocol.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum MigrationPolicy {
    /// Both ways.
    #[default]
    Bidirectional,
    /// Only from classic to consumer: the first member of the new protocol turns the group.
    Upgrade,
    /// Only from consumer to classic: the last member of the new protocol that goes turns it.
    Downgrade,
    /// Neither: a group changes its protocol while it is empty.
    Disabled,
}

impl MigrationPolicy {
    /// Whether a live classic group may become a consumer group.
    pub const fn upgrades(self) -> bool {
        matches!(self, Self::Bidirectional | Self::Upgrade)
    }

    /// Whether a live consumer group may become a classic group.
    pub const fn downgrades(self) -> bool {
        matches!(self, Self::Bidirectional | Self::Downgrade)
    }
}

/// The bounds of every consumer group of a coordinator.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Settings {
    /// `group.consumer.session.timeout.ms`.
    pub session_timeout: Duration,
    /// `group.consumer.heartbeat.interval.ms`: what members are told.
    pub heartbeat_interval: Duration,
    /// Longer rebalance timeouts are shortened to this.
    pub max_rebalance_timeout: Duration,
    /// `group.consumer.max.size`.
    pub max_size: usize,
    /// The most bytes of member metadata one group holds; a member past it finds the group full.
    pub max_metadata_bytes: usize,
    /// The most patterns one group subscribes to: each is matched against every topic.
    pub max_patterns: usize,
    /// The most partitions one group assigns; topics past it, in order of their names, are left out.
    pub max_partitions: usize,
    /// How long topics that are made may stay unseen by patterns (`REGEX_BATCH_REFRESH_MIN_INTERVAL`).
    pub pattern_refresh_interval: Duration,
    /// `group.consumer.migration.policy`.
    pub migration_policy: MigrationPolicy,
}

impl Default for Settings {
    /// Kafka's defaults; Kafka bounds neither size nor metadata, patterns and partitions.
    fn default() -> Self {
        Self {
            session_timeout: Duration::from_secs(45),
            heartbeat_interval: Duration::from_secs(5),
            max_rebalance_timeout: Duration::from_secs(30 * 60),
            max_size: 10_000,
            max_metadata_bytes: 32 << 20,
            max_patterns: 32,
            max_partitions: 1_000_000,
            pattern_refresh_interval: Duration::from_secs(10),
            migration_policy: MigrationPolicy::Bidirectional,
        }
    }
}
