//! How fast calls may follow each other, so that Queen's limit of calls is not what limits commits:
//! a refused call is wasted, a call that waits a little carries more.

use std::sync::{Mutex, PoisonError};
use std::time::Duration;

use host::{Clock, Monotonic};

/// Lets `burst` calls through at once, then one per `interval`.
#[derive(Debug)]
pub(super) struct Pace {
    interval: Duration,
    burst: u32,
    /// When the calls let through so far would all have been due, one per interval.
    due: Mutex<Monotonic>,
}

impl Pace {
    pub(super) const fn new(interval: Duration, burst: u32) -> Self {
        Self {
            interval,
            burst,
            due: Mutex::new(Monotonic::from_origin(Duration::ZERO)),
        }
    }

    /// Ends when the next call may go.
    pub(super) async fn turn(&self, clock: &dyn Clock) {
        let wait = self.book(clock.monotonic());
        if !wait.is_zero() {
            tokio::time::sleep(wait).await;
        }
    }

    /// Takes the next place and says how far off it is.
    fn book(&self, now: Monotonic) -> Duration {
        let mut due = self.due.lock().unwrap_or_else(PoisonError::into_inner);
        let place = (*due).max(now);
        *due = place + self.interval;
        let ahead = place.saturating_since(now);
        ahead.saturating_sub(self.interval * self.burst.saturating_sub(1))
    }

    /// No call for `time` from now: Queen asked for it.
    pub(super) fn pause(&self, clock: &dyn Clock, time: Duration) {
        let mut due = self.due.lock().unwrap_or_else(PoisonError::into_inner);
        let resume = clock.monotonic() + time + self.interval * self.burst.saturating_sub(1);
        *due = (*due).max(resume);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const MS: Duration = Duration::from_millis(1);

    #[test]
    fn a_burst_goes_at_once_and_the_rest_one_per_interval() {
        let pace = Pace::new(10 * MS, 3);
        let now = Monotonic::from_origin(Duration::from_secs(5));
        let waits: Vec<Duration> = (0..5).map(|_| pace.book(now)).collect();
        assert_eq!(
            waits,
            [
                Duration::ZERO,
                Duration::ZERO,
                Duration::ZERO,
                10 * MS,
                20 * MS
            ]
        );
        // After a rest the burst is whole again.
        let later = now + Duration::from_secs(1);
        let waits: Vec<Duration> = (0..4).map(|_| pace.book(later)).collect();
        assert_eq!(
            waits,
            [Duration::ZERO, Duration::ZERO, Duration::ZERO, 10 * MS]
        );
    }

    #[test]
    fn over_a_long_time_the_rate_is_kept() {
        let pace = Pace::new(10 * MS, 20);
        let mut now = Monotonic::from_origin(Duration::from_secs(1));
        let start = now;
        for _ in 0..1020 {
            now = now + pace.book(now);
        }
        assert_eq!(now.saturating_since(start), 10_000 * MS);
    }
}
