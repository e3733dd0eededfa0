//! The group itself: members, epochs, who owns what, and the turning points between them.

use std::collections::{BTreeMap, VecDeque};
use std::time::Duration;

use host::Monotonic;

use crate::classic::{self, InstanceId, MIN_REBALANCE_TIMEOUT, MemberId};
use crate::timers::Timers;

use super::events::{Cause, Note};
use super::ids::{Epoch, Partitions, TopicPartition};
use super::member::{Member, MemberState};
use super::reconcile::Step;
use super::settings::Settings;
use super::subscriptions::Subscriptions;

/// Where a group stands, in Kafka's words.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum GroupState {
    /// No members.
    Empty,
    /// The target assignment is to be computed.
    Assigning,
    /// Members are on their way to the target assignment.
    Reconciling,
    /// Every member has what it should have.
    Stable,
}

impl GroupState {
    /// Kafka's spelling, as ConsumerGroupDescribe and ListGroups answer it.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Empty => "Empty",
            Self::Assigning => "Assigning",
            Self::Reconciling => "Reconciling",
            Self::Stable => "Stable",
        }
    }
}

/// What a partition costs in the maps of its owner, its target and the group.
const PARTITION_BYTES: usize = 128;

/// What falls due for a member.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Timer {
    /// It was silent for too long.
    Session(MemberId),
    /// It still owns what it had to give up.
    Rebalance(MemberId),
    /// Of the classic protocol: it did not rejoin.
    Join(MemberId),
    /// Of the classic protocol: it did not collect its assignment.
    Sync(MemberId),
}

/// A consumer group of KIP-848. See the [module documentation](super) for how to drive it.
#[derive(Debug)]
pub struct ConsumerGroup {
    pub(super) settings: Settings,
    pub(super) classic: classic::Settings,
    pub(super) group_epoch: Epoch,
    pub(super) assignment_epoch: Epoch,
    pub(super) members: BTreeMap<MemberId, Member>,
    pub(super) instances: BTreeMap<InstanceId, MemberId>,
    /// What each member should have at `assignment_epoch`.
    pub(super) targets: BTreeMap<MemberId, Partitions>,
    /// Who owns a partition, or has not given it up yet.
    pub(super) owners: BTreeMap<TopicPartition, MemberId>,
    pub(super) subscriptions: Subscriptions,
    pub(super) metadata_bytes: usize,
    pub(super) timers: Timers<Timer>,
    pub(super) notes: VecDeque<Note>,
    pub(super) stopping: bool,
    pub(super) deleted: bool,
    pub(super) state: GroupState,
    /// `state` is to be looked at again: that costs a look at every member.
    pub(super) touched: bool,
}

impl ConsumerGroup {
    /// An empty group. `classic` bounds members of the classic protocol, and the group that this one
    /// may turn into.
    pub fn new(settings: Settings, classic: classic::Settings) -> Self {
        Self {
            settings,
            classic,
            group_epoch: Epoch::default(),
            assignment_epoch: Epoch::default(),
            members: BTreeMap::new(),
            instances: BTreeMap::new(),
            targets: BTreeMap::new(),
            owners: BTreeMap::new(),
            subscriptions: Subscriptions::default(),
            metadata_bytes: 0,
            timers: Timers::default(),
            notes: VecDeque::new(),
            stopping: false,
            deleted: false,
            state: GroupState::Empty,
            touched: false,
        }
    }

    /// The state.
    pub fn state(&self) -> GroupState {
        self.state
    }

    /// The epoch of the group.
    pub fn group_epoch(&self) -> Epoch {
        self.group_epoch
    }

    /// Whether it was deleted: nothing may be asked of it any more.
    pub fn is_deleted(&self) -> bool {
        self.deleted
    }

    /// Whether the group holds nothing that forgetting it would lose but its epoch.
    pub fn is_idle(&self) -> bool {
        self.members.is_empty()
    }

    /// Bytes held for its members: what they brought, and what they were assigned.
    pub fn held_bytes(&self) -> usize {
        self.metadata_bytes + self.owners.len() * PARTITION_BYTES
    }

    /// When [`handle_timeout`](Self::handle_timeout) has something to do.
    pub fn next_deadline(&self) -> Option<Monotonic> {
        self.timers.next_deadline()
    }

    /// The next thing for the log. Poll it to `None` after every `handle_*`.
    pub fn poll_note(&mut self) -> Option<Note> {
        self.notes.pop_front()
    }

