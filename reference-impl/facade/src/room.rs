//! What one request holds of the node's memory: room for its frame until the handler has read it,
//! and room for its answer from before it is built until the client has read it.

use std::sync::{Arc, Mutex, PoisonError};

use host::answers::{Answers, Crowded};
use host::budget::{Budget, BudgetMetrics, Reservation};

/// What a parked fetch of a few hundred partitions holds in any case.
const SMALL_PLAN_BYTES: usize = 64 << 10;
/// What a frame holds in any case: heartbeats and commits pass whatever others send.
const SMALL_FRAME_BYTES: usize = 16 << 10;

/// The budgets of a node: the shares of `QUEEN_KAFKA_MAX_IN_FLIGHT_BYTES`.
#[derive(Clone, Debug)]
pub struct Budgets {
    /// Requests that arrive and that handlers read: a quarter.
    pub requests: Budget,
    /// Answers that are built and that clients read: three eighths.
    pub answers: Answers,
    /// Answers of Queen that are read and worked on: a quarter.
    pub reads: Answers,
    /// Lanes of parked fetches: an eighth.
    pub plans: Budget,
}

impl Budgets {
    /// Shares out `total_bytes`.
    pub fn of(total_bytes: usize, metrics: &BudgetMetrics) -> Self {
        let eighth = total_bytes / 8;
        Self {
            requests: Budget::with_always(2 * eighth, SMALL_FRAME_BYTES, metrics),
            answers: Answers::new(3 * eighth, metrics),
            reads: Answers::new(2 * eighth, metrics),
            plans: Budget::with_always(eighth, SMALL_PLAN_BYTES, metrics),
        }
    }
}

/// The room of one request. Cheap to clone: one reference count.
#[derive(Clone, Debug)]
pub struct Room(Arc<Inner>);

#[derive(Debug)]
struct Inner {
    answers: Answers,
    request: Mutex<Option<Reservation>>,
    answer: Mutex<Option<Reservation>>,
}

impl Room {
    /// The room of a request that arrived with `request`.
    pub fn new(answers: &Answers, request: Option<Reservation>) -> Self {
        Self(Arc::new(Inner {
            answers: answers.clone(),
            request: Mutex::new(request),
            answer: Mutex::new(None),
        }))
    }

    /// The frame of the request is gone: for handlers that wait for something else than Queen.
    pub fn release_request(&self) {
        drop(lock(&self.0.request).take());
    }

    /// Takes room for an answer that is about to be built: `bytes` in all, the memory it takes to
    /// build it included. Waits for the first of it only; what more is taken later overdraws,
    /// because who holds room and waits for more could wait for ever.
    ///
    /// # Errors
    ///
    /// [`Crowded`] when there was none in time.
    pub async fn take(&self, bytes: usize) -> Result<(), Crowded> {
        if let Some(held) = lock(&self.0.answer).as_mut() {
            held.resize(bytes.max(held.bytes()));
            return Ok(());
        }
        let taken = self.0.answers.take(bytes).await?;
        *lock(&self.0.answer) = Some(taken);
        Ok(())
    }

    /// Hands over the room of the answer, which turned out to have `bytes`; the request is over.
    pub fn into_answer(self, bytes: usize) -> Reservation {
        self.release_request();
        let taken = lock(&self.0.answer).take();
        let mut held = taken.unwrap_or_else(|| self.0.answers.nothing(bytes));
        held.resize(bytes);
        held
    }
}

fn lock(held: &Mutex<Option<Reservation>>) -> std::sync::MutexGuard<'_, Option<Reservation>> {
    held.lock().unwrap_or_else(PoisonError::into_inner)
}

#[cfg(test)]
mod tests {
    use futures::FutureExt;

    use super::*;

    #[tokio::test(start_paused = true)]
    async fn an_estimate_becomes_what_the_answer_is() {
        let budgets = Budgets::of(64 << 20, &BudgetMetrics::default());
        let (all, requests) = (budgets.answers.free_bytes(), budgets.requests.free_bytes());
        let request = budgets.requests.reservation().grow(1 << 20).await;
        let room = Room::new(&budgets.answers, Some(request));
        room.take(1 << 20).now_or_never().unwrap().unwrap();
        room.take(1 << 19).now_or_never().unwrap().unwrap();
        assert_eq!(all - budgets.answers.free_bytes(), 1 << 20);
        room.take(3 << 20).now_or_never().unwrap().unwrap();
        assert_eq!(all - budgets.answers.free_bytes(), 3 << 20);
        let answer = room.into_answer(100);
        assert_eq!(all - budgets.answers.free_bytes(), 100);
        assert_eq!(budgets.requests.free_bytes(), requests);
        drop(answer);
        assert_eq!(budgets.answers.free_bytes(), all);
        let unforeseen = Room::new(&budgets.answers, None).into_answer(5 << 20);
        assert_eq!(unforeseen.bytes(), 5 << 20);
    }
}
