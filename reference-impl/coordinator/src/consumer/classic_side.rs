//! Members of the classic protocol in a consumer group: JoinGroup, SyncGroup, Heartbeat, LeaveGroup
//! while a group migrates (KIP-848). The coordinator assigns; nothing waits, nobody leads.

use std::collections::BTreeMap;
use std::sync::Arc;

use host::Monotonic;
use uuid::Uuid;

use crate::classic::subscription::{self, Subscription};
use crate::classic::{
    CONSUMER_PROTOCOL_TYPE, GenerationId, GroupError, InstanceId, JoinRefusal, JoinRequest, Joined,
    LeavingMember, MemberId, MemberRef, SyncRequest, Synced,
};

use super::error::Error;
use super::events::Cause;
use super::group::{ConsumerGroup, Timer};
use super::heartbeat::Place;
use super::ids::{Partitions, TopicPartition};
use super::member::{ClassicSide, Member, MemberState};
use super::topics::Topics;

/// Longest reason of a client (KIP-800) kept for the log, in characters.
const REASON_CHARS: usize = 256;

impl ConsumerGroup {
    /// A JoinGroup request of a classic member. Answered at once: the coordinator assigns.
    ///
    /// # Errors
    ///
    /// `CoordinatorNotAvailable` (stopping, deleted), `InvalidSessionTimeout`, `GroupMaxSizeReached`,
    /// `InconsistentGroupProtocol`, `MemberIdRequired`, `UnknownMemberId`, `FencedInstanceId`.
    pub fn handle_join(
        &mut self,
        now: Monotonic,
        request: JoinRequest,
        topics: Option<&Arc<Topics>>,
    ) -> Result<Joined, JoinRefusal> {
        let asked = request.member_id.clone();
        self.join(now, request, topics)
            .map_err(|(error, minted)| JoinRefusal {
                error,
                member_id: minted.unwrap_or(asked),
            })
    }

    fn join(
        &mut self,
        now: Monotonic,
        request: JoinRequest,
        topics: Option<&Arc<Topics>>,
    ) -> Result<Joined, (GroupError, Option<MemberId>)> {
        let refused = |error| (error, None);
        if self.stopping || self.deleted {
            return Err(refused(GroupError::CoordinatorNotAvailable));
        }
        let sessions = self.classic.min_session_timeout..=self.classic.max_session_timeout;
        if !sessions.contains(&request.session_timeout) {
            return Err(refused(GroupError::InvalidSessionTimeout));
        }
        if !self.supports(&request) {
            return Err(refused(GroupError::InconsistentGroupProtocol));
        }
        let first = request.protocols.iter().next().cloned();
        let Some(first) = first else {
            return Err(refused(GroupError::InconsistentGroupProtocol));
        };
        // All protocols of a consumer carry the same subscription.
        let Ok(subscription) = subscription::subscription(&first.metadata) else {
            return Err(refused(GroupError::InconsistentGroupProtocol));
        };
        let place = self.classic_place(&request)?;
        let member = self.classic_member(&place, &request, &subscription);
        let known = self.member_at(&place);
        let is_full = known.is_none() && self.members.len() >= self.settings.max_size;
        if is_full || self.check_room(&place, known, &member).is_err() {
            return Err(refused(GroupError::GroupMaxSizeReached));
        }
        let id = place.id().clone();
        let rebalance_timeout = member.rebalance_timeout;
        let subscribed = self.apply(place, member);
        let subscription_changed = subscribed.is_some();
        self.move_on(now, subscribed, topics);
        let owned = self.owned(&subscription);
        self.reconcile(now, &id, Some(&owned), subscription_changed);
        self.refresh_state();
        self.timers.cancel(Timer::Join(id.clone()));
        self.timers.cancel(Timer::Rebalance(id.clone()));
        self.set_timer(Timer::Session(id.clone()), now + request.session_timeout);
        self.set_timer(Timer::Sync(id.clone()), now + rebalance_timeout);
        let epoch = self.members.get(&id).map(|member| member.epoch);
        Ok(Joined {
            member_id: id,
            generation_id: GenerationId(epoch.unwrap_or_default().0),
            protocol_type: Some(CONSUMER_PROTOCOL_TYPE.into()),
            protocol_name: Some(first.name),
            leader: MemberId::unknown(),
            skip_assignment: false,
            members: Vec::new(),
        })
    }

