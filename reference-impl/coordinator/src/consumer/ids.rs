//! What a consumer group numbers: epochs and partitions.

use std::collections::BTreeSet;
use std::fmt;

use uuid::Uuid;

/// The epoch of a group, of its target assignment or of a member. A member's epoch is the epoch of
/// the assignment it has reached, so the three compare.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Epoch(pub i32);

impl Epoch {
    /// What a member sends to join, and where a group begins.
    pub const JOIN: Self = Self(0);
    /// What a member sends to leave for good.
    pub const LEAVE: Self = Self(-1);
    /// What a static member sends to leave for a while; it keeps its partitions until its session
    /// ends or its instance comes back.
    pub const LEAVE_STATIC: Self = Self(-2);

    /// The epoch after this one. Saturates: two thousand million rebalances away.
    pub(super) const fn next(self) -> Self {
        Self(self.0.saturating_add(1))
    }
}

impl fmt::Display for Epoch {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(&self.0, f)
    }
}

/// A partition of a topic by its id: a topic that was deleted and made again is another topic.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct TopicPartition {
    /// The topic.
    pub topic: Uuid,
    /// The partition.
    pub partition: i32,
}

impl TopicPartition {
    /// Partition `partition` of `topic`.
    pub const fn new(topic: Uuid, partition: i32) -> Self {
        Self { topic, partition }
    }
}

/// Some partitions, in order of topic id and number.
pub type Partitions = BTreeSet<TopicPartition>;
