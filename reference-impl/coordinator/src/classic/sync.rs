//! SyncGroup and Heartbeat.

use std::sync::Arc;

use bytes::Bytes;
use host::Monotonic;

use super::error::GroupError;
use super::events::{Cause, Effect, MemberRef, Note, SyncRequest};
use super::group::{ClassicGroup, GroupState};
use super::ids::{CallToken, MemberId, Seat};
use super::timers::Timer;

impl ClassicGroup {
    /// A SyncGroup request. Its answer, parked or not, is an [`Effect::Sync`] with `token`.
    ///
    /// Refusals: `CoordinatorNotAvailable` (deleted), `UnknownMemberId`, `FencedInstanceId`,
    /// `IllegalGeneration`, `InconsistentGroupProtocol`, `RebalanceInProgress`; from the leader's
    /// sync also `AssignmentTooLarge`.
    pub fn handle_sync(&mut self, now: Monotonic, request: SyncRequest, token: CallToken) {
        let seat = match self.validate_sync(&request) {
            Ok(seat) => seat,
            Err(error) => return self.refuse_sync(token, error),
        };
        match self.state {
            GroupState::Empty | GroupState::Dead => {
                self.refuse_sync(token, GroupError::UnknownMemberId);
            }
            GroupState::PreparingRebalance => {
                self.refuse_sync(token, GroupError::RebalanceInProgress);
            }
            GroupState::CompletingRebalance => {
                self.park_sync(seat, token);
                self.mark_synced(seat);
                if self.roster.leader() == Some(seat) {
                    self.assign(now, request.assignments);
                }
            }
            GroupState::Stable => {
                self.mark_synced(seat);
                let assignment = self
                    .roster
                    .get(seat)
                    .map_or_else(Bytes::new, |member| member.assignment.clone());
                let synced = self.synced(assignment);
                self.effects.push_back(Effect::Sync(token, Ok(synced)));
                self.restart_session(now, seat);
            }
        }
    }

    fn validate_sync(&self, request: &SyncRequest) -> Result<Seat, GroupError> {
        let differs = |asked: &Option<Arc<str>>, ours: &Option<Arc<str>>| {
            asked.is_some() && ours.is_some() && asked != ours
        };
        let seat = self.validate_current(&request.member)?;
        if differs(&request.protocol_type, &self.protocol_type)
            || differs(&request.protocol_name, &self.protocol_name)
        {
            return Err(GroupError::InconsistentGroupProtocol);
        }
        Ok(seat)
    }

    /// The seat of a member of the current generation.
    pub(super) fn validate_current(&self, member: &MemberRef) -> Result<Seat, GroupError> {
        if self.state == GroupState::Dead {
            return Err(GroupError::CoordinatorNotAvailable);
        }
        let seat = self.validate_member(&member.member_id, member.instance_id.as_ref())?;
        if member.generation_id == self.generation_id {
            Ok(seat)
        } else {
            Err(GroupError::IllegalGeneration)
        }
    }

    fn mark_synced(&mut self, seat: Seat) {
        self.unsynced.remove(&seat);
        if self.unsynced.is_empty() {
            self.timers.cancel(Timer::Sync);
        }
    }

    /// The leader decided. Members it left out get an empty assignment; members it invented none.
    fn assign(&mut self, now: Monotonic, assignments: Vec<(MemberId, Bytes)>) {
        let bytes: usize = assignments
            .iter()
            .filter(|(id, _)| self.roster.seat_of(id).is_some())
            .map(|(_, assignment)| assignment.len())
            .sum();
        if bytes > self.settings.max_assignment_bytes {
            // As Kafka does when the generation does not fit its log.
            self.refuse_all_syncs(now, GroupError::AssignmentTooLarge);
            return self.prepare_rebalance(now, Cause::AssignmentTooLarge);
        }
        self.assignment_bytes = bytes;
        for (_, member) in self.roster.iter_mut() {
            member.assignment = Bytes::new();
        }
        for (id, assignment) in assignments {
            if let Some(seat) = self.roster.seat_of(&id)
                && let Some(member) = self.roster.get_mut(seat)
            {
                // A slice would keep the leader's whole frame alive.
                member.assignment = Bytes::copy_from_slice(&assignment);
            }
        }
        self.state = GroupState::Stable;
        self.note(Note::Stabilized {
            generation_id: self.generation_id,
        });
        let waiting: Vec<(Seat, Bytes)> = self
            .roster
            .iter()
            .filter(|(_, member)| member.sync.is_some())
            .map(|(seat, member)| (seat, member.assignment.clone()))
            .collect();
        for (seat, assignment) in waiting {
            if let Some(token) = self.take_sync(seat) {
                let synced = self.synced(assignment);
                self.effects.push_back(Effect::Sync(token, Ok(synced)));
                self.restart_session(now, seat);
            }
        }
    }

    /// A Heartbeat request: `Ok` means carry on, `RebalanceInProgress` means rejoin.
    ///
    /// Other refusals: `CoordinatorNotAvailable` (deleted), `UnknownMemberId`, `FencedInstanceId`,
    /// `IllegalGeneration`.
    pub fn handle_heartbeat(
        &mut self,
        now: Monotonic,
        member: &MemberRef,
    ) -> Result<(), GroupError> {
        let seat = self.validate_current(member)?;
        match self.state {
            GroupState::Empty | GroupState::Dead => Err(GroupError::UnknownMemberId),
            GroupState::PreparingRebalance => {
                self.restart_session(now, seat);
                Err(GroupError::RebalanceInProgress)
            }
            // Consumers begin to send heartbeats right after their join.
            GroupState::CompletingRebalance | GroupState::Stable => {
                self.restart_session(now, seat);
                Ok(())
            }
        }
    }
}
