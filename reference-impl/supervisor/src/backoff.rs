//! How long to wait before the next start. Pure.

use std::time::Duration;

/// The first wait.
pub const FIRST: Duration = Duration::from_secs(1);
/// The longest.
pub const LONGEST: Duration = Duration::from_secs(30);
/// Who ran for so long was healthy, and the next wait is the first again.
pub const HEALTHY: Duration = Duration::from_secs(3600);

/// Waits that double.
#[derive(Clone, Copy, Debug)]
pub struct Backoff(Duration);

impl Default for Backoff {
    fn default() -> Self {
        Self(FIRST)
    }
}

impl Backoff {
    /// The wait after a child that ran for `ran`.
    pub fn after(&mut self, ran: Duration) -> Duration {
        if ran >= HEALTHY {
            self.0 = FIRST;
        }
        let wait = self.0;
        self.0 = (wait * 2).min(LONGEST);
        wait
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn waits_double_to_half_a_minute_and_begin_again_behind_a_healthy_hour() {
        let mut backoff = Backoff::default();
        let waits: Vec<u64> = (0..7)
            .map(|_| backoff.after(Duration::from_secs(59)).as_secs())
            .collect();
        assert_eq!(waits, [1, 2, 4, 8, 16, 30, 30]);
        assert_eq!(backoff.after(HEALTHY - Duration::from_millis(1)), LONGEST);
        assert_eq!(backoff.after(HEALTHY), FIRST);
        assert_eq!(backoff.after(Duration::ZERO), FIRST * 2);
    }
}
