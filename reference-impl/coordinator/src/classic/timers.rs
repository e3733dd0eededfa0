//! The deadlines of one group, ordered.

use std::collections::{BTreeMap, BTreeSet};

use host::Monotonic;

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

/// At most one deadline for each timer. Every operation costs O(log timers).
#[derive(Debug, Default)]
pub(super) struct Timers {
    due: BTreeSet<(Monotonic, Timer)>,
    at: BTreeMap<Timer, Monotonic>,
}

impl Timers {
    /// Arms `timer`, in place of the deadline it had.
    pub(super) fn set(&mut self, timer: Timer, at: Monotonic) {
        if let Some(before) = self.at.insert(timer, at) {
            self.due.remove(&(before, timer));
        }
        self.due.insert((at, timer));
    }

    pub(super) fn cancel(&mut self, timer: Timer) {
        if let Some(at) = self.at.remove(&timer) {
            self.due.remove(&(at, timer));
        }
    }

    pub(super) fn clear(&mut self) {
        self.due.clear();
        self.at.clear();
    }

    pub(super) fn next_deadline(&self) -> Option<Monotonic> {
        self.due.first().map(|&(at, _)| at)
    }

    /// Disarms and returns the first timer that is due at `now`.
    pub(super) fn pop_due(&mut self, now: Monotonic) -> Option<Timer> {
        let &(at, timer) = self.due.first()?;
        if at > now {
            return None;
        }
        self.cancel(timer);
        Some(timer)
    }

    #[cfg(test)]
    pub(super) fn is_set(&self, timer: Timer) -> bool {
        self.at.contains_key(&timer)
    }

    #[cfg(test)]
    pub(super) fn len(&self) -> usize {
        self.at.len()
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::{Monotonic, Timer, Timers};

    fn at(ms: u64) -> Monotonic {
        Monotonic::from_origin(Duration::from_millis(ms))
    }

    #[test]
    fn a_timer_set_again_fires_once_at_the_later_time() {
        let mut timers = Timers::default();
        timers.set(Timer::Join, at(10));
        timers.set(Timer::Sync, at(15));
        timers.set(Timer::Join, at(20));
        assert_eq!(timers.next_deadline(), Some(at(15)));
        assert_eq!(timers.pop_due(at(14)), None);
        assert_eq!(timers.pop_due(at(30)), Some(Timer::Sync));
        assert_eq!(timers.pop_due(at(30)), Some(Timer::Join));
        assert_eq!(timers.pop_due(at(30)), None);
        assert_eq!(timers.len(), 0);
    }

    #[test]
    fn a_cancelled_timer_never_fires() {
        let mut timers = Timers::default();
        timers.set(Timer::Join, at(10));
        timers.cancel(Timer::Join);
        timers.cancel(Timer::Sync);
        assert_eq!(timers.next_deadline(), None);
        assert_eq!(timers.pop_due(at(99)), None);
    }
}
