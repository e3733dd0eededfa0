//! What other APIs ask a group: may this offset be committed, may the group be deleted, what does
//! it look like.

use std::sync::Arc;

use bytes::Bytes;
use host::Monotonic;

use super::error::GroupError;
use super::events::MemberRef;
use super::group::{ClassicGroup, GroupState};
use super::ids::{GenerationId, InstanceId, MemberId};
use super::subscription;

/// The protocol type of Kafka's consumers; only their metadata can be read.
pub const CONSUMER_PROTOCOL_TYPE: &str = "consumer";

/// One line of ListGroups.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Overview {
    /// The state.
    pub state: GroupState,
    /// The protocol type; none before the first member.
    pub protocol_type: Option<Arc<str>>,
    /// How many members.
    pub members: usize,
}

/// DescribeGroups.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Description {
    /// The state.
    pub state: GroupState,
    /// The protocol type; none before the first member.
    pub protocol_type: Option<Arc<str>>,
    /// The protocol in use; only while stable.
    pub protocol_name: Option<Arc<str>>,
    /// In order of joining.
    pub members: Vec<MemberDescription>,
}

/// One member of a [`Description`].
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct MemberDescription {
    /// The member id.
    pub member_id: MemberId,
    /// The instance id of a static member.
    pub instance_id: Option<InstanceId>,
    /// The client id.
    pub client_id: Arc<str>,
    /// The client's address.
    pub client_host: Arc<str>,
    /// Metadata for the protocol in use; empty unless stable.
    pub metadata: Bytes,
    /// The assignment; while a rebalance runs, that of the generation before.
    pub assignment: Bytes,
}

impl ClassicGroup {
    /// Whether `member` may commit offsets now. A member that may is alive: its session restarts.
    /// `transactional` is for TxnOffsetCommit, which may come without a member.
    ///
    /// Refusals: `CoordinatorNotAvailable` (deleted), `UnknownMemberId`, `FencedInstanceId`,
    /// `IllegalGeneration`, and `RebalanceInProgress` while the group waits for its assignment.
    pub fn validate_offset_commit(
        &mut self,
        now: Monotonic,
        member: &MemberRef,
        transactional: bool,
    ) -> Result<(), GroupError> {
        if self.state == GroupState::Dead {
            return Err(GroupError::CoordinatorNotAvailable);
        }
        let outside_any_generation = member.generation_id < GenerationId(0);
        if outside_any_generation && self.state == GroupState::Empty {
            // Somebody who only stores offsets here.
            return Ok(());
        }
        let anonymous =
            outside_any_generation && member.member_id.is_unknown() && member.instance_id.is_none();
        if anonymous && !transactional {
            return Err(GroupError::UnknownMemberId);
        }
        if anonymous {
            return Ok(());
        }
        let seat = self.validate_current(member)?;
        if self.state == GroupState::CompletingRebalance && !transactional {
            return Err(GroupError::RebalanceInProgress);
        }
        if !transactional {
            self.restart_session(now, seat);
        }
        Ok(())
    }

    /// Whether committed offsets may be deleted while the group lives; then ask
    /// [`is_subscribed_to`](Self::is_subscribed_to) for each topic.
    ///
    /// Refusals: `GroupIdNotFound` (deleted), `NonEmptyGroup` (members that aren't consumers).
    pub fn validate_offset_delete(&self) -> Result<(), GroupError> {
        match self.state {
            GroupState::Dead => Err(GroupError::GroupIdNotFound),
            GroupState::Empty => Ok(()),
            _ if self.is_consumer_group() => Ok(()),
            _ => Err(GroupError::NonEmptyGroup),
        }
    }

    fn is_consumer_group(&self) -> bool {
        self.protocol_type.as_deref() == Some(CONSUMER_PROTOCOL_TYPE)
    }

    /// Whether a live consumer subscribes to `topic`. A subscription that can't be read counts as
    /// one to everything.
    pub fn is_subscribed_to(&self, topic: &str) -> bool {
        if !self.is_consumer_group() {
            return false;
        }
        self.roster.iter().any(|(_, member)| {
            // Before the first generation no protocol is chosen; what is preferred stands for it.
            let metadata = match &self.protocol_name {
                Some(name) => member.protocols.metadata_of(name),
                None => member.protocols.iter().next().map(|first| &first.metadata),
            };
            metadata.is_none_or(|metadata| {
                subscription::topics(metadata).map_or(true, |topics| topics.contains(&topic))
            })
        })
    }

    /// Deletes the group: it is `Dead` from here on.
    ///
    /// Refusals: `NonEmptyGroup`, `GroupIdNotFound` (deleted before).
    pub fn handle_delete(&mut self) -> Result<(), GroupError> {
        match self.state {
            GroupState::Dead => Err(GroupError::GroupIdNotFound),
            GroupState::Empty => {
                self.state = GroupState::Dead;
                self.timers.clear();
                while let Some(seat) = self.pending.oldest() {
                    self.remove_pending(seat);
                }
                Ok(())
            }
            _ => Err(GroupError::NonEmptyGroup),
        }
    }

    /// For ListGroups.
    pub fn overview(&self) -> Overview {
        Overview {
            state: self.state,
            protocol_type: self.protocol_type.clone(),
            members: self.roster.len(),
        }
    }

    /// For DescribeGroups. Metadata only while stable; assignments are those of the last generation
    /// until there are new ones. Both as in Kafka.
    pub fn describe(&self) -> Description {
        let protocol_name = match self.state {
            GroupState::Stable => self.protocol_name.clone(),
            _ => None,
        };
        let members = self
            .roster
            .iter()
            .map(|(_, member)| {
                let metadata = protocol_name
                    .as_ref()
                    .and_then(|name| member.protocols.metadata_of(name));
                MemberDescription {
                    member_id: member.id.clone(),
                    instance_id: member.instance_id.clone(),
                    client_id: Arc::clone(&member.client_id),
                    client_host: Arc::clone(&member.client_host),
                    metadata: metadata.cloned().unwrap_or_default(),
                    assignment: member.assignment.clone(),
                }
            })
            .collect();
        Description {
            state: self.state,
            protocol_type: self.protocol_type.clone(),
            protocol_name,
            members,
        }
    }
}
