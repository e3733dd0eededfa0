//! What other APIs ask a consumer group: may this offset be committed or read, what does the group
//! look like.

use std::sync::Arc;

use crate::classic::{InstanceId, MemberId, MemberRef};

use super::assignor::Assignor;
use super::error::Error;
use super::group::{ConsumerGroup, GroupState};
use super::ids::{Epoch, Partitions, TopicPartition};
use super::member::Member;
use super::topics::Topics;

/// One line of ListGroups.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Overview {
    /// The state.
    pub state: GroupState,
    /// How many members.
    pub members: usize,
}

/// ConsumerGroupDescribe.
#[derive(Clone, Debug)]
pub struct Description {
    /// The state.
    pub state: GroupState,
    /// The epoch of the group.
    pub group_epoch: Epoch,
    /// The epoch of the target assignment.
    pub assignment_epoch: Epoch,
    /// The assignor its members prefer.
    pub assignor: Assignor,
    /// In order of their ids.
    pub members: Vec<MemberDescription>,
    /// Names for the ids in the assignments; `None` when the topics could never be read.
    pub topics: Option<Arc<Topics>>,
}

/// One member of a [`Description`].
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct MemberDescription {
    /// The member id.
    pub member_id: MemberId,
    /// The instance id of a static member.
    pub instance_id: Option<InstanceId>,
    /// Where it runs.
    pub rack_id: Option<Arc<str>>,
    /// Its epoch.
    pub member_epoch: Epoch,
    /// The client id.
    pub client_id: Arc<str>,
    /// The client's address.
    pub client_host: Arc<str>,
    /// The topics it subscribes to by name.
    pub subscribed_topic_names: Vec<Arc<str>>,
    /// The pattern it subscribes to; empty for none.
    pub subscribed_topic_regex: Arc<str>,
    /// What it may own.
    pub assignment: Partitions,
    /// What it should own.
    pub target_assignment: Partitions,
    /// Whether it uses the classic protocol.
    pub is_classic: bool,
}

/// Which partitions a member may commit now.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum CommitScope {
    /// All: it is at its epoch, or commits from outside any group.
    All,
    /// Those that were its own already in the epoch it commits in; ask
    /// [`ConsumerGroup::owned_since`] for each. The others are stale.
    Owned,
}

impl ConsumerGroup {
    /// Whether `member` may commit offsets now. `generation_id` is the member's epoch, or its
    /// generation when it uses the classic protocol. `knows_epochs` is true from OffsetCommit 9 on;
    /// `transactional` is for TxnOffsetCommit, which may come without a member.
    ///
    /// # Errors
    ///
    /// `CoordinatorNotAvailable` (deleted), `UnknownMemberId`, `UnsupportedVersion` (a member of the
    /// consumer protocol, by an older version), `StaleMemberEpoch`, `IllegalGeneration`.
    pub fn validate_offset_commit(
        &self,
        member: &MemberRef,
        knows_epochs: bool,
        transactional: bool,
    ) -> Result<CommitScope, Error> {
        if self.deleted {
            return Err(Error::CoordinatorNotAvailable);
        }
        let outside = member.generation_id.0 < 0;
        if outside && self.members.is_empty() {
            return Ok(CommitScope::All);
        }
        if transactional && outside && member.member_id.is_unknown() && member.instance_id.is_none()
        {
            return Ok(CommitScope::All);
        }
        let known = self.members.get(&member.member_id);
        let known = known.ok_or(Error::UnknownMemberId)?;
        let is_classic = known.classic.is_some();
        if !transactional && !is_classic && !knows_epochs {
            return Err(Error::UnsupportedVersion);
        }
        let received = Epoch(member.generation_id.0);
        if received == known.epoch {
            return Ok(CommitScope::All);
        }
        if is_classic {
            return Err(Error::IllegalGeneration);
        }
        // A member that has moved on since may still have a commit on its way (KIP-1251).
        if received < known.epoch && received > Epoch::JOIN {
            return Ok(CommitScope::Owned);
        }
        Err(Error::StaleMemberEpoch)
    }

    /// Whether `partition` has been `member`'s without interruption since `epoch`.
    pub fn owned_since(&self, member: &MemberId, epoch: Epoch, partition: &TopicPartition) -> bool {
        let known = self.members.get(member);
        let since = known.and_then(|known| known.assignment_epoch(partition));
        since.is_some_and(|since| since <= epoch)
    }

    /// Whether offsets may be read by this member (OffsetFetch 9+). `member` is `None` for a client
    /// outside the group.
    ///
    /// # Errors
    ///
    /// `UnknownMemberId`, `StaleMemberEpoch`, `IllegalGeneration`.
    pub fn validate_offset_fetch(
        &self,
        member: Option<&MemberId>,
        epoch: Epoch,
    ) -> Result<(), Error> {
        let Some(id) = member else {
            // Without an id there is no epoch to be at.
            return if epoch < Epoch::JOIN {
                Ok(())
            } else {
                Err(Error::UnknownMemberId)
            };
        };
        let known = self.members.get(id).ok_or(Error::UnknownMemberId)?;
        match known.epoch == epoch {
            true => Ok(()),
            false if known.classic.is_some() => Err(Error::IllegalGeneration),
            false => Err(Error::StaleMemberEpoch),
        }
    }

    /// Whether a member subscribes to `topic`, by name or pattern.
    pub fn is_subscribed_to(&self, topic: &str) -> bool {
        self.subscriptions.any_includes(topic)
    }

    /// For ListGroups.
    pub fn overview(&self) -> Overview {
        Overview {
            state: self.state,
            members: self.members.len(),
        }
    }

    /// For ConsumerGroupDescribe.
    pub fn describe(&self) -> Description {
        Description {
            state: self.state,
            group_epoch: self.group_epoch,
            assignment_epoch: self.assignment_epoch,
            assignor: self.subscriptions.preferred_assignor(),
            members: self
                .members
                .iter()
                .map(|(id, member)| self.describe_member(id, member))
                .collect(),
            topics: self.subscriptions.topics().cloned(),
        }
    }

    fn describe_member(&self, id: &MemberId, member: &Member) -> MemberDescription {
        MemberDescription {
            member_id: id.clone(),
            instance_id: member.instance_id.clone(),
            rack_id: member.rack_id.clone(),
            member_epoch: member.epoch,
            client_id: Arc::clone(&member.client_id),
            client_host: Arc::clone(&member.client_host),
            subscribed_topic_names: member.subscribed_topic_names.iter().cloned().collect(),
            subscribed_topic_regex: member.subscribed_topic_regex.clone().unwrap_or_default(),
            assignment: member.assigned.keys().copied().collect(),
            target_assignment: self.targets.get(id).cloned().unwrap_or_default(),
            is_classic: member.classic.is_some(),
        }
    }
}