    /// Whether every classic member offers one of the protocols: the group may become classic again.
    fn supports(&self, request: &JoinRequest) -> bool {
        let classic: Vec<&ClassicSide> = self
            .members
            .values()
            .filter_map(|member| member.classic.as_ref())
            .collect();
        &*request.protocol_type == CONSUMER_PROTOCOL_TYPE
            && request.protocols.iter().any(|offered| {
                let offers =
                    |side: &&ClassicSide| side.protocols.metadata_of(&offered.name).is_some();
                classic.iter().all(offers)
            })
    }

    fn classic_place(
        &self,
        request: &JoinRequest,
    ) -> Result<Place, (GroupError, Option<MemberId>)> {
        let instance_id = request.instance_id.as_ref();
        let is_unknown = request.member_id.is_unknown();
        let id = if is_unknown {
            let prefix = instance_id.map_or(&*request.client_id, InstanceId::as_str);
            MemberId::mint(prefix, request.random)
        } else {
            request.member_id.clone()
        };
        match instance_id {
            None if is_unknown && request.require_known_member_id => {
                Err((GroupError::MemberIdRequired, Some(id)))
            }
            None if self.members.contains_key(&id) => Ok(Place::Known(id)),
            None => Ok(Place::New(id)),
            Some(instance_id) => match self.instances.get(instance_id) {
                None if is_unknown => Ok(Place::New(id)),
                None => Err((GroupError::UnknownMemberId, None)),
                Some(old) if is_unknown => Ok(Place::Replaces {
                    old: old.clone(),
                    new: id,
                }),
                Some(holder) if *holder == id => Ok(Place::Known(id)),
                Some(_) => Err((GroupError::FencedInstanceId, None)),
            },
        }
    }

    fn classic_member(
        &self,
        place: &Place,
        request: &JoinRequest,
        subscription: &Subscription<'_>,
    ) -> Member {
        let known = self.member_at(place);
        let new = || {
            Member::new(
                Arc::clone(&request.client_id),
                Arc::clone(&request.client_host),
            )
        };
        let mut member = known.cloned().unwrap_or_else(new);
        let names = subscription
            .topics
            .iter()
            .map(|&name| name.into())
            .collect();
        if *member.subscribed_topic_names != names {
            member.subscribed_topic_names = Arc::new(names);
        }
        member.subscribed_topic_regex = None;
        member.server_assignor = None;
        member.instance_id.clone_from(&request.instance_id);
        member.rack_id = subscription.rack_id.map(Into::into);
        member.client_id = Arc::clone(&request.client_id);
        member.client_host = Arc::clone(&request.client_host);
        member.rebalance_timeout = self.clamp_rebalance_timeout(request.rebalance_timeout);
        member.classic = Some(ClassicSide {
            session_timeout: request.session_timeout,
            protocols: request.protocols.clone(),
        });
        member
    }

    /// What a classic member says it owns. A topic nobody knows can't be anybody's.
    fn owned(&self, subscription: &Subscription<'_>) -> Partitions {
        let Some(topics) = self.subscriptions.topics() else {
            return Partitions::new();
        };
        by_id(topics, &subscription.owned)
    }

