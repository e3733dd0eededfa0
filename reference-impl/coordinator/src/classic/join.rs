//! JoinGroup.

use std::sync::Arc;

use host::Monotonic;

use super::error::GroupError;
use super::events::{Cause, Effect, JoinRequest, Joined, Note};
use super::group::{ClassicGroup, GroupState};
use super::ids::{CallToken, InstanceId, MemberId, Seat};
use super::member::{Member, clamp_rebalance_timeout, metadata_bytes};
use super::settings::{NEW_MEMBER_JOIN_TIMEOUT, REASON_BYTES};
use super::timers::Timer;

impl ClassicGroup {
    /// A JoinGroup request. Its answer, parked or not, is an [`Effect::Join`] with `token`.
    ///
    /// Refusals: `CoordinatorNotAvailable` (deleted, stopping), `InvalidSessionTimeout`,
    /// `GroupMaxSizeReached`, `InconsistentGroupProtocol`, `MemberIdRequired`, `UnknownMemberId`,
    /// `FencedInstanceId`; while parked also `RebalanceInProgress` (the member joined again, or the
    /// coordinator stops).
    pub fn handle_join(&mut self, now: Monotonic, mut request: JoinRequest, token: CallToken) {
        request.rebalance_timeout =
            clamp_rebalance_timeout(&self.settings, request.rebalance_timeout);
        if let Some(reason) = &mut request.reason {
            truncate(reason, REASON_BYTES);
        }
        let settings = &self.settings;
        let session = settings.min_session_timeout..=settings.max_session_timeout;
        if self.stopping || self.state == GroupState::Dead {
            let id = request.member_id;
            self.refuse_join(token, GroupError::CoordinatorNotAvailable, id);
        } else if !session.contains(&request.session_timeout) {
            let id = request.member_id;
            self.refuse_join(token, GroupError::InvalidSessionTimeout, id);
        } else if !self.has_room_for(&request) {
            if let Some(seat) = self.roster.seat_of(&request.member_id) {
                let cause = Cause::GroupFull(request.member_id);
                self.remove_member(seat, cause.clone());
                self.after_removal(now, cause);
            } else if let Some(seat) = self.pending.seat_of(&request.member_id) {
                self.remove_pending(seat);
                self.maybe_complete_join(now);
            }
            self.refuse_join(token, GroupError::GroupMaxSizeReached, MemberId::unknown());
        } else if !self.supports(&request) {
            let id = request.member_id;
            self.refuse_join(token, GroupError::InconsistentGroupProtocol, id);
        } else if request.member_id.is_unknown() {
            self.join_unknown(now, request, token);
        } else if let Some(seat) = self.pending.seat_of(&request.member_id) {
            self.pending.remove(seat);
            let id = request.member_id.clone();
            self.add_member(now, seat, id, true, request, token);
        } else {
            self.join_known(now, request, token);
        }
    }

    /// Kafka counts parked joins while it prepares (the last to rejoin are the ones left out) and
    /// members otherwise.
    fn has_room_for(&self, request: &JoinRequest) -> bool {
        let instance_id = request.instance_id.as_ref();
        // A static member that comes back takes the room it has (Kafka forgets that).
        let seat = self
            .roster
            .seat_of(&request.member_id)
            .or_else(|| instance_id.and_then(|id| self.roster.seat_of_instance(id)));
        let member = seat.and_then(|seat| self.roster.get(seat));
        let room = match self.state {
            GroupState::Empty | GroupState::Dead => true,
            GroupState::PreparingRebalance => {
                member.is_some_and(|member| member.join.is_some())
                    || self.roster.joins_parked() < self.settings.max_size
            }
            GroupState::CompletingRebalance | GroupState::Stable => {
                member.is_some() || self.roster.len() < self.settings.max_size
            }
        };
        let held = self.roster.metadata_bytes() - member.map_or(0, Member::metadata_bytes);
        let asked = metadata_bytes(&request.client_id, &request.protocols);
        room && held.saturating_add(asked) <= self.settings.max_metadata_bytes
    }

    fn supports(&self, request: &JoinRequest) -> bool {
        if self.state == GroupState::Empty {
            !request.protocol_type.is_empty() && !request.protocols.is_empty()
        } else {
            self.protocol_type.as_ref() == Some(&request.protocol_type)
                && self.roster.all_support_one_of(&request.protocols)
        }
    }

    fn join_unknown(&mut self, now: Monotonic, request: JoinRequest, token: CallToken) {
        let instance_id = request.instance_id.clone();
        let prefix = instance_id
            .as_ref()
            .map_or(&*request.client_id, InstanceId::as_str);
        let id = MemberId::mint(prefix, request.random);
        if let Some(instance_id) = instance_id {
            match self.roster.seat_of_instance(&instance_id) {
                Some(seat) => self.replace_static(now, seat, instance_id, id, request, token),
                None => {
                    let seat = self.next_seat();
                    self.add_member(now, seat, id, false, request, token);
                }
            }
        } else if request.require_known_member_id {
            while self.pending.len() >= self.settings.max_size
                && let Some(oldest) = self.pending.oldest()
            {
                self.remove_pending(oldest);
            }
            let seat = self.next_seat();
            self.pending.add(seat, id.clone());
            let deadline = now + request.session_timeout;
            self.timers.set(Timer::Session(seat), deadline);
            self.refuse_join(token, GroupError::MemberIdRequired, id);
        } else {
            let seat = self.next_seat();
            self.add_member(now, seat, id, false, request, token);
        }
    }

