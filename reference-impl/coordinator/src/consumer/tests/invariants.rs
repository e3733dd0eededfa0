//! What holds after every event.

use std::collections::BTreeMap;

use crate::consumer::group::Timer;
use crate::consumer::member::MemberState;
use crate::consumer::{ConsumerGroup, Epoch, GroupState, TopicPartition};

impl ConsumerGroup {
    /// Panics when something that must hold does not.
    pub(super) fn check(&self) {
        let mut owners: BTreeMap<TopicPartition, &str> = BTreeMap::new();
        let mut weight = 0;
        for (id, member) in &self.members {
            for partition in member.assigned.keys().chain(member.revoking.keys()) {
                let other = owners.insert(*partition, id.as_str());
                assert_eq!(other, None, "{partition:?} has one owner");
            }
            weight += Self::weight(id, member);
            if let Some(instance) = &member.instance_id {
                assert_eq!(self.instances.get(instance), Some(id));
            }
            assert!(member.epoch <= self.assignment_epoch, "nobody is ahead");
            assert_eq!(
                member.state == MemberState::UnrevokedPartitions,
                !member.revoking.is_empty()
                    || member.epoch == Epoch::LEAVE_STATIC
                        && member.state == MemberState::UnrevokedPartitions,
                "who gives up is waited for"
            );
            if !self.stopping {
                assert!(
                    self.timers.is_set(&Timer::Session(id.clone())),
                    "{id} is watched"
                );
                let watched = self.timers.is_set(&Timer::Rebalance(id.clone()));
                let must = member.state == MemberState::UnrevokedPartitions
                    && member.classic.is_none()
                    && member.epoch != Epoch::LEAVE_STATIC;
                assert_eq!(watched, must, "{id} must give up in time");
            }
            if let Some(target) = self.targets.get(id)
                && member.is_reconciled_to(self.assignment_epoch)
            {
                assert!(member.assigned.keys().eq(target), "{id} has its target");
            }
        }
        let known: BTreeMap<TopicPartition, &str> = self
            .owners
            .iter()
            .map(|(partition, id)| (*partition, id.as_str()))
            .collect();
        assert_eq!(owners, known, "the index is the members'");
        assert_eq!(weight, self.metadata_bytes);
        assert_eq!(
            self.instances.len(),
            self.members
                .values()
                .filter(|m| m.instance_id.is_some())
                .count()
        );
        assert!(self.targets.keys().all(|id| self.members.contains_key(id)));
        assert!(self.assignment_epoch <= self.group_epoch);
        let mut again = Self {
            touched: true,
            ..Self::new(self.settings, self.classic)
        };
        again.members = self.members.clone();
        again.group_epoch = self.group_epoch;
        again.assignment_epoch = self.assignment_epoch;
        again.refresh_state();
        assert_eq!(self.state, again.state);
        assert_eq!(self.members.is_empty(), self.state == GroupState::Empty);
    }
}