    /// A SyncGroup request of a classic member: what it may own now.
    ///
    /// # Errors
    ///
    /// `CoordinatorNotAvailable` (deleted), `UnknownMemberId`, `FencedInstanceId`,
    /// `IllegalGeneration`, `InconsistentGroupProtocol`, `RebalanceInProgress`.
    pub fn handle_sync(
        &mut self,
        now: Monotonic,
        request: &SyncRequest,
    ) -> Result<Synced, GroupError> {
        let (id, member) = self.classic_of(&request.member)?;
        let Some(classic) = &member.classic else {
            return Err(GroupError::UnknownMemberId);
        };
        let first = classic.protocols.iter().next();
        let name = first.map(|protocol| Arc::clone(&protocol.name));
        let other_type = request.protocol_type.as_deref();
        if other_type.is_some_and(|asked| asked != CONSUMER_PROTOCOL_TYPE)
            || request.protocol_name.is_some() && request.protocol_name != name
        {
            return Err(GroupError::InconsistentGroupProtocol);
        }
        let rebalances =
            self.group_epoch > member.epoch && member.state != MemberState::UnrevokedPartitions;
        if self.stopping || rebalances {
            self.expect_join(now, &id);
            return Err(GroupError::RebalanceInProgress);
        }
        // Readable since it joined; Kafka answers in the version of the subscription.
        let version = first
            .and_then(|protocol| subscription::subscription(&protocol.metadata).ok())
            .map_or(0, |subscription| subscription.version);
        let assignment = self.encode(version, member);
        let session = now + classic.session_timeout;
        self.timers.cancel(Timer::Sync(id.clone()));
        self.set_timer(Timer::Session(id), session);
        Ok(Synced {
            protocol_type: Some(CONSUMER_PROTOCOL_TYPE.into()),
            protocol_name: name,
            assignment,
        })
    }

    fn encode(&self, version: i16, member: &Member) -> bytes::Bytes {
        let mut of_topics: BTreeMap<Uuid, Vec<i32>> = BTreeMap::new();
        for partition in member.assigned.keys() {
            let numbers = of_topics.entry(partition.topic).or_default();
            numbers.push(partition.partition);
        }
        let topics = self.subscriptions.topics();
        let named: Vec<(&str, Vec<i32>)> = of_topics
            .into_iter()
            // One without a name was deleted, and the next assignment takes it away.
            .filter_map(|(id, numbers)| Some((&**topics?.name(id)?, numbers)))
            .collect();
        subscription::encode_assignment(version, &named)
    }

    /// A Heartbeat request of a classic member: `Ok` means carry on, `RebalanceInProgress` rejoin.
    ///
    /// # Errors
    ///
    /// `CoordinatorNotAvailable` (deleted), `UnknownMemberId`, `FencedInstanceId`,
    /// `IllegalGeneration`, `RebalanceInProgress`.
    pub fn handle_classic_heartbeat(
        &mut self,
        now: Monotonic,
        member: &MemberRef,
        topics: Option<&Arc<Topics>>,
    ) -> Result<(), GroupError> {
        self.classic_of(member)?;
        if !self.stopping {
            // Kafka looks at topics only when it hears a member of the other protocol, and a group
            // of classic members alone would never notice them.
            self.move_on(now, None, topics);
            self.refresh_state();
        }
        let (id, known) = self.classic_of(member)?;
        let session = known
            .classic
            .as_ref()
            .map(|classic| classic.session_timeout);
        let rejoin = self.stopping
            || known.epoch < self.group_epoch
            || known.state == MemberState::UnrevokedPartitions
            || known.state == MemberState::UnreleasedPartitions && !self.waits_for_others(&id);
        self.set_timer(
            Timer::Session(id.clone()),
            now + session.unwrap_or(self.settings.session_timeout),
        );
        if rejoin {
            self.expect_join(now, &id);
            return Err(GroupError::RebalanceInProgress);
        }
        Ok(())
    }

    /// Whether some of what the member should have is still somebody else's.
    fn waits_for_others(&self, id: &MemberId) -> bool {
        let (Some(target), Some(member)) = (self.targets.get(id), self.members.get(id)) else {
            return false;
        };
        target.iter().any(|partition| {
            !member.assigned.contains_key(partition) && self.owners.contains_key(partition)
        })
    }

    /// The member was told to rejoin; it has its rebalance timeout from the first time on.
    fn expect_join(&mut self, now: Monotonic, id: &MemberId) {
        let timer = Timer::Join(id.clone());
        if let Some(member) = self.members.get(id)
            && !self.timers.is_set(&timer)
        {
            let deadline = now + member.rebalance_timeout;
            self.set_timer(timer, deadline);
        }
    }