    fn join_known(&mut self, now: Monotonic, request: JoinRequest, token: CallToken) {
        let seat = match self.validate_member(&request.member_id, request.instance_id.as_ref()) {
            Ok(seat) => seat,
            Err(error) => return self.refuse_join(token, error, request.member_id),
        };
        let leads = self.roster.leader() == Some(seat);
        let unchanged = self
            .roster
            .get(seat)
            .is_some_and(|member| member.protocols == request.protocols);
        match self.state {
            // The client missed the answer: the generation stands.
            GroupState::CompletingRebalance if unchanged => self.answer_current(seat, token),
            // A leader that joins wants another assignment; a follower only its place.
            GroupState::Stable if unchanged && !leads => self.answer_current(seat, token),
            GroupState::PreparingRebalance
            | GroupState::CompletingRebalance
            | GroupState::Stable => {
                let cause = Cause::Rejoined(request.member_id.clone(), request.reason.clone());
                self.update_member(seat, request, token);
                self.rebalance(now, cause);
            }
            GroupState::Empty | GroupState::Dead => {
                self.refuse_join(token, GroupError::UnknownMemberId, request.member_id);
            }
        }
    }

    fn answer_current(&mut self, seat: Seat, token: CallToken) {
        let joined = self.joined(seat);
        self.effects.push_back(Effect::Join(token, Ok(joined)));
    }

    fn add_member(
        &mut self,
        now: Monotonic,
        seat: Seat,
        id: MemberId,
        id_is_known: bool,
        request: JoinRequest,
        token: CallToken,
    ) {
        if let Some(initial) = &mut self.initial_join {
            initial.newcomer = true;
        }
        if self.roster.is_empty() {
            self.protocol_type = Some(Arc::clone(&request.protocol_type));
        }
        let member = Member::new(id.clone(), id_is_known, &request);
        self.roster.add(seat, member);
        self.park_join(seat, token);
        self.timers
            .set(Timer::Session(seat), now + NEW_MEMBER_JOIN_TIMEOUT);
        self.rebalance(now, Cause::NewMember(id, request.reason));
    }

    fn update_member(&mut self, seat: Seat, request: JoinRequest, token: CallToken) {
        self.roster.update(
            seat,
            request.protocols,
            request.session_timeout,
            request.rebalance_timeout,
        );
        self.park_join(seat, token);
    }

    /// A static member came back without its id: another process, or the same one restarted. The
    /// old id is fenced; the place, the lead and the assignment stay.
    fn replace_static(
        &mut self,
        now: Monotonic,
        seat: Seat,
        instance_id: InstanceId,
        id: MemberId,
        request: JoinRequest,
        token: CallToken,
    ) {
        let old_leader = self.roster.leader_id();
        if let Some(parked) = self.take_join(seat) {
            let old = self.id_of(seat);
            self.refuse_join(parked, GroupError::FencedInstanceId, old);
        }
        if let Some(parked) = self.take_sync(seat) {
            self.refuse_sync(parked, GroupError::FencedInstanceId);
        }
        let (client_id, client_host) = (request.client_id.clone(), request.client_host.clone());
        let handed_over = self
            .roster
            .hand_over(seat, id.clone(), client_id, client_host);
        if let Some(old) = handed_over {
            let new = id.clone();
            self.note(Note::StaticMemberReplaced {
                instance_id,
                old,
                new,
            });
        }
        let supports_skip_assignment = request.supports_skip_assignment;
        let cause = Cause::StaticMemberReturned(id, request.reason.clone());
        self.update_member(seat, request, token);
        self.restart_session(now, seat);
        match self.state {
            GroupState::Stable if self.roster.select_protocol() == self.protocol_name => {
                let Some(token) = self.take_join(seat) else {
                    return;
                };
                let joined = self.rejoined_static(seat, old_leader, supports_skip_assignment);
                self.effects.push_back(Effect::Join(token, Ok(joined)));
            }
            // While completing, the leader may already hold the old id: its assignment would miss
            // the new one, so the group begins again.
            GroupState::Stable | GroupState::CompletingRebalance => {
                self.prepare_rebalance(now, cause);
            }
            GroupState::PreparingRebalance => self.maybe_complete_join(now),
            GroupState::Empty | GroupState::Dead => {}
        }
    }

    /// Below v9 a returning leader is kept from assigning by naming its old id as the leader; from
    /// v9 on it is told to skip the assignment.
    fn rejoined_static(
        &self,
        seat: Seat,
        old_leader: MemberId,
        supports_skip_assignment: bool,
    ) -> Joined {
        let mut joined = self.joined(seat);
        if supports_skip_assignment {
            joined.skip_assignment = self.roster.leader() == Some(seat);
        } else {
            joined.leader = old_leader;
            joined.members = Vec::new();
        }
        joined
    }
}

/// Cuts `text` to at most `bytes` bytes, between characters.
pub(super) fn truncate(text: &mut String, bytes: usize) {
    let mut end = text.len().min(bytes);
    while !text.is_char_boundary(end) {
        end -= 1;
    }
    text.truncate(end);
}
