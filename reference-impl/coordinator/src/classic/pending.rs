//! Clients that were given a member id and have not joined with it yet (KIP-394).

use std::collections::BTreeMap;

use super::ids::{MemberId, Seat};

/// Bounded by the caller through [`Pending::oldest`].
#[derive(Debug, Default)]
pub(super) struct Pending {
    by_seat: BTreeMap<Seat, MemberId>,
    by_id: BTreeMap<MemberId, Seat>,
}

impl Pending {
    pub(super) fn len(&self) -> usize {
        self.by_seat.len()
    }

    pub(super) fn is_empty(&self) -> bool {
        self.by_seat.is_empty()
    }

    pub(super) fn add(&mut self, seat: Seat, id: MemberId) {
        self.by_id.insert(id.clone(), seat);
        self.by_seat.insert(seat, id);
    }

    pub(super) fn seat_of(&self, id: &MemberId) -> Option<Seat> {
        self.by_id.get(id).copied()
    }

    pub(super) fn oldest(&self) -> Option<Seat> {
        self.by_seat.keys().next().copied()
    }

    pub(super) fn remove(&mut self, seat: Seat) -> Option<MemberId> {
        let id = self.by_seat.remove(&seat)?;
        self.by_id.remove(&id);
        Some(id)
    }
}
