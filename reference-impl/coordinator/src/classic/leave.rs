//! LeaveGroup, and the other ways out: expiry, a closed connection, a stopping coordinator.

use host::Monotonic;

use super::error::GroupError;
use super::events::{Cause, LeavingMember};
use super::group::{ClassicGroup, GroupState};
use super::ids::{CallToken, Seat};
use super::join::truncate;
use super::settings::REASON_BYTES;
use super::timers::Timer;

impl ClassicGroup {
    /// A LeaveGroup request: one verdict for each member, in order. The group rebalances once,
    /// after all have left.
    ///
    /// The whole request is refused with `CoordinatorNotAvailable` (deleted). A member's verdict is
    /// `UnknownMemberId` or `FencedInstanceId` when it is not `Ok`.
    pub fn handle_leave(
        &mut self,
        now: Monotonic,
        leaving: &[LeavingMember],
    ) -> Result<Vec<Result<(), GroupError>>, GroupError> {
        if self.state == GroupState::Dead {
            return Err(GroupError::CoordinatorNotAvailable);
        }
        let mut last_cause = None;
        let verdicts = leaving
            .iter()
            .map(|member| {
                last_cause = Some(self.leave(member)?);
                Ok(())
            })
            .collect();
        if let Some(cause) = last_cause {
            self.after_removal(now, cause);
        }
        Ok(verdicts)
    }

    fn leave(&mut self, leaving: &LeavingMember) -> Result<Cause, GroupError> {
        let mut reason = leaving.reason.clone();
        if let Some(reason) = &mut reason {
            truncate(reason, REASON_BYTES);
        }
        if let Some(seat) = self.pending.seat_of(&leaving.member_id) {
            self.remove_pending(seat);
            return Ok(Cause::Left(leaving.member_id.clone(), reason));
        }
        let instance_id = leaving.instance_id.as_ref();
        let seat = if leaving.member_id.is_unknown() {
            // An administrator removes whoever holds the instance.
            instance_id
                .and_then(|instance_id| self.roster.seat_of_instance(instance_id))
                .ok_or(GroupError::UnknownMemberId)?
        } else {
            self.validate_member(&leaving.member_id, instance_id)?
        };
        let cause = Cause::Left(self.id_of(seat), reason);
        self.remove_member(seat, cause.clone());
        Ok(cause)
    }

    /// The connection that waited for `token` is gone; nobody reads its answer.
    ///
    /// Kafka can't see this and carries such members into the next generation, where they may even
    /// lead. Here the call no longer counts as a rejoin, and a first join whose id nobody ever
    /// learned is undone. A client that comes back with its id finds its place.
    pub fn handle_abandoned(&mut self, now: Monotonic, token: CallToken) {
        let Some(seat) = self.parked.remove(&token) else {
            return;
        };
        let Some(member) = self.roster.get_mut(seat) else {
            return;
        };
        if member.sync == Some(token) {
            member.sync = None;
            return self.restart_session(now, seat);
        }
        let unheard = member.is_new && !member.id_is_known;
        member.is_new = false;
        self.roster.take_join(seat);
        if unheard {
            let cause = Cause::ConnectionClosed(self.id_of(seat));
            self.remove_member(seat, cause.clone());
            self.after_removal(now, cause);
        } else {
            self.restart_session(now, seat);
        }
    }

    /// Runs everything that is due at `now`.
    pub fn handle_timeout(&mut self, now: Monotonic) {
        while let Some(timer) = self.timers.pop_due(now) {
            match timer {
                Timer::Join => self.expire_join(now),
                Timer::Sync => self.expire_sync(now),
                Timer::Session(seat) => self.expire_session(now, seat),
            }
        }
    }

    fn expire_join(&mut self, now: Monotonic) {
        if self.state != GroupState::PreparingRebalance {
            return;
        }
        if let Some(initial) = &mut self.initial_join
            && initial.newcomer
            && !initial.remaining.is_zero()
        {
            let delay = self.settings.initial_rebalance_delay.min(initial.remaining);
            initial.remaining = initial.remaining.saturating_sub(initial.delay);
            initial.delay = delay;
            initial.newcomer = false;
            return self.timers.set(Timer::Join, now + delay);
        }
        self.complete_join(now);
    }

    /// Who has not synced is out: a leader that never assigns must not hold the group.
    fn expire_sync(&mut self, now: Monotonic) {
        let late: Vec<Seat> = self.unsynced.iter().copied().collect();
        if late.is_empty() {
            return;
        }
        let cause = Cause::DidNotSync(late.len());
        for seat in late {
            self.remove_member(seat, cause.clone());
        }
        self.after_removal(now, cause);
    }

    fn expire_session(&mut self, now: Monotonic, seat: Seat) {
        if self.pending.remove(seat).is_some() {
            return self.maybe_complete_join(now);
        }
        let Some(member) = self.roster.get(seat) else {
            return;
        };
        if !member.satisfies_heartbeat() {
            let cause = Cause::SessionExpired(member.id.clone());
            self.remove_member(seat, cause.clone());
            self.after_removal(now, cause);
        }
    }

    /// This coordinator stops: everything parked is answered `RebalanceInProgress`, which makes
    /// members rejoin wherever the group lives next; until then heartbeats are answered the same,
    /// commits are accepted, joins are refused `CoordinatorNotAvailable`. No timer runs any more.
    pub fn handle_stop(&mut self, now: Monotonic) {
        if self.stopping || self.state == GroupState::Dead {
            return;
        }
        self.stopping = true;
        let joining: Vec<Seat> = self
            .roster
            .iter()
            .filter(|(_, member)| member.join.is_some())
            .map(|(seat, _)| seat)
            .collect();
        for seat in joining {
            if let Some(token) = self.take_join(seat) {
                let id = self.id_of(seat);
                self.refuse_join(token, GroupError::RebalanceInProgress, id);
            }
        }
        if matches!(
            self.state,
            GroupState::Stable | GroupState::CompletingRebalance
        ) {
            self.refuse_all_syncs(now, GroupError::RebalanceInProgress);
            self.state = GroupState::PreparingRebalance;
            self.note(super::events::Note::PreparingRebalance {
                generation_id: self.generation_id,
                cause: Cause::Stopping,
            });
        }
        self.timers.clear();
    }
}
