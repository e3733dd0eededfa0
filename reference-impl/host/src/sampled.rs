//! One log line per window for what a peer can cause at will, with the number that was left out.

use std::collections::BTreeMap;
use std::sync::{Mutex, PoisonError};
use std::time::Duration;

use crate::clock::Monotonic;

/// The usual window.
pub const WINDOW: Duration = Duration::from_secs(10);

/// Decides which lines are written.
#[derive(Debug)]
pub struct Sampler {
    window: Duration,
    state: Mutex<State>,
}

#[derive(Debug, Default)]
struct State {
    opens: Option<Monotonic>,
    suppressed: u64,
}

impl Sampler {
    /// At most one line per `window`.
    pub const fn new(window: Duration) -> Self {
        Self {
            window,
            state: Mutex::new(State {
                opens: None,
                suppressed: 0,
            }),
        }
    }

    /// `Some` when a line may be written now: the number of lines left out since the last one.
    pub fn pass(&self, now: Monotonic) -> Option<u64> {
        let mut state = self.state.lock().unwrap_or_else(PoisonError::into_inner);
        if state.opens.is_some_and(|opens| now < opens) {
            state.suppressed += 1;
            return None;
        }
        state.opens = Some(now + self.window);
        Some(std::mem::take(&mut state.suppressed))
    }
}

/// One [`Sampler`] for each kind of line, so that a peer that causes many of one kind hides none of
/// another.
#[derive(Debug, Default)]
pub struct Samplers<K> {
    kinds: Mutex<BTreeMap<K, Sampler>>,
    others: Sampler,
}

impl<K: Ord> Samplers<K> {
    /// Kinds that have a sampler of their own; the rest share one.
    pub const MAX_KINDS: usize = 256;

    /// As [`Sampler::pass`], for lines of one kind.
    pub fn pass(&self, kind: K, now: Monotonic) -> Option<u64> {
        let mut kinds = self.kinds.lock().unwrap_or_else(PoisonError::into_inner);
        if kinds.len() >= Self::MAX_KINDS && !kinds.contains_key(&kind) {
            return self.others.pass(now);
        }
        kinds.entry(kind).or_default().pass(now)
    }
}

impl Default for Sampler {
    fn default() -> Self {
        Self::new(WINDOW)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn kinds_do_not_hide_each_other_and_are_bounded() {
        let samplers = Samplers::default();
        let now = Monotonic::default();
        for kind in 0..Samplers::<usize>::MAX_KINDS {
            assert_eq!(samplers.pass(kind, now), Some(0), "{kind}");
            assert_eq!(samplers.pass(kind, now), None, "{kind}");
        }
        assert_eq!(samplers.pass(1_000, now), Some(0));
        assert_eq!(samplers.pass(1_001, now), None, "the rest shares one");
    }

    #[test]
    fn one_line_per_window_counts_the_others() {
        let sampler = Sampler::default();
        let at = |ms| Monotonic::from_origin(Duration::from_millis(ms));
        assert_eq!(sampler.pass(at(5)), Some(0));
        assert_eq!(sampler.pass(at(6)), None);
        assert_eq!(sampler.pass(at(10_004)), None);
        assert_eq!(sampler.pass(at(10_005)), Some(2));
    }
}
