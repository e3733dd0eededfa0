//! One member of a consumer group.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::time::Duration;

use crate::classic::{InstanceId, Protocols};

use super::ids::{Epoch, TopicPartition};

/// What a member costs beside its texts: ids, timers, maps.
const OVERHEAD_BYTES: usize = 512;

/// Where a member stands on its way to the target assignment.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub enum MemberState {
    /// It has what its epoch gives it.
    #[default]
    Stable,
    /// It still owns partitions that it must give up before it moves on.
    UnrevokedPartitions,
    /// It waits for partitions that others still own.
    UnreleasedPartitions,
}

/// Partitions with the epoch in which each was assigned (KIP-1251): a commit of that epoch or a
/// later one is the owner's.
pub(super) type Owned = BTreeMap<TopicPartition, Epoch>;

/// What a member of the classic protocol brings (KIP-848, online migration).
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct ClassicSide {
    pub(super) session_timeout: Duration,
    /// Assignors of the client; the group uses the server's, and only echoes the first name.
    pub(super) protocols: Protocols,
}

#[derive(Clone, Debug)]
pub(super) struct Member {
    pub(super) instance_id: Option<InstanceId>,
    pub(super) rack_id: Option<Arc<str>>,
    pub(super) client_id: Arc<str>,
    pub(super) client_host: Arc<str>,
    pub(super) rebalance_timeout: Duration,
    pub(super) subscribed_topic_names: Arc<BTreeSet<Arc<str>>>,
    /// `None` for no pattern.
    pub(super) subscribed_topic_regex: Option<Arc<str>>,
    pub(super) server_assignor: Option<Arc<str>>,
    pub(super) state: MemberState,
    pub(super) epoch: Epoch,
    pub(super) previous_epoch: Epoch,
    pub(super) assigned: Owned,
    pub(super) revoking: Owned,
    /// `None` for a member of the consumer protocol.
    pub(super) classic: Option<ClassicSide>,
}

impl Member {
    /// A member that has nothing yet.
    pub(super) fn new(client_id: Arc<str>, client_host: Arc<str>) -> Self {
        Self {
            instance_id: None,
            rack_id: None,
            client_id,
            client_host,
            rebalance_timeout: Duration::ZERO,
            subscribed_topic_names: Arc::default(),
            subscribed_topic_regex: None,
            server_assignor: None,
            state: MemberState::Stable,
            epoch: Epoch::JOIN,
            previous_epoch: Epoch::JOIN,
            assigned: Owned::new(),
            revoking: Owned::new(),
            classic: None,
        }
    }

    /// Whether it has all of the target assignment of `assignment_epoch`.
    pub(super) fn is_reconciled_to(&self, assignment_epoch: Epoch) -> bool {
        self.state == MemberState::Stable && self.epoch == assignment_epoch
    }

    /// Moves to `epoch`; the one before stays valid while its answer may be lost.
    pub(super) fn move_to(&mut self, epoch: Epoch) {
        self.previous_epoch = self.epoch;
        self.epoch = epoch;
    }

    /// In which epoch a partition that it owns became its own.
    pub(super) fn assignment_epoch(&self, partition: &TopicPartition) -> Option<Epoch> {
        let own = self.assigned.get(partition);
        own.or_else(|| self.revoking.get(partition)).copied()
    }

    /// What it weighs against `Settings::max_metadata_bytes`.
    pub(super) fn metadata_bytes(&self) -> usize {
        let text = |text: &Option<Arc<str>>| text.as_ref().map_or(0, |text| text.len());
        let names: usize = self
            .subscribed_topic_names
            .iter()
            .map(|name| name.len() + size_of::<Arc<str>>())
            .sum();
        OVERHEAD_BYTES
            + self.client_id.len()
            + text(&self.rack_id)
            + text(&self.subscribed_topic_regex)
            + names
            + self
                .classic
                .as_ref()
                .map_or(0, |classic| classic.protocols.bytes())
    }
}
