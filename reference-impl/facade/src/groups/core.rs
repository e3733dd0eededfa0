//! The state machine of one group: of the classic or of the consumer protocol, and the change from
//! one to the other.

use std::collections::VecDeque;
use std::sync::Arc;

use coordinator::classic::{
    self, CallToken, ClassicGroup, GroupError, GroupState, JoinRequest, Joined, LeavingMember,
    MemberId, MemberRef, SyncRequest, Synced,
};
use coordinator::consumer::{
    self, CommitScope, ConsumerGroup, Epoch, HeartbeatRequest, HeartbeatResponse, TopicPartition,
    Topics,
};
use host::Monotonic;
use kafka_wire::ErrorCode;

/// The type of a group (KIP-848), in Kafka's words.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub enum GroupType {
    /// Its members assign.
    #[default]
    Classic,
    /// The coordinator assigns.
    Consumer,
}

impl GroupType {
    /// Kafka's spelling.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Classic => "classic",
            Self::Consumer => "consumer",
        }
    }
}

/// One line of ListGroups.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Overview {
    /// The type.
    pub group_type: GroupType,
    /// The state, as its type names it.
    pub state: &'static str,
    /// The protocol type; none before the first member.
    pub protocol_type: Option<Arc<str>>,
    /// How many members.
    pub members: usize,
}

/// What a group looks like.
#[derive(Clone, Debug)]
pub enum Description {
    /// For DescribeGroups.
    Classic(classic::Description),
    /// For ConsumerGroupDescribe.
    Consumer(consumer::Description),
}

/// The bounds of both types.
#[derive(Clone, Copy, Debug)]
pub(super) struct Settings {
    pub(super) classic: classic::Settings,
    pub(super) consumer: consumer::Settings,
}

/// Who commits, and which partitions.
#[derive(Clone, Debug)]
pub struct Committer {
    /// The member; its generation is its epoch in a consumer group.
    pub member: MemberRef,
    /// Whether the request is of a version that knows epochs (9+).
    pub knows_epochs: bool,
    /// The partition of each change, in order. Topics whose id is not known are nil.
    pub partitions: Vec<TopicPartition>,
}

/// What has to be done or told outside of a group.
pub(super) enum Effect {
    Classic(classic::Effect),
    Consumer(consumer::Note),
    /// The group changed its type.
    Turned(GroupType),
}

#[derive(Debug)]
enum State {
    Classic(ClassicGroup),
    Consumer(ConsumerGroup),
}

#[derive(Debug)]
pub(super) struct Core {
    settings: Settings,
    state: State,
    /// Answers that a classic group still owed when it was turned.
    owed: VecDeque<classic::Effect>,
    turned: Option<GroupType>,
}

impl Core {
    pub(super) fn new(settings: Settings) -> Self {
        Self {
            settings,
            state: State::Classic(ClassicGroup::new(settings.classic)),
            owed: VecDeque::new(),
            turned: None,
        }
    }

    /// ConsumerGroupHeartbeat. The first one of an empty group makes it a consumer group, and the
    /// first one of a live classic group too where the policy allows it. A member that a classic
    /// group does not know is told to join: this process may have forgotten the group it was in.
    pub(super) fn consumer_heartbeat(
        &mut self,
        now: Monotonic,
        request: &HeartbeatRequest,
        topics: Option<&Arc<Topics>>,
    ) -> Result<HeartbeatResponse, consumer::Error> {
        let classic = match &mut self.state {
            State::Consumer(group) => return group.handle_heartbeat(now, request, topics),
            State::Classic(group) => group,
        };
        if request.member_epoch != Epoch::JOIN {
            return Err(consumer::Error::UnknownMemberId);
        }
        let Settings {
            classic: bounds,
            consumer: settings,
        } = self.settings;
        let mut new = match classic.state() {
            GroupState::Dead => return Err(consumer::Error::CoordinatorNotAvailable),
            GroupState::Empty => ConsumerGroup::new(settings, bounds),
            _ => ConsumerGroup::of_classic(settings, bounds, now, classic, topics)?,
        };
        let answer = new.handle_heartbeat(now, request, topics)?;
        // Whoever waits in the classic group joins again, and finds this one.
        classic.handle_stop(now);
        self.owed
            .extend(std::iter::from_fn(|| classic.poll_effect()));
        self.turned = Some(GroupType::Consumer);
        self.state = State::Consumer(new);
        Ok(answer)
    }

