//! What goes into a group and what comes out of it.

use std::collections::BTreeSet;
use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;

use super::error::GroupError;
use super::ids::{CallToken, GenerationId, InstanceId, MemberId};

/// One assignor (or connector protocol) a member offers.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Protocol {
    /// Its name.
    pub name: Arc<str>,
    /// What the member tells the leader, opaque to the coordinator.
    pub metadata: Bytes,
}

/// The protocols of a member, most preferred first, each name once.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Protocols(Vec<Protocol>);

impl Protocols {
    /// Copies names and metadata out of the request: a slice would keep its whole frame alive for
    /// as long as the member lives. Of a repeated name only the first counts, as in Kafka.
    pub fn copy_of<'a>(offered: impl IntoIterator<Item = (&'a str, &'a [u8])>) -> Self {
        let mut seen = BTreeSet::new();
        Self(
            offered
                .into_iter()
                .filter(|&(name, _)| seen.insert(name))
                .map(|(name, metadata)| Protocol {
                    name: name.into(),
                    metadata: Bytes::copy_from_slice(metadata),
                })
                .collect(),
        )
    }

    /// In order of preference.
    pub fn iter(&self) -> std::slice::Iter<'_, Protocol> {
        self.0.iter()
    }

    /// Whether there is none.
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    pub(crate) fn metadata_of(&self, name: &str) -> Option<&Bytes> {
        self.iter()
            .find(|protocol| &*protocol.name == name)
            .map(|protocol| &protocol.metadata)
    }

    pub(crate) fn bytes(&self) -> usize {
        self.iter()
            .map(|protocol| protocol.name.len() + protocol.metadata.len() + size_of::<Protocol>())
            .sum()
    }
}

impl JoinRequest {
    /// What a member that joins so holds in memory.
    pub fn held_bytes(&self) -> usize {
        super::member::metadata_bytes(&self.client_id, &self.protocols)
    }
}

/// A JoinGroup request.
#[derive(Clone, Debug)]
pub struct JoinRequest {
    /// Unknown on the first join.
    pub member_id: MemberId,
    /// Set by a static member (v5+).
    pub instance_id: Option<InstanceId>,
    /// From the request header; begins the id of a new member.
    pub client_id: Arc<str>,
    /// The client's address, in Kafka's form `/127.0.0.1`.
    pub client_host: Arc<str>,
    /// How long the member may be silent. Negative values of the wire become zero.
    pub session_timeout: Duration,
    /// How long the group waits for this member to rejoin (v0: the session timeout).
    pub rebalance_timeout: Duration,
    /// `consumer`, `connect`, …
    pub protocol_type: Arc<str>,
    /// What the member offers.
    pub protocols: Protocols,
    /// v4+: a new dynamic member is first given its id (KIP-394).
    pub require_known_member_id: bool,
    /// v9+: a returning static leader may be told to skip the assignment (KIP-814).
    pub supports_skip_assignment: bool,
    /// Why the client joins (KIP-800); for the log.
    pub reason: Option<String>,
    /// Random bytes for the id of a new member, from `host::Entropy::uuid_v4`.
    pub random: [u8; 16],
}

/// A SyncGroup request.
#[derive(Clone, Debug)]
pub struct SyncRequest {
    /// The member that syncs.
    pub member: MemberRef,
    /// Must equal the group's when present (v5+).
    pub protocol_type: Option<Arc<str>>,
    /// Must equal the group's when present (v5+).
    pub protocol_name: Option<Arc<str>>,
    /// The leader's decision; empty from everybody else. Bytes are copied.
    pub assignments: Vec<(MemberId, Bytes)>,
}

/// How a member names itself and its generation.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct MemberRef {
    /// The member id.
    pub member_id: MemberId,
    /// The instance id of a static member.
    pub instance_id: Option<InstanceId>,
    /// The generation the member believes in.
    pub generation_id: GenerationId,
}

/// One member of a LeaveGroup request.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LeavingMember {
    /// Unknown when an administrator removes a static member by its instance id.
    pub member_id: MemberId,
    /// The instance id of a static member (v3+).
    pub instance_id: Option<InstanceId>,
    /// Why (v5+, KIP-800); for the log.
    pub reason: Option<String>,
}

/// A member as the leader sees it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RosterEntry {
    /// The member id.
    pub member_id: MemberId,
    /// The instance id of a static member.
    pub instance_id: Option<InstanceId>,
    /// Its metadata for the chosen protocol.
    pub metadata: Bytes,
}

/// A join that ended in a generation.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Joined {
    /// The member's id.
    pub member_id: MemberId,
    /// The generation.
    pub generation_id: GenerationId,
    /// `consumer`, `connect`, …
    pub protocol_type: Option<Arc<str>>,
    /// The protocol the votes chose.
    pub protocol_name: Option<Arc<str>>,
    /// Who assigns.
    pub leader: MemberId,
    /// A static leader came back and the assignment stands (v9+, KIP-814).
    pub skip_assignment: bool,
    /// Every member, for the leader alone.
    pub members: Vec<RosterEntry>,
}

/// A join that was refused.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct JoinRefusal {
    /// Why.
    pub error: GroupError,
    /// The id to answer: the fresh one with `MemberIdRequired`, else what the client sent or none.
    pub member_id: MemberId,
}

/// A sync that ended with an assignment.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Synced {
    /// The group's protocol type.
    pub protocol_type: Option<Arc<str>>,
    /// The protocol of this generation.
    pub protocol_name: Option<Arc<str>>,
    /// What the leader assigned; empty when it left the member out.
    pub assignment: Bytes,
}

/// What the caller has to do.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Effect {
    /// Answer a JoinGroup.
    Join(CallToken, Result<Joined, JoinRefusal>),
    /// Answer a SyncGroup.
    Sync(CallToken, Result<Synced, GroupError>),
    /// Tell the log.
    Note(Note),
}

/// Something an operator wants to read about.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Note {
    /// The join phase opens.
    PreparingRebalance {
        /// The generation that ends.
        generation_id: GenerationId,
        /// What caused it.
        cause: Cause,
    },
    /// The join phase closed with members.
    GenerationFormed {
        /// The new generation.
        generation_id: GenerationId,
        /// How many members.
        members: usize,
        /// The protocol the votes chose.
        protocol_name: Arc<str>,
    },
    /// The join phase closed without members.
    Emptied {
        /// The new generation.
        generation_id: GenerationId,
    },
    /// Nobody rejoined in time, but static members still hold their places.
    NobodyRejoined,
    /// The leader's assignment arrived.
    Stabilized {
        /// The generation.
        generation_id: GenerationId,
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
}

/// Why a group rebalances or a member is removed.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Cause {
    /// A new member joined; with the client's reason.
    NewMember(MemberId, Option<String>),
    /// A member rejoined with other metadata, or the leader rejoined; with the client's reason.
    Rejoined(MemberId, Option<String>),
    /// A static member came back and changes the protocol or the running assignment.
    StaticMemberReturned(MemberId, Option<String>),
    /// LeaveGroup; with the client's reason.
    Left(MemberId, Option<String>),
    /// Silent for longer than its session timeout.
    SessionExpired(MemberId),
    /// Did not rejoin within the rebalance timeout.
    DidNotRejoin,
    /// These did not sync within the rebalance timeout.
    DidNotSync(usize),
    /// The connection with its join closed before the member learned its id.
    ConnectionClosed(MemberId),
    /// No room.
    GroupFull(MemberId),
    /// The assignment was too large to keep.
    AssignmentTooLarge,
    /// The last member of the consumer protocol left, and the group became a classic one.
    Downgraded,
    /// This coordinator stops.
    Stopping,
}
