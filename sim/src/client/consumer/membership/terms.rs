//! What goes into a membership, and what comes out.

use std::collections::{BTreeMap, BTreeSet};

use kafka_wire::ErrorCode;

use crate::client::consumer::assignor::{Assignment, Assignor, Subscription};
use crate::client::consumer::reconciler::Says;
use crate::history::{Name, TopicPartition};

/// Who a member is in its group's present generation.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Identity {
    /// Empty before the coordinator gave one.
    pub member: Name,
    /// Its generation, or its epoch in a group of KIP-848; -1 outside every one.
    pub generation: i32,
    /// `group.instance.id` of a static member.
    pub instance: Option<Name>,
}

/// Something to be asked of the coordinator.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Ask {
    /// JoinGroup.
    Join {
        /// As who.
        identity: Identity,
        /// Under which assignors, and the subscription for each.
        subscription: Subscription,
    },
    /// SyncGroup.
    Sync {
        /// As who.
        identity: Identity,
        /// The assignor.
        assignor: Assignor,
        /// Who gets what, from the leader; empty from others.
        assignment: Assignment,
    },
    /// Heartbeat.
    Heartbeat {
        /// As who.
        identity: Identity,
    },
    /// ConsumerGroupHeartbeat.
    Beat {
        /// As who; epoch 0 joins.
        identity: Identity,
        /// With what.
        says: Says,
    },
    /// LeaveGroup, or the last ConsumerGroupHeartbeat.
    Leave {
        /// As who.
        identity: Identity,
    },
}

/// Something that the application has to do, or to know.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Event {
    /// Give up these, then call [`Membership::revoked`](super::Membership::revoked).
    Revoke(BTreeSet<TopicPartition>),
    /// Read these, beside those that are read already.
    Assigned(BTreeSet<TopicPartition>),
    /// These are somebody else's already.
    Lost(BTreeSet<TopicPartition>),
    /// Compute who gets what, then call [`Membership::assigned`](super::Membership::assigned).
    Lead {
        /// How.
        assignor: Assignor,
        /// The members.
        members: BTreeMap<Name, Subscription>,
    },
    /// The coordinator is another one, or unreachable: find it again.
    CoordinatorWrong,
    /// The coordinator will never have this member.
    Fatal(ErrorCode),
}

/// Why a question has no good answer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Trouble {
    /// The coordinator said so.
    Code(ErrorCode),
    /// No answer came.
    NoAnswer,
}

/// A good answer to JoinGroup.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Joined {
    /// The member's id.
    pub member: Name,
    /// The generation.
    pub generation: i32,
    /// The assignor that was chosen.
    pub assignor: Assignor,
    /// The members, told to the leader alone.
    pub members: Option<BTreeMap<Name, Subscription>>,
}
