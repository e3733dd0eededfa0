//! The group itself: state, timers, and the two turning points of a rebalance.

use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use host::Monotonic;

use super::error::GroupError;
use super::events::{Cause, Effect, JoinRefusal, Joined, Note, Synced};
use super::ids::{CallToken, GenerationId, InstanceId, MemberId, Seat};
use super::member::Member;
use super::pending::Pending;
use super::roster::Roster;
use super::settings::Settings;
use super::timers::{Timer, Timers};

/// Where a group stands, in Kafka's words.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum GroupState {
    /// No members.
    Empty,
    /// Members are asked to rejoin.
    PreparingRebalance,
    /// A generation is formed and waits for the leader's assignment.
    CompletingRebalance,
    /// Every member can have its assignment.
    Stable,
    /// Deleted.
    Dead,
}

impl GroupState {
    /// Kafka's spelling, as DescribeGroups and ListGroups answer it.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Empty => "Empty",
            Self::PreparingRebalance => "PreparingRebalance",
            Self::CompletingRebalance => "CompletingRebalance",
            Self::Stable => "Stable",
            Self::Dead => "Dead",
        }
    }
}

/// The join phase of a group that was empty.
#[derive(Debug)]
pub(super) struct InitialJoin {
    /// The wait that runs now.
    pub(super) delay: Duration,
    /// How much longer it may become.
    pub(super) remaining: Duration,
    /// Somebody came during the wait that runs now.
    pub(super) newcomer: bool,
}

/// A classic consumer group. See the [module documentation](super) for how to drive it.
#[derive(Debug)]
pub struct ClassicGroup {
    pub(super) settings: Settings,
    pub(super) state: GroupState,
    pub(super) generation_id: GenerationId,
    pub(super) protocol_type: Option<Arc<str>>,
    pub(super) protocol_name: Option<Arc<str>>,
    pub(super) roster: Roster,
    pub(super) pending: Pending,
    /// Members of this generation that have not sent SyncGroup.
    pub(super) unsynced: BTreeSet<Seat>,
    /// Who waits under each parked token.
    pub(super) parked: BTreeMap<CallToken, Seat>,
    pub(super) initial_join: Option<InitialJoin>,
    pub(super) stopping: bool,
    pub(super) timers: Timers,
    pub(super) effects: VecDeque<Effect>,
    /// Bytes of the assignments of the last generation that had some, those of members that have left
    /// included.
    pub(super) assignment_bytes: usize,
    next_seat: u64,
}

impl ClassicGroup {
    /// An empty group.
    pub fn new(settings: Settings) -> Self {
        Self {
            settings,
            state: GroupState::Empty,
            generation_id: GenerationId(0),
            protocol_type: None,
            protocol_name: None,
            roster: Roster::default(),
            pending: Pending::default(),
            unsynced: BTreeSet::new(),
            parked: BTreeMap::new(),
            initial_join: None,
            stopping: false,
            timers: Timers::default(),
            effects: VecDeque::new(),
            assignment_bytes: 0,
            next_seat: 0,
        }
    }

    /// The state.
    pub fn state(&self) -> GroupState {
        self.state
    }

    /// The current generation; 0 before the first.
    pub fn generation_id(&self) -> GenerationId {
        self.generation_id
    }

    /// The protocol type of the last members; kept while the group is empty, as Kafka keeps it.
    pub fn protocol_type(&self) -> Option<&Arc<str>> {
        self.protocol_type.as_ref()
    }

    /// How many members.
    pub fn members(&self) -> usize {
        self.roster.len()
    }

    /// What the group holds for its members in memory: their metadata and assignments.
    pub fn held_bytes(&self) -> usize {
        self.roster.metadata_bytes() + self.assignment_bytes
    }

    /// Whether the group holds nothing that forgetting it would lose but its generation number.
    pub fn is_idle(&self) -> bool {
        matches!(self.state, GroupState::Empty | GroupState::Dead) && self.pending.is_empty()
    }

    /// How many calls are parked.
    pub fn parked_calls(&self) -> usize {
        self.parked.len()
    }

    /// When [`handle_timeout`](Self::handle_timeout) has something to do.
    pub fn next_deadline(&self) -> Option<Monotonic> {
        self.timers.next_deadline()
    }

    /// The next thing the caller has to do. Poll it to `None` after every `handle_*`.
    pub fn poll_effect(&mut self) -> Option<Effect> {
        self.effects.pop_front()
    }

    pub(super) fn next_seat(&mut self) -> Seat {
        self.next_seat += 1;
        Seat(self.next_seat)
    }

    pub(super) fn note(&mut self, note: Note) {
        self.effects.push_back(Effect::Note(note));
    }