    /// A LeaveGroup request: one verdict for each member, in order. An administrator may remove
    /// members of both protocols.
    ///
    /// # Errors
    ///
    /// `CoordinatorNotAvailable` (deleted) for the whole request. A member's verdict is
    /// `UnknownMemberId` or `FencedInstanceId` when it is not `Ok`.
    pub fn handle_leave(
        &mut self,
        leaving: &[LeavingMember],
    ) -> Result<Vec<Result<(), GroupError>>, GroupError> {
        if self.deleted {
            return Err(GroupError::CoordinatorNotAvailable);
        }
        let mut gone = Vec::new();
        let verdicts = leaving
            .iter()
            .map(|member| {
                let id = self.leaver(member)?;
                let reason = member.reason.as_ref();
                let reason = reason.map(|text| text.chars().take(REASON_CHARS).collect());
                let cause = Cause::Left(id.clone(), reason);
                gone.push((id, cause));
                Ok(())
            })
            .collect();
        self.fence(&gone);
        Ok(verdicts)
    }

    fn leaver(&self, leaving: &LeavingMember) -> Result<MemberId, GroupError> {
        let Some(instance_id) = &leaving.instance_id else {
            let known = self.members.contains_key(&leaving.member_id);
            return known
                .then(|| leaving.member_id.clone())
                .ok_or(GroupError::UnknownMemberId);
        };
        match self.instances.get(instance_id) {
            None => Err(GroupError::UnknownMemberId),
            Some(holder) if leaving.member_id.is_unknown() || *holder == leaving.member_id => {
                Ok(holder.clone())
            }
            Some(_) => Err(GroupError::FencedInstanceId),
        }
    }

    /// The classic member of the current generation that `member` names.
    fn classic_of(&self, member: &MemberRef) -> Result<(MemberId, &Member), GroupError> {
        if self.deleted {
            return Err(GroupError::CoordinatorNotAvailable);
        }
        if let Some(instance_id) = &member.instance_id {
            match self.instances.get(instance_id) {
                None => return Err(GroupError::UnknownMemberId),
                Some(holder) if *holder != member.member_id => {
                    return Err(GroupError::FencedInstanceId);
                }
                Some(_) => {}
            }
        }
        let known = self.members.get(&member.member_id);
        let known = known.filter(|known| known.classic.is_some());
        let known = known.ok_or(GroupError::UnknownMemberId)?;
        if known.epoch.0 == member.generation_id.0 {
            Ok((member.member_id.clone(), known))
        } else {
            Err(GroupError::IllegalGeneration)
        }
    }
}

/// Partitions by topic id; what no topic has is left out.
pub(super) fn by_id(topics: &Topics, named: &[(&str, Vec<i32>)]) -> Partitions {
    named
        .iter()
        .filter_map(|(name, numbers)| Some((topics.get(name)?, numbers)))
        .flat_map(|(topic, numbers)| {
            let numbers = numbers
                .iter()
                .filter(move |n| (0..topic.partitions).contains(n));
            numbers.map(move |&number| TopicPartition::new(topic.id, number))
        })
        .collect()
}

/// What a classic call hears when the error is of the consumer protocol.
impl From<Error> for GroupError {
    fn from(error: Error) -> Self {
        match error {
            Error::UnknownMemberId => Self::UnknownMemberId,
            Error::IllegalGeneration
            | Error::StaleMemberEpoch
            | Error::FencedMemberEpoch { .. } => Self::IllegalGeneration,
            Error::FencedInstanceId | Error::UnreleasedInstanceId => Self::FencedInstanceId,
            Error::GroupMaxSizeReached => Self::GroupMaxSizeReached,
            Error::NonEmptyGroup => Self::NonEmptyGroup,
            Error::GroupIdNotFound(_) => Self::GroupIdNotFound,
            Error::CoordinatorNotAvailable => Self::CoordinatorNotAvailable,
            Error::InvalidRequest(_)
            | Error::UnsupportedAssignor
            | Error::InvalidRegularExpression(_)
            | Error::UnsupportedVersion => Self::InconsistentGroupProtocol,
        }
    }
}
