//! One log line per window for what a peer can cause at will, with the number that was left out.

use std::sync::{Mutex, PoisonError};
use std::time::Duration;

use crate::clock::Monotonic;

/// The window of the seed's log lines.
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

impl Default for Sampler {
    fn default() -> Self {
        Self::new(WINDOW)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

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
