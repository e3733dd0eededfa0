//! What holds for a group after every event.

use crate::classic::group::{ClassicGroup, GroupState};
use crate::classic::timers::Timer;

impl ClassicGroup {
    /// Panics when an invariant does not hold.
    pub(super) fn check(&self) {
        self.roster.check();
        let members = || self.roster.iter().map(|(_, member)| member);
        let parked = members()
            .flat_map(|member| [member.join, member.sync])
            .flatten()
            .count();
        assert_eq!(parked, self.parked.len(), "each parked call has its member");
        for &seat in &self.unsynced {
            assert!(self.roster.get(seat).is_some(), "the unsynced are members");
        }
        let in_generation = matches!(
            self.state,
            GroupState::CompletingRebalance | GroupState::Stable
        );
        match self.state {
            GroupState::Empty | GroupState::Dead => assert!(self.roster.is_empty()),
            GroupState::PreparingRebalance => {
                assert!(members().all(|member| member.sync.is_none()));
                assert!(self.stopping || self.timers.is_set(&Timer::Join));
            }
            GroupState::CompletingRebalance | GroupState::Stable => {
                assert!(members().all(|member| member.join.is_none()));
                assert!(members().all(|member| !member.is_new));
                assert!(self.protocol_name.is_some());
            }
        }
        if self.state == GroupState::Stable {
            assert!(members().all(|member| member.sync.is_none()));
        }
        if in_generation {
            let name = self.protocol_name.as_deref().unwrap_or_default();
            assert!(members().all(|member| member.protocols.metadata_of(name).is_some()));
            let waits_for_sync = !self.unsynced.is_empty();
            assert_eq!(waits_for_sync, self.timers.is_set(&Timer::Sync));
        }
        for (seat, member) in self.roster.iter() {
            let watched = self.timers.is_set(&Timer::Session(seat));
            assert!(watched || self.stopping || member.satisfies_heartbeat());
        }
        assert!(self.pending.len() <= self.settings.max_size);
        assert!(self.roster.metadata_bytes() <= self.settings.max_metadata_bytes);
        let assigned: usize = members().map(|member| member.assignment.len()).sum();
        assert!(assigned <= self.settings.max_assignment_bytes);
    }
}