    /// JoinGroup; a parked call is answered by an effect.
    pub(super) fn join(
        &mut self,
        now: Monotonic,
        request: JoinRequest,
        topics: Option<&Arc<Topics>>,
        token: CallToken,
    ) {
        // An empty group is of the type of whoever joins it.
        if let State::Consumer(group) = &self.state
            && group.is_idle()
            && !group.is_deleted()
        {
            self.turned = Some(GroupType::Classic);
            self.state = State::Classic(ClassicGroup::new(self.settings.classic));
        }
        match &mut self.state {
            State::Classic(group) => group.handle_join(now, request, token),
            State::Consumer(group) => {
                let answer = group.handle_join(now, request, topics);
                self.owed.push_back(classic::Effect::Join(token, answer));
            }
        }
    }

    /// SyncGroup; a parked call is answered by an effect.
    pub(super) fn sync(&mut self, now: Monotonic, request: SyncRequest, token: CallToken) {
        match &mut self.state {
            State::Classic(group) => group.handle_sync(now, request, token),
            State::Consumer(group) => {
                let answer = group.handle_sync(now, &request);
                self.owed.push_back(classic::Effect::Sync(token, answer));
            }
        }
    }

    /// Heartbeat.
    pub(super) fn heartbeat(
        &mut self,
        now: Monotonic,
        member: &MemberRef,
        topics: Option<&Arc<Topics>>,
    ) -> Result<(), GroupError> {
        match &mut self.state {
            State::Classic(group) => group.handle_heartbeat(now, member),
            State::Consumer(group) => group.handle_classic_heartbeat(now, member, topics),
        }
    }

    /// LeaveGroup.
    pub(super) fn leave(
        &mut self,
        now: Monotonic,
        members: &[LeavingMember],
    ) -> Result<Vec<Result<(), GroupError>>, GroupError> {
        match &mut self.state {
            State::Classic(group) => group.handle_leave(now, members),
            State::Consumer(group) => group.handle_leave(members),
        }
    }

    /// The connection that waited for `token` is gone.
    pub(super) fn abandoned(&mut self, now: Monotonic, token: CallToken) {
        if let State::Classic(group) = &mut self.state {
            group.handle_abandoned(now, token);
        }
    }

    /// Whether offsets may be committed: for each partition of `committer`, whether its own may.
    pub(super) fn validate_commit(
        &mut self,
        now: Monotonic,
        committer: &Committer,
    ) -> Result<Vec<bool>, ErrorCode> {
        let member = &committer.member;
        let all = vec![true; committer.partitions.len()];
        match &mut self.state {
            State::Classic(group) => group
                .validate_offset_commit(now, member, false)
                .map(|()| all)
                .map_err(GroupError::error_code),
            State::Consumer(group) => {
                let scope = group.validate_offset_commit(member, committer.knows_epochs, false);
                match scope.map_err(|error| error.error_code())? {
                    CommitScope::All => Ok(all),
                    CommitScope::Owned => {
                        let epoch = Epoch(member.generation_id.0);
                        let partitions = committer.partitions.iter();
                        Ok(partitions
                            .map(|p| group.owned_since(&member.member_id, epoch, p))
                            .collect())
                    }
                }
            }
        }
    }

    /// Whether offsets may be committed in a transaction.
    pub(super) fn validate_commit_in_transaction(
        &mut self,
        now: Monotonic,
        member: &MemberRef,
    ) -> Result<(), ErrorCode> {
        match &mut self.state {
            State::Classic(group) => group
                .validate_offset_commit(now, member, true)
                .map_err(GroupError::error_code),
            State::Consumer(group) => match group.validate_offset_commit(member, true, true) {
                Ok(CommitScope::All) => Ok(()),
                // TxnOffsetCommit has no word for an epoch that is over.
                Ok(CommitScope::Owned) => Err(ErrorCode::IllegalGeneration),
                Err(error) => Err(match error.error_code() {
                    ErrorCode::StaleMemberEpoch => ErrorCode::IllegalGeneration,
                    code => code,
                }),
            },
        }
    }

    /// Whether a member may read offsets. Classic groups let everybody.
    pub(super) fn validate_fetch(
        &self,
        member: Option<&MemberId>,
        epoch: Epoch,
    ) -> Result<(), ErrorCode> {
        match &self.state {
            State::Classic(_) => Ok(()),
            State::Consumer(group) => group
                .validate_offset_fetch(member, epoch)
                .map_err(|error| error.error_code()),
        }
    }