    /// Runs everything that is due at `now`.
    pub fn handle_timeout(&mut self, now: Monotonic) {
        while let Some(timer) = self.timers.pop_due(now) {
            let (id, cause) = match timer {
                Timer::Session(id) => (id.clone(), Cause::SessionExpired(id)),
                Timer::Rebalance(id) => (id.clone(), Cause::DidNotRevoke(id)),
                Timer::Join(id) => (id.clone(), Cause::DidNotRejoin(id)),
                Timer::Sync(id) => (id.clone(), Cause::DidNotSync(id)),
            };
            self.fence(&[(id, cause)]);
        }
    }

    /// This coordinator stops: heartbeats and joins are refused, which makes members look for the
    /// group wherever it lives next; commits are accepted. No timer runs any more.
    pub fn handle_stop(&mut self) {
        self.stopping = true;
        self.timers.clear();
    }

    /// Deletes the group.
    ///
    /// # Errors
    ///
    /// `NonEmptyGroup`; `GroupIdNotFound` when it was deleted before.
    pub fn handle_delete(&mut self) -> Result<(), super::Error> {
        if self.deleted {
            return Err(super::Error::GroupIdNotFound("The group is deleted."));
        }
        if !self.members.is_empty() {
            return Err(super::Error::NonEmptyGroup);
        }
        self.deleted = true;
        Ok(())
    }

    pub(super) fn note(&mut self, note: Note) {
        self.notes.push_back(note);
    }

    pub(super) fn set_timer(&mut self, timer: Timer, at: Monotonic) {
        if !self.stopping {
            self.timers.set(timer, at);
        }
    }

    /// The rebalance timeout the group uses for the one asked for.
    pub(super) fn clamp_rebalance_timeout(&self, asked: Duration) -> Duration {
        let longest = self.settings.max_rebalance_timeout;
        asked.clamp(MIN_REBALANCE_TIMEOUT, longest.max(MIN_REBALANCE_TIMEOUT))
    }

    /// What `member` under `id` weighs against `Settings::max_metadata_bytes`.
    pub(super) fn weight(id: &MemberId, member: &Member) -> usize {
        let instance = member
            .instance_id
            .as_ref()
            .map_or(0, |id| id.as_str().len());
        id.as_str().len() + instance + member.metadata_bytes()
    }

    /// Puts a member in, or back after a change of anything but its partitions.
    pub(super) fn put(&mut self, id: MemberId, member: Member) {
        if let Some(instance_id) = &member.instance_id {
            self.instances.insert(instance_id.clone(), id.clone());
        }
        self.metadata_bytes += Self::weight(&id, &member);
        self.subscriptions.add(&member);
        self.touched = true;
        for partition in member.assigned.keys().chain(member.revoking.keys()) {
            self.owners.insert(*partition, id.clone());
        }
        self.members.insert(id, member);
    }

    /// Takes a member out, with all that is indexed by it but its target.
    pub(super) fn take(&mut self, id: &MemberId) -> Option<Member> {
        let member = self.members.remove(id)?;
        if let Some(instance_id) = &member.instance_id {
            self.instances.remove(instance_id);
        }
        self.metadata_bytes -= Self::weight(id, &member);
        self.subscriptions.remove(&member);
        self.touched = true;
        for partition in member.assigned.keys().chain(member.revoking.keys()) {
            self.owners.remove(partition);
        }
        Some(member)
    }

    pub(super) fn cancel_timers(&mut self, id: &MemberId) {
        self.timers.cancel(Timer::Session(id.clone()));
        self.timers.cancel(Timer::Rebalance(id.clone()));
        self.timers.cancel(Timer::Join(id.clone()));
        self.timers.cancel(Timer::Sync(id.clone()));
    }

    /// Removes members. The rest gets their partitions from its next heartbeats on.
    pub(super) fn fence(&mut self, members: &[(MemberId, Cause)]) {
        let mut last = None;
        for (id, cause) in members {
            if self.take(id).is_none() {
                continue;
            }
            self.cancel_timers(id);
            self.targets.remove(id);
            self.note(Note::MemberRemoved {
                member_id: id.clone(),
                cause: cause.clone(),
            });
            last = Some(cause.clone());
        }
        if let Some(cause) = last {
            self.subscriptions.settle();
            self.bump(cause);
        }
        self.refresh_state();
    }

