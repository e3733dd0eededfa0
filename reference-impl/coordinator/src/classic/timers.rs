//! What falls due in a classic group.

use super::ids::Seat;

/// What falls due.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Timer {
    /// The join phase closes.
    Join,
    /// Members that have not synced are evicted.
    Sync,
    /// The member of this seat, pending or admitted, was silent for too long.
    Session(Seat),
}

pub(super) type Timers = crate::timers::Timers<Timer>;