    /// Who `member_id` and `instance_id` are, or why they are nobody.
    pub(super) fn validate_member(
        &self,
        member_id: &MemberId,
        instance_id: Option<&InstanceId>,
    ) -> Result<Seat, GroupError> {
        let seat = self.roster.seat_of(member_id);
        if let Some(instance_id) = instance_id {
            match self.roster.seat_of_instance(instance_id) {
                None => return Err(GroupError::UnknownMemberId),
                of_instance if of_instance != seat => return Err(GroupError::FencedInstanceId),
                Some(_) => {}
            }
        }
        seat.ok_or(GroupError::UnknownMemberId)
    }

    pub(super) fn restart_session(&mut self, now: Monotonic, seat: Seat) {
        if self.stopping {
            return;
        }
        if let Some(member) = self.roster.get(seat) {
            let deadline = now + member.session_timeout;
            self.timers.set(Timer::Session(seat), deadline);
        }
    }

    pub(super) fn refuse_join(&mut self, token: CallToken, error: GroupError, member_id: MemberId) {
        let refusal = JoinRefusal { error, member_id };
        self.effects.push_back(Effect::Join(token, Err(refusal)));
    }

    pub(super) fn refuse_sync(&mut self, token: CallToken, error: GroupError) {
        self.effects.push_back(Effect::Sync(token, Err(error)));
    }

    pub(super) fn park_join(&mut self, seat: Seat, token: CallToken) {
        self.parked.insert(token, seat);
        if let Some(displaced) = self.roster.park_join(seat, token) {
            self.parked.remove(&displaced);
            let id = self.id_of(seat);
            self.refuse_join(displaced, GroupError::RebalanceInProgress, id);
        }
    }

    pub(super) fn park_sync(&mut self, seat: Seat, token: CallToken) {
        let Some(member) = self.roster.get_mut(seat) else {
            return;
        };
        self.parked.insert(token, seat);
        if let Some(displaced) = member.sync.replace(token) {
            self.parked.remove(&displaced);
            self.refuse_sync(displaced, GroupError::RebalanceInProgress);
        }
    }

    pub(super) fn take_join(&mut self, seat: Seat) -> Option<CallToken> {
        let token = self.roster.take_join(seat)?;
        self.parked.remove(&token);
        Some(token)
    }

    pub(super) fn take_sync(&mut self, seat: Seat) -> Option<CallToken> {
        let token = self.roster.get_mut(seat)?.sync.take()?;
        self.parked.remove(&token);
        Some(token)
    }

    pub(super) fn id_of(&self, seat: Seat) -> MemberId {
        self.roster
            .get(seat)
            .map_or_else(MemberId::unknown, |member| member.id.clone())
    }

    /// The answer that puts the member of `seat` into the current generation.
    pub(super) fn joined(&self, seat: Seat) -> Joined {
        let leads = self.roster.leader() == Some(seat);
        Joined {
            member_id: self.id_of(seat),
            generation_id: self.generation_id,
            protocol_type: self.protocol_type.clone(),
            protocol_name: self.protocol_name.clone(),
            leader: self.roster.leader_id(),
            skip_assignment: false,
            members: if leads {
                let name = self.protocol_name.as_deref().unwrap_or_default();
                let entry = |(_, member): (Seat, &Member)| member.roster_entry(name);
                self.roster.iter().map(entry).collect()
            } else {
                Vec::new()
            },
        }
    }

    pub(super) fn synced(&self, assignment: Bytes) -> Synced {
        Synced {
            protocol_type: self.protocol_type.clone(),
            protocol_name: self.protocol_name.clone(),
            assignment,
        }
    }

    /// Takes the member out and answers what it waits for with UNKNOWN_MEMBER_ID, so that a client
    /// that is still there begins again. Follow with [`after_removal`](Self::after_removal).
    pub(super) fn remove_member(&mut self, seat: Seat, cause: Cause) {
        if let Some(token) = self.take_join(seat) {
            self.refuse_join(token, GroupError::UnknownMemberId, MemberId::unknown());
        }
        if let Some(token) = self.take_sync(seat) {
            self.refuse_sync(token, GroupError::UnknownMemberId);
        }
        self.timers.cancel(Timer::Session(seat));
        self.unsynced.remove(&seat);
        if let Some(member) = self.roster.remove(seat) {
            let member_id = member.id;
            self.note(Note::MemberRemoved { member_id, cause });
        }
    }

    pub(super) fn remove_pending(&mut self, seat: Seat) {
        self.timers.cancel(Timer::Session(seat));
        self.pending.remove(seat);
    }

    /// What a changed membership means for the generation.
    pub(super) fn after_removal(&mut self, now: Monotonic, cause: Cause) {
        match self.state {
            GroupState::Stable | GroupState::CompletingRebalance => {
                self.prepare_rebalance(now, cause);
            }
            GroupState::PreparingRebalance => self.maybe_complete_join(now),
            GroupState::Empty | GroupState::Dead => {}
        }
    }