    /// Asks for another assignment.
    pub(super) fn bump(&mut self, cause: Cause) {
        self.group_epoch = self.group_epoch.next();
        self.touched = true;
        self.note(Note::EpochBumped {
            group_epoch: self.group_epoch,
            cause,
        });
    }

    /// Computes the target assignment when the group has moved on since the last one.
    pub(super) fn update_targets(&mut self) {
        if self.group_epoch <= self.assignment_epoch {
            return;
        }
        let computed =
            self.subscriptions
                .assign(&self.members, &self.targets, self.settings.max_partitions);
        let partitions = computed.targets.values().map(Partitions::len).sum();
        if computed.topics_left_out > 0 {
            self.note(Note::TooManyPartitions {
                assigned: partitions,
                topics_left_out: computed.topics_left_out,
            });
        }
        self.targets = computed.targets;
        self.assignment_epoch = self.group_epoch;
        self.touched = true;
        self.note(Note::Assigned {
            assignment_epoch: self.assignment_epoch,
            members: self.members.len(),
            partitions,
            assignor: computed.assignor,
        });
    }

    /// Moves a member towards its target. True when what it may own has changed.
    pub(super) fn reconcile(
        &mut self,
        now: Monotonic,
        id: &MemberId,
        owned: Option<&Partitions>,
        subscription_changed: bool,
    ) -> bool {
        let Some(before) = self.members.get(id) else {
            return false;
        };
        if before.is_reconciled_to(self.assignment_epoch) {
            return false;
        }
        let nothing = Partitions::new();
        let mut member = before.clone();
        let moved = Step {
            target: self.targets.get(id).unwrap_or(&nothing),
            target_epoch: self.assignment_epoch,
            owned,
            subscription_changed,
            is_subscribed: |partition: &TopicPartition| {
                self.subscriptions.includes(before, partition.topic)
            },
            is_free: |partition: &TopicPartition| !self.owners.contains_key(partition),
        }
        .advance(&mut member);
        if !moved {
            return false;
        }
        let changed = !before.assigned.keys().eq(member.assigned.keys());
        let (state, timeout) = (member.state, member.rebalance_timeout);
        let watched = member.classic.is_none();
        self.replace_partitions(id, member);
        if watched && state == MemberState::UnrevokedPartitions {
            self.set_timer(Timer::Rebalance(id.clone()), now + timeout);
        } else {
            self.timers.cancel(Timer::Rebalance(id.clone()));
        }
        changed
    }

    /// Puts a member back whose partitions, state or epoch changed.
    fn replace_partitions(&mut self, id: &MemberId, member: Member) {
        if let Some(before) = self.members.get(id) {
            for partition in before.assigned.keys().chain(before.revoking.keys()) {
                self.owners.remove(partition);
            }
        }
        for partition in member.assigned.keys().chain(member.revoking.keys()) {
            self.owners.insert(*partition, id.clone());
        }
        self.members.insert(id.clone(), member);
        self.touched = true;
    }

    /// Gives the place of `old` to another process of the same instance: partitions and target stay,
    /// the id and the epoch are new.
    pub(super) fn replace_static(&mut self, old: &MemberId, new: &MemberId) {
        let Some(mut member) = self.take(old) else {
            return;
        };
        self.cancel_timers(old);
        member.epoch = Epoch::JOIN;
        member.previous_epoch = Epoch::JOIN;
        if let Some(target) = self.targets.remove(old) {
            self.targets.insert(new.clone(), target);
        }
        if let Some(instance_id) = member.instance_id.clone() {
            self.note(Note::StaticMemberReplaced {
                instance_id,
                old: old.clone(),
                new: new.clone(),
            });
        }
        self.put(new.clone(), member);
    }

    /// Call after everything that may have moved a member or an epoch.
    pub(super) fn refresh_state(&mut self) {
        if !std::mem::take(&mut self.touched) {
            return;
        }
        self.state = if self.members.is_empty() {
            GroupState::Empty
        } else if self.group_epoch > self.assignment_epoch {
            GroupState::Assigning
        } else if self
            .members
            .values()
            .all(|member| member.is_reconciled_to(self.assignment_epoch))
        {
            GroupState::Stable
        } else {
            GroupState::Reconciling
        };
    }

    /// How many members use the classic protocol.
    pub(super) fn classic_members(&self) -> usize {
        let classic = |member: &&Member| member.classic.is_some();
        self.members.values().filter(classic).count()
    }
}
