//! One step of a member towards its target (KIP-848; Kafka's `CurrentAssignmentBuilder`).
//!
//! Pure: what a member may own next follows from what it has, what it should have, what it says it
//! owns and what is free. A partition is never given to a member while another may own it.

use super::ids::{Epoch, Partitions, TopicPartition};
use super::member::{Member, MemberState, Owned};

/// What the step is about.
pub(super) struct Step<'a, Subscribed, Free> {
    /// Where the member should arrive.
    pub(super) target: &'a Partitions,
    /// The epoch of `target`.
    pub(super) target_epoch: Epoch,
    /// What the member says it owns; `None` when it did not say.
    pub(super) owned: Option<&'a Partitions>,
    /// The member changed its subscription in this very call.
    pub(super) subscription_changed: bool,
    /// Whether the member subscribes to the topic of a partition.
    pub(super) is_subscribed: Subscribed,
    /// Whether no member owns a partition.
    pub(super) is_free: Free,
}

impl<Subscribed, Free> Step<'_, Subscribed, Free>
where
    Subscribed: Fn(&TopicPartition) -> bool,
    Free: Fn(&TopicPartition) -> bool,
{
    /// Moves `member` on; false when it stays exactly where it is.
    pub(super) fn advance(&self, member: &mut Member) -> bool {
        match member.state {
            MemberState::Stable if member.epoch == self.target_epoch => false,
            MemberState::UnrevokedPartitions if self.owns_any(&member.revoking) => {
                self.subscription_changed && self.drop_unsubscribed(member)
            }
            MemberState::Stable
            | MemberState::UnrevokedPartitions
            | MemberState::UnreleasedPartitions => self.next(member),
        }
    }

    /// A member that does not say what it owns may own everything it was given.
    fn owns_any(&self, partitions: &Owned) -> bool {
        match self.owned {
            None => true,
            Some(owned) => owned.iter().any(|owned| partitions.contains_key(owned)),
        }
    }

    /// While the member gives up partitions it may subscribe to less: those it gives up too.
    fn drop_unsubscribed(&self, member: &mut Member) -> bool {
        let dropped: Vec<TopicPartition> = member
            .assigned
            .keys()
            .filter(|partition| !(self.is_subscribed)(partition))
            .copied()
            .collect();
        for partition in &dropped {
            if let Some(epoch) = member.assigned.remove(partition) {
                member.revoking.insert(*partition, epoch);
            }
        }
        if !dropped.is_empty() {
            // The epoch stays; that the answer is new makes a lost one recognisable.
            member.move_to(member.epoch);
        }
        !dropped.is_empty()
    }

    fn next(&self, member: &mut Member) -> bool {
        let (kept, given_up): (Owned, Owned) = member
            .assigned
            .iter()
            .partition(|(partition, _)| self.target.contains(partition));
        if !given_up.is_empty() && self.owns_any(&given_up) {
            member.state = MemberState::UnrevokedPartitions;
            member.move_to(member.epoch);
            member.assigned = kept;
            member.revoking = given_up;
            return true;
        }
        let mut assigned = kept;
        let mut waits = false;
        for partition in self.target {
            if assigned.contains_key(partition) {
                continue;
            }
            // What it has just given up is its own to take back.
            let own = member.revoking.contains_key(partition) || given_up.contains_key(partition);
            if own || (self.is_free)(partition) {
                assigned.insert(*partition, self.target_epoch);
            } else {
                waits = true;
            }
        }
        let state = if waits {
            MemberState::UnreleasedPartitions
        } else {
            MemberState::Stable
        };
        let stays = member.state == state
            && member.epoch == self.target_epoch
            && member.assigned == assigned
            && member.revoking.is_empty();
        if stays {
            return false;
        }
        member.state = state;
        member.move_to(self.target_epoch);
        member.assigned = assigned;
        member.revoking.clear();
        true
    }
}