    /// For OffsetDelete: for each topic, whether a live member subscribes to it.
    pub(super) fn subscriptions(&self, topics: &[String]) -> Result<Vec<bool>, GroupError> {
        match &self.state {
            State::Classic(group) => {
                group.validate_offset_delete()?;
                let subscribed = topics.iter().map(|topic| group.is_subscribed_to(topic));
                Ok(subscribed.collect())
            }
            State::Consumer(group) if group.is_deleted() => Err(GroupError::GroupIdNotFound),
            State::Consumer(group) => {
                let subscribed = topics.iter().map(|topic| group.is_subscribed_to(topic));
                Ok(subscribed.collect())
            }
        }
    }

    pub(super) fn describe(&self) -> Description {
        match &self.state {
            State::Classic(group) => Description::Classic(group.describe()),
            State::Consumer(group) => Description::Consumer(group.describe()),
        }
    }

    /// DeleteGroups.
    pub(super) fn delete(&mut self) -> Result<(), GroupError> {
        match &mut self.state {
            State::Classic(group) => group.handle_delete(),
            State::Consumer(group) => group.handle_delete().map_err(GroupError::from),
        }
    }

    pub(super) fn overview(&self) -> Overview {
        match &self.state {
            State::Classic(group) => {
                let overview = group.overview();
                Overview {
                    group_type: GroupType::Classic,
                    state: overview.state.name(),
                    protocol_type: overview.protocol_type,
                    members: overview.members,
                }
            }
            State::Consumer(group) => {
                let overview = group.overview();
                Overview {
                    group_type: GroupType::Consumer,
                    state: overview.state.name(),
                    protocol_type: Some(classic::CONSUMER_PROTOCOL_TYPE.into()),
                    members: overview.members,
                }
            }
        }
    }

    /// What the index row of the group's offsets says.
    pub(super) fn protocol_type(&self) -> Option<Arc<str>> {
        match &self.state {
            State::Classic(group) => group.protocol_type().cloned(),
            State::Consumer(_) => Some(classic::CONSUMER_PROTOCOL_TYPE.into()),
        }
    }

    /// Runs what is due, and turns a group that only classic members are left in.
    pub(super) fn timeout(&mut self, now: Monotonic) {
        match &mut self.state {
            State::Classic(group) => group.handle_timeout(now),
            State::Consumer(group) => group.handle_timeout(now),
        }
        self.maybe_downgrade(now);
    }

    fn maybe_downgrade(&mut self, now: Monotonic) {
        let State::Consumer(group) = &self.state else {
            return;
        };
        if !group.wants_downgrade() {
            return;
        }
        let empty = State::Classic(ClassicGroup::new(self.settings.classic));
        if let State::Consumer(group) = std::mem::replace(&mut self.state, empty) {
            self.turned = Some(GroupType::Classic);
            self.state = State::Classic(group.into_classic(now));
        }
    }

    /// This coordinator stops.
    pub(super) fn stop(&mut self, now: Monotonic) {
        match &mut self.state {
            State::Classic(group) => group.handle_stop(now),
            State::Consumer(group) => group.handle_stop(),
        }
    }

    /// What is to be done outside. Poll to `None` after every event.
    pub(super) fn poll_effect(&mut self) -> Option<Effect> {
        if let Some(effect) = self.owed.pop_front() {
            return Some(Effect::Classic(effect));
        }
        if let Some(to) = self.turned.take() {
            return Some(Effect::Turned(to));
        }
        match &mut self.state {
            State::Classic(group) => group.poll_effect().map(Effect::Classic),
            State::Consumer(group) => group.poll_note().map(Effect::Consumer),
        }
    }

    pub(super) fn next_deadline(&self) -> Option<Monotonic> {
        match &self.state {
            State::Classic(group) => group.next_deadline(),
            State::Consumer(group) => group.next_deadline(),
        }
    }

    /// Bytes that the group holds for its members.
    pub(super) fn held_bytes(&self) -> usize {
        match &self.state {
            State::Classic(group) => group.held_bytes(),
            State::Consumer(group) => group.held_bytes(),
        }
    }

    /// Whether nobody is in the group.
    pub(super) fn is_idle(&self) -> bool {
        match &self.state {
            State::Classic(group) => group.is_idle(),
            State::Consumer(group) => group.is_idle(),
        }
    }

    /// Whether an idle group may be forgotten at once: it never had a member, or was deleted.
    pub(super) fn is_disposable(&self) -> bool {
        match &self.state {
            State::Classic(group) => {
                group.generation_id().0 == 0 || group.state() == GroupState::Dead
            }
            State::Consumer(group) => group.group_epoch() == Epoch::JOIN || group.is_deleted(),
        }
    }
}

/// The answers of a classic group.
pub(super) type JoinAnswer = Result<Joined, classic::JoinRefusal>;
pub(super) type SyncAnswer = Result<Synced, GroupError>;
