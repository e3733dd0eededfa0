//! The memory that the groups of a node hold together for their members.
//!
//! A group has bounds of its own; without a common one, a few dozen groups of the largest members
//! would fill the machine for as long as their sessions last.

use std::sync::{Arc, Mutex, PoisonError};

use host::budget::{Budget, BudgetMetrics, Reservation};
use host::metrics::Gauge;

/// What all groups of a node may hold.
pub const MAX_ALL_GROUPS_BYTES: usize = 128 << 20;
/// What one member may bring: its protocols with their metadata. Kafka bounds it by the request.
pub const MAX_MEMBER_BYTES: usize = 1 << 20;
/// Members up to this size are taken in any case: a crowd of large ones must not keep them out.
const SMALL_MEMBER_BYTES: usize = 2 << 10;

/// The memory of all groups.
#[derive(Debug)]
pub(super) struct Memory {
    budget: Budget,
    held: Gauge,
}

/// What one group holds, or a request that is on its way to it.
#[derive(Debug)]
pub(super) struct Held {
    reservation: Reservation,
    gauge: Gauge,
}

/// Room for a request until its group counts it: it may stay parked for long.
#[derive(Clone, Debug)]
pub(super) struct OnItsWay(Arc<Mutex<Option<Held>>>);

impl OnItsWay {
    pub(super) fn new(held: Held) -> Self {
        Self(Arc::new(Mutex::new(Some(held))))
    }

    /// The group counts it.
    pub(super) fn has_arrived(&self) {
        drop(self.0.lock().unwrap_or_else(PoisonError::into_inner).take());
    }
}

impl Memory {
    pub(super) fn new(held: Gauge) -> Self {
        let counts = BudgetMetrics::default();
        Self {
            budget: Budget::with_always(MAX_ALL_GROUPS_BYTES, SMALL_MEMBER_BYTES, &counts),
            held,
        }
    }

    /// Room for what a group holds.
    pub(super) fn group(&self) -> Held {
        Held {
            reservation: self.budget.reservation(),
            gauge: self.held.clone(),
        }
    }

    /// Room for `bytes` that are on their way to a group; `None` when there is none.
    pub(super) fn admit(&self, bytes: usize) -> Option<Held> {
        let mut held = self.group();
        // More than fits a request is more than fits here.
        let bytes = u32::try_from(bytes).ok()?;
        let admitted = held.reservation.try_grow(bytes);
        admitted.then(|| {
            held.gauge.add(i64::from(bytes));
            held
        })
    }
}

impl Held {
    /// Holds `bytes` from now on.
    pub(super) fn set(&mut self, bytes: usize) {
        let before = self.reservation.bytes();
        if bytes != before {
            self.reservation.resize(bytes);
            self.gauge.add(gauge(bytes) - gauge(before));
        }
    }
}

impl Drop for Held {
    fn drop(&mut self) {
        self.gauge.add(-gauge(self.reservation.bytes()));
    }
}

fn gauge(bytes: usize) -> i64 {
    i64::try_from(bytes).unwrap_or(i64::MAX)
}
