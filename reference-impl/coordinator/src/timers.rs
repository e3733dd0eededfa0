//! The deadlines of one state machine, ordered.

use std::collections::{BTreeMap, BTreeSet};

use host::Monotonic;

/// At most one deadline for each timer. Every operation costs O(log timers).
#[derive(Debug)]
pub(crate) struct Timers<T> {
    due: BTreeSet<(Monotonic, T)>,
    at: BTreeMap<T, Monotonic>,
}

impl<T> Default for Timers<T> {
    fn default() -> Self {
        Self {
            due: BTreeSet::new(),
            at: BTreeMap::new(),
        }
    }
}

impl<T: Ord + Clone> Timers<T> {
    /// Arms `timer`, in place of the deadline it had.
    pub(crate) fn set(&mut self, timer: T, at: Monotonic) {
        if let Some(before) = self.at.insert(timer.clone(), at) {
            self.due.remove(&(before, timer.clone()));
        }
        self.due.insert((at, timer));
    }

    pub(crate) fn cancel(&mut self, timer: T) {
        if let Some(at) = self.at.remove(&timer) {
            self.due.remove(&(at, timer));
        }
    }

    pub(crate) fn clear(&mut self) {
        self.due.clear();
        self.at.clear();
    }

    pub(crate) fn is_set(&self, timer: &T) -> bool {
        self.at.contains_key(timer)
    }

    pub(crate) fn next_deadline(&self) -> Option<Monotonic> {
        self.due.first().map(|(at, _)| *at)
    }

    /// Disarms and returns the first timer that is due at `now`.
    pub(crate) fn pop_due(&mut self, now: Monotonic) -> Option<T> {
        let (at, _) = self.due.first()?;
        if *at > now {
            return None;
        }
        let (_, timer) = self.due.pop_first()?;
        self.at.remove(&timer);
        Some(timer)
    }

    #[cfg(test)]
    pub(crate) fn len(&self) -> usize {
        self.at.len()
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::{Monotonic, Timers};

    fn at(ms: u64) -> Monotonic {
        Monotonic::from_origin(Duration::from_millis(ms))
    }

    #[test]
    fn a_timer_set_again_fires_once_at_the_later_time() {
        let mut timers = Timers::default();
        timers.set("join", at(10));
        timers.set("sync", at(15));
        timers.set("join", at(20));
        assert_eq!(timers.next_deadline(), Some(at(15)));
        assert_eq!(timers.pop_due(at(14)), None);
        assert_eq!(timers.pop_due(at(30)), Some("sync"));
        assert_eq!(timers.pop_due(at(30)), Some("join"));
        assert_eq!(timers.pop_due(at(30)), None);
        assert_eq!(timers.len(), 0);
    }

    #[test]
    fn a_cancelled_timer_never_fires() {
        let mut timers = Timers::default();
        timers.set("join", at(10));
        timers.cancel("join");
        timers.cancel("sync");
        assert!(!timers.is_set(&"join"));
        assert_eq!(timers.next_deadline(), None);
        assert_eq!(timers.pop_due(at(99)), None);
    }
}
