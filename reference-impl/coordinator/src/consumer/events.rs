//! What goes into a consumer group and what comes out of it.

use std::collections::BTreeSet;
use std::sync::Arc;
use std::time::Duration;

use crate::classic::{InstanceId, MemberId};

use super::assignor::Assignor;
use super::error::Error;
use super::ids::{Epoch, Partitions};

/// A ConsumerGroupHeartbeat request (KIP-848). `None` means unchanged since the last one.
#[derive(Clone, Debug)]
pub struct HeartbeatRequest {
    /// Chosen by the client (v1+); v0 may leave it empty on its first heartbeat.
    pub member_id: MemberId,
    /// The member's epoch, or one of the constants of [`Epoch`].
    pub member_epoch: Epoch,
    /// Set by a static member.
    pub instance_id: Option<InstanceId>,
    /// Where the member runs.
    pub rack_id: Option<Arc<str>>,
    /// From the request header.
    pub client_id: Arc<str>,
    /// The client's address, in Kafka's form `/127.0.0.1`.
    pub client_host: Arc<str>,
    /// How long the member may take to revoke.
    pub rebalance_timeout: Option<Duration>,
    /// The topics it wants by name.
    pub subscribed_topic_names: Option<BTreeSet<Arc<str>>>,
    /// The topics it wants by pattern (v1+); empty for none.
    pub subscribed_topic_regex: Option<Arc<str>>,
    /// The assignor it prefers.
    pub server_assignor: Option<Arc<str>>,
    /// What it owns.
    pub owned: Option<Partitions>,
    /// Whether the client must choose its id (v1+).
    pub member_id_required: bool,
    /// Random bytes for the id of a new member of v0, from `host::Entropy::uuid_v4`.
    pub random: [u8; 16],
}

impl HeartbeatRequest {
    /// Whether its fields go together; what Kafka checks before it looks at the group.
    ///
    /// # Errors
    ///
    /// `InvalidRequest`, `UnsupportedAssignor`, `InvalidRegularExpression`.
    pub fn validate(&self) -> Result<(), Error> {
        let needs_id = self.member_id_required
            || self.member_epoch > Epoch::JOIN
            || self.member_epoch == Epoch::LEAVE;
        let empty = |text: Option<&str>| text.is_some_and(str::is_empty);
        if needs_id && self.member_id.is_unknown() {
            return Err(Error::InvalidRequest("MemberId can't be empty."));
        }
        if empty(self.instance_id.as_ref().map(InstanceId::as_str)) {
            return Err(Error::InvalidRequest("InstanceId can't be empty."));
        }
        if empty(self.rack_id.as_deref()) {
            return Err(Error::InvalidRequest("RackId can't be empty."));
        }
        if self.member_epoch == Epoch::JOIN {
            self.validate_join()?;
        } else if self.member_epoch == Epoch::LEAVE_STATIC && self.instance_id.is_none() {
            return Err(Error::InvalidRequest("InstanceId can't be null."));
        } else if self.member_epoch < Epoch::LEAVE_STATIC {
            return Err(Error::InvalidRequest("MemberEpoch is invalid."));
        }
        if let Some(name) = &self.server_assignor
            && Assignor::named(name).is_none()
        {
            return Err(Error::UnsupportedAssignor);
        }
        Ok(())
    }

    fn validate_join(&self) -> Result<(), Error> {
        if self.rebalance_timeout.is_none() {
            return Err(Error::InvalidRequest(
                "RebalanceTimeoutMs must be provided in first request.",
            ));
        }
        if self.owned.as_ref().is_none_or(|owned| !owned.is_empty()) {
            return Err(Error::InvalidRequest(
                "TopicPartitions must be empty when (re-)joining.",
            ));
        }
        if self.subscribed_topic_names.is_none() && self.subscribed_topic_regex.is_none() {
            return Err(Error::InvalidRequest(
                "Either SubscribedTopicNames or SubscribedTopicRegex must be non-null when (re-)joining.",
            ));
        }
        Ok(())
    }

    /// Bytes that a group may hold for it.
    pub fn held_bytes(&self) -> usize {
        let text = |text: &Option<Arc<str>>| text.as_ref().map_or(0, |text| text.len());
        let names = self.subscribed_topic_names.iter().flatten();
        self.member_id.as_str().len()
            + self.client_id.len()
            + text(&self.rack_id)
            + text(&self.subscribed_topic_regex)
            + names
                .map(|name| name.len() + size_of::<Arc<str>>())
                .sum::<usize>()
    }

    /// Whether every field that may be left out is there: such a member wants to hear everything.
    pub(super) fn is_full(&self) -> bool {
        self.rebalance_timeout.is_some()
            && (self.subscribed_topic_names.is_some() || self.subscribed_topic_regex.is_some())
            && self.owned.is_some()
    }
}

/// The answer to a heartbeat.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct HeartbeatResponse {
    /// The member's id.
    pub member_id: MemberId,
    /// The epoch it is at now.
    pub member_epoch: Epoch,
    /// When to send the next heartbeat.
    pub heartbeat_interval: Duration,
    /// What it may own; `None` for no change.
    pub assignment: Option<Partitions>,
}

/// Something an operator wants to read about.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Note {
    /// The group needs another assignment.
    EpochBumped {
        /// The new epoch of the group.
        group_epoch: Epoch,
        /// Why.
        cause: Cause,
    },
    /// It was computed.
    Assigned {
        /// The epoch it belongs to.
        assignment_epoch: Epoch,
        /// How many members.
        members: usize,
        /// How many partitions.
        partitions: usize,
        /// Who computed it.
        assignor: Assignor,
    },
    /// A member is gone.
    MemberRemoved {
        /// Its id.
        member_id: MemberId,
        /// Why.
        cause: Cause,
    },
    /// A static member came back under a new id.
    StaticMemberReplaced {
        /// The instance.
        instance_id: InstanceId,
        /// The id that is fenced now.
        old: MemberId,
        /// The id that took over.
        new: MemberId,
    },
    /// The group subscribes to more partitions than it may assign.
    TooManyPartitions {
        /// How many are assigned.
        assigned: usize,
        /// How many topics are left out.
        topics_left_out: usize,
    },
}

/// Why a group needs another assignment, or a member is removed.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Cause {
    /// A member joined.
    NewMember(MemberId),
    /// A member subscribes to other topics.
    Subscribed(MemberId),
    /// Topics were made, deleted or widened.
    TopicsChanged,
    /// A member left; with the client's reason.
    Left(MemberId, Option<String>),
    /// A member was silent for longer than its session timeout.
    SessionExpired(MemberId),
    /// A member did not give up its partitions in time.
    DidNotRevoke(MemberId),
    /// A classic member did not rejoin in time.
    DidNotRejoin(MemberId),
    /// A classic member did not collect its assignment in time.
    DidNotSync(MemberId),
}