    /// Opens the join phase, or carries on with the one that is open.
    pub(super) fn rebalance(&mut self, now: Monotonic, cause: Cause) {
        match self.state {
            GroupState::Stable | GroupState::CompletingRebalance | GroupState::Empty => {
                self.prepare_rebalance(now, cause);
            }
            GroupState::PreparingRebalance => self.maybe_complete_join(now),
            GroupState::Dead => {}
        }
    }

    pub(super) fn prepare_rebalance(&mut self, now: Monotonic, cause: Cause) {
        if self.state == GroupState::CompletingRebalance {
            self.refuse_all_syncs(now, GroupError::RebalanceInProgress);
        }
        self.unsynced.clear();
        self.timers.cancel(Timer::Sync);
        let was_empty = self.state == GroupState::Empty;
        self.state = GroupState::PreparingRebalance;
        self.note(Note::PreparingRebalance {
            generation_id: self.generation_id,
            cause,
        });
        if was_empty {
            let delay = self.settings.initial_rebalance_delay;
            self.initial_join = Some(InitialJoin {
                delay,
                remaining: self.roster.rebalance_timeout().saturating_sub(delay),
                newcomer: false,
            });
            self.timers.set(Timer::Join, now + delay);
        } else {
            self.initial_join = None;
            if self.has_everybody_joined() {
                self.complete_join(now);
            } else {
                let deadline = now + self.roster.rebalance_timeout();
                self.timers.set(Timer::Join, deadline);
            }
        }
    }

    fn has_everybody_joined(&self) -> bool {
        self.roster.joins_parked() == self.roster.len() && self.pending.is_empty()
    }

    /// Closes the join phase early when everybody is there. The first one of an empty group always
    /// waits its delay out.
    pub(super) fn maybe_complete_join(&mut self, now: Monotonic) {
        if self.state == GroupState::PreparingRebalance
            && self.initial_join.is_none()
            && !self.stopping
            && self.has_everybody_joined()
        {
            self.complete_join(now);
        }
    }

    /// Closes the join phase: who has not rejoined is out, unless it is static.
    pub(super) fn complete_join(&mut self, now: Monotonic) {
        self.timers.cancel(Timer::Join);
        self.initial_join = None;
        let missing = |member: &Member| member.join.is_none() && member.instance_id.is_none();
        let stragglers: Vec<Seat> = self
            .roster
            .iter()
            .filter(|(_, member)| missing(member))
            .map(|(seat, _)| seat)
            .collect();
        for seat in stragglers {
            self.remove_member(seat, Cause::DidNotRejoin);
        }
        if !self.roster.elect_joined_leader() && !self.roster.is_empty() {
            // Static members only, none of them back: wait for one, or for their sessions to end.
            self.note(Note::NobodyRejoined);
            let deadline = now + self.roster.rebalance_timeout();
            self.timers.set(Timer::Join, deadline);
            return;
        }
        self.generation_id = self.generation_id.next();
        self.protocol_name = self.roster.select_protocol();
        let generation_id = self.generation_id;
        let Some(protocol_name) = self.protocol_name.clone() else {
            self.state = GroupState::Empty;
            self.note(Note::Emptied { generation_id });
            return;
        };
        self.state = GroupState::CompletingRebalance;
        self.note(Note::GenerationFormed {
            generation_id,
            members: self.roster.len(),
            protocol_name,
        });
        let seats: Vec<Seat> = self.roster.iter().map(|(seat, _)| seat).collect();
        for &seat in &seats {
            if let Some(token) = self.take_join(seat) {
                let joined = self.joined(seat);
                self.effects.push_back(Effect::Join(token, Ok(joined)));
            }
            if let Some(member) = self.roster.get_mut(seat) {
                member.is_new = false;
            }
            self.restart_session(now, seat);
        }
        self.unsynced = seats.into_iter().collect();
        let deadline = now + self.roster.rebalance_timeout();
        self.timers.set(Timer::Sync, deadline);
    }

    /// Ends the wait for an assignment that will not come.
    pub(super) fn refuse_all_syncs(&mut self, now: Monotonic, error: GroupError) {
        let waiting: Vec<Seat> = self
            .roster
            .iter_mut()
            .map(|(seat, member)| {
                member.assignment = Bytes::new();
                (seat, member.sync.is_some())
            })
            .filter_map(|(seat, waits)| waits.then_some(seat))
            .collect();
        for seat in waiting {
            if let Some(token) = self.take_sync(seat) {
                self.refuse_sync(token, error);
                // Its session was not watched while it waited.
                self.restart_session(now, seat);
            }
        }
    }
}
