//! Waits that grow with every failure, and the jitter on them. No clock: it says how long.

use std::time::Duration;

use host::Entropy;

/// How waits grow.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct BackoffRule {
    /// Before the second try.
    pub initial: Duration,
    /// Never more than this, before jitter.
    pub max: Duration,
    /// Of a wait: so much less and so much more, as drawn.
    pub jitter_percent: (u32, u32),
}

impl BackoffRule {
    /// Always the same wait.
    pub const fn fixed(wait: Duration) -> Self {
        Self {
            initial: wait,
            max: wait,
            jitter_percent: (0, 0),
        }
    }

    /// The wait after `failures` failures in a row: doubled by each after the first.
    pub fn after(&self, failures: u32, entropy: &dyn Entropy) -> Duration {
        let doublings = failures.saturating_sub(1).min(31);
        let wait = self.initial.saturating_mul(1 << doublings).min(self.max);
        let (less, more) = self.jitter_percent;
        if less == 0 && more == 0 {
            return wait;
        }
        let percent = 100 - u64::from(less.min(100));
        let drawn = entropy.next_u64() % u64::from(less + more + 1);
        let micros = u64::try_from(wait.as_micros()).unwrap_or(u64::MAX);
        Duration::from_micros(micros.saturating_mul(percent + drawn) / 100)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[derive(Debug)]
    struct Always(u64);

    impl Entropy for Always {
        fn fill(&self, bytes: &mut [u8]) {
            for chunk in bytes.chunks_mut(8) {
                chunk.copy_from_slice(&self.0.to_le_bytes()[..chunk.len()]);
            }
        }
    }

    const RULE: BackoffRule = BackoffRule {
        initial: Duration::from_millis(100),
        max: Duration::from_millis(1_000),
        jitter_percent: (20, 20),
    };

    #[test]
    fn waits_double_up_to_their_bound() {
        let fixed = BackoffRule {
            jitter_percent: (0, 0),
            ..RULE
        };
        let waits = [0, 1, 2, 3, 4, 5, 60].map(|failures| {
            let wait = fixed.after(failures, &Always(0));
            wait.as_millis()
        });
        assert_eq!(waits, [100, 100, 200, 400, 800, 1_000, 1_000]);
    }

    #[test]
    fn jitter_stays_within_its_percentages() {
        assert_eq!(RULE.after(1, &Always(0)), Duration::from_millis(80));
        assert_eq!(RULE.after(1, &Always(40)), Duration::from_millis(120));
        assert_eq!(RULE.after(1, &Always(41)), Duration::from_millis(80));
    }
}
