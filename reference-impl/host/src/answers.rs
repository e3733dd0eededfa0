//! Room for answers: taken before they are built, held until they are read.
//!
//! Small, medium and large answers have budgets of their own, so that a crowd which asks for the
//! largest answers and reads none keeps nobody waiting but others of its kind; small ones never
//! wait. Touches the clock only.

use std::time::Duration;

use tokio::time::timeout;

use crate::budget::{Budget, BudgetMetrics, Reservation};

/// Answers up to this size never wait.
pub const SMALL_BYTES: usize = 64 << 10;
/// Answers above this size wait for each other only.
pub const MEDIUM_BYTES: usize = 2 << 20;
/// How long an answer may wait for room.
pub const MAX_WAIT: Duration = Duration::from_secs(10);

/// There was no room in time.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("too many answers are unread")]
pub struct Crowded;

/// The room of one node. Cheap to clone.
#[derive(Clone, Debug)]
pub struct Answers {
    small: Budget,
    medium: Budget,
    large: Budget,
}

impl Answers {
    /// Room for `capacity_bytes`: a sixth is for small answers, a third for medium ones.
    pub fn new(capacity_bytes: usize, metrics: &BudgetMetrics) -> Self {
        let sixth = capacity_bytes / 6;
        Self {
            small: Budget::with_always(sixth, SMALL_BYTES, metrics),
            medium: Budget::new(2 * sixth, metrics),
            large: Budget::new(capacity_bytes - 3 * sixth, metrics),
        }
    }

    /// Room for an answer of about `bytes`, the memory it takes to build it included. What is more
    /// than all there is waits for all there is.
    ///
    /// # Errors
    ///
    /// [`Crowded`] after [`MAX_WAIT`].
    pub async fn take(&self, bytes: usize) -> Result<Reservation, Crowded> {
        let budget = self.budget_for(bytes);
        let mut reservation = budget.reservation();
        let bytes = u32::try_from(bytes).unwrap_or(u32::MAX);
        if reservation.try_grow(bytes) {
            if budget.overdrawn_bytes() > 0 {
                budget.relieve();
            }
            return Ok(reservation);
        }
        let grown = timeout(MAX_WAIT, reservation.grow(bytes)).await;
        grown.map_err(|_| Crowded)
    }

    /// A reservation of nothing, to be resized to about `bytes`.
    pub fn nothing(&self, bytes: usize) -> Reservation {
        self.budget_for(bytes).reservation()
    }

    /// Bytes that are free now.
    pub fn free_bytes(&self) -> usize {
        self.small.free_bytes() + self.medium.free_bytes() + self.large.free_bytes()
    }

    fn budget_for(&self, bytes: usize) -> &Budget {
        if bytes <= SMALL_BYTES {
            &self.small
        } else if bytes <= MEDIUM_BYTES {
            &self.medium
        } else {
            &self.large
        }
    }
}

#[cfg(test)]
mod tests {
    use futures::FutureExt;
    use tokio::time::Instant;

    use super::*;

    fn answers() -> Answers {
        Answers::new(48 << 20, &BudgetMetrics::default())
    }

    #[tokio::test(start_paused = true)]
    async fn large_answers_keep_only_each_other_waiting() {
        let answers = answers();
        let held = answers.take(200 << 20).await.unwrap();
        let (started, waiting) = (Instant::now(), answers.take(3 << 20));
        let medium = answers.take(MEDIUM_BYTES).now_or_never().unwrap().unwrap();
        let mut small = Vec::new();
        for _ in 0..1_000 {
            small.push(answers.take(SMALL_BYTES).now_or_never().unwrap().unwrap());
        }
        assert_eq!(waiting.await.unwrap_err(), Crowded);
        assert_eq!(started.elapsed(), MAX_WAIT);
        drop((held, medium, small));
        assert_eq!(answers.free_bytes(), 48 << 20);
        drop(answers.take(3 << 20).now_or_never().unwrap().unwrap());
    }
}
