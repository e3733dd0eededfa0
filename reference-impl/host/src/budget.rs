//! A budget of bytes that every connection of a node shares: requests are admitted against it
//! before they are read, responses are charged to it until they are written.
//!
//! Room is taken as bytes arrive, so an announced length buys nothing. Frames that are half read
//! when the room ends could wait for each other for ever; therefore one of them at a time may
//! overdraw, and each frame has a limit of its own.

use std::sync::{Arc, Mutex, PoisonError};

use tokio::sync::{OwnedSemaphorePermit, Semaphore};

use crate::metrics::{Counter, Gauge, Registry};

/// The shared budget. Cheap to clone.
#[derive(Clone, Debug)]
pub struct Budget(Arc<Inner>);

#[derive(Debug)]
struct Inner {
    room: Semaphore,
    /// Bytes charged that the room did not hold; paid before room is given back.
    debt: Mutex<usize>,
    overdraft: Arc<Semaphore>,
    held: Gauge,
    waits: Counter,
}

impl Budget {
    /// A budget of `capacity_bytes`.
    pub fn new(capacity_bytes: usize, metrics: &BudgetMetrics) -> Self {
        Self(Arc::new(Inner {
            room: Semaphore::new(capacity_bytes.min(Semaphore::MAX_PERMITS)),
            debt: Mutex::new(0),
            overdraft: Arc::new(Semaphore::new(1)),
            held: metrics.held.clone(),
            waits: metrics.waits.clone(),
        }))
    }

    /// A reservation of nothing, to be grown.
    pub fn reservation(&self) -> Reservation {
        Reservation {
            budget: self.clone(),
            bytes: 0,
            overdraft: None,
        }
    }

    /// Bytes that are free now.
    pub fn free_bytes(&self) -> usize {
        self.0.room.available_permits()
    }

    fn give_back(&self, bytes: usize) {
        self.0.held.add(-gauge(bytes));
        let mut debt = self.0.debt.lock().unwrap_or_else(PoisonError::into_inner);
        let paid = bytes.min(*debt);
        *debt -= paid;
        self.0.room.add_permits(bytes - paid);
    }
}

fn gauge(bytes: usize) -> i64 {
    i64::try_from(bytes).unwrap_or(i64::MAX)
}

/// What a budget counts.
#[derive(Clone, Debug, Default)]
pub struct BudgetMetrics {
    held: Gauge,
    waits: Counter,
}

impl BudgetMetrics {
    /// Registers the series.
    pub fn register(registry: &Registry) -> Self {
        Self {
            held: registry.gauge(
                "kastellan_in_flight_bytes",
                "Bytes of requests and responses that connections hold.",
                &[],
            ),
            waits: registry.counter(
                "kastellan_in_flight_waits_total",
                "Reads that waited because the byte budget was spent.",
                &[],
            ),
        }
    }
}

/// Bytes taken from a [`Budget`], given back when dropped.
#[derive(Debug)]
pub struct Reservation {
    budget: Budget,
    bytes: usize,
    overdraft: Option<OwnedSemaphorePermit>,
}

impl Reservation {
    /// A reservation of nothing from the same budget.
    pub fn empty_of(other: &Self) -> Self {
        other.budget.reservation()
    }

    /// Bytes held.
    pub fn bytes(&self) -> usize {
        self.bytes
    }

    /// Takes `bytes` more if they are free and nobody waits for them.
    pub fn try_grow(&mut self, bytes: u32) -> bool {
        if self.overdraft.is_some() {
            self.charge(bytes as usize);
            return true;
        }
        let Ok(permit) = self.budget.0.room.try_acquire_many(bytes) else {
            return false;
        };
        permit.forget();
        self.hold(bytes as usize);
        true
    }

    /// Takes `bytes` more, in turn. A reservation that holds something already may overdraw when
    /// no other does; one that holds nothing waits for room.
    pub async fn grow(mut self, bytes: u32) -> Self {
        if self.try_grow(bytes) {
            return self;
        }
        self.budget.0.waits.inc();
        let inner = Arc::clone(&self.budget.0);
        // Neither semaphore is ever closed.
        tokio::select! {
            biased;
            Ok(permit) = inner.room.acquire_many(bytes) => {
                permit.forget();
                self.hold(bytes as usize);
            }
            Ok(overdraft) = Arc::clone(&inner.overdraft).acquire_owned(), if self.bytes > 0 => {
                self.overdraft = Some(overdraft);
                self.charge(bytes as usize);
            }
            else => {}
        }
        self
    }

    /// Takes `bytes` more at once, overdrawing if it must: for memory that is there already.
    pub fn charge(&mut self, bytes: usize) {
        let taken = self.budget.0.room.forget_permits(bytes);
        let mut debt = self
            .budget
            .0
            .debt
            .lock()
            .unwrap_or_else(PoisonError::into_inner);
        *debt += bytes - taken;
        drop(debt);
        self.hold(bytes);
    }

    /// Holds `bytes` from now on: gives back what is more, charges what is missing.
    pub fn resize(&mut self, bytes: usize) {
        match self.bytes.checked_sub(bytes) {
            Some(spare) => {
                self.bytes = bytes;
                self.budget.give_back(spare);
            }
            None => self.charge(bytes - self.bytes),
        }
    }

    fn hold(&mut self, bytes: usize) {
        self.bytes += bytes;
        self.budget.0.held.add(gauge(bytes));
    }
}

impl Drop for Reservation {
    fn drop(&mut self) {
        self.budget.give_back(self.bytes);
    }
}

#[cfg(test)]
mod tests {
    use futures::FutureExt;

    use super::*;

    fn budget(capacity: usize) -> Budget {
        Budget::new(capacity, &BudgetMetrics::default())
    }

    #[tokio::test]
    async fn room_comes_back_with_the_reservation() {
        let budget = budget(100);
        let held = budget.reservation().grow(60).await;
        assert_eq!((held.bytes(), budget.free_bytes()), (60, 40));
        let mut waiting = Box::pin(budget.reservation().grow(60));
        assert!((&mut waiting).now_or_never().is_none());
        drop(held);
        assert_eq!(waiting.await.bytes(), 60);
        assert_eq!(budget.free_bytes(), 100);
    }

    #[tokio::test]
    async fn a_charge_overdraws_and_is_paid_before_anybody_is_admitted() {
        let budget = budget(100);
        let mut response = budget.reservation();
        response.charge(250);
        assert!(budget.reservation().grow(50).now_or_never().is_none());
        let more = {
            let mut more = budget.reservation();
            more.charge(10);
            more
        };
        response.resize(40);
        assert_eq!(budget.free_bytes(), 50);
        response.resize(60);
        drop(response);
        assert_eq!(budget.free_bytes(), 90);
        drop(more);
        assert_eq!(budget.free_bytes(), 100);
    }

    #[tokio::test]
    async fn one_half_read_frame_at_a_time_may_overdraw() {
        let budget = budget(100);
        let first = budget.reservation().grow(50).await;
        let second = budget.reservation().grow(50).await;
        let first = first.grow(30).now_or_never().expect("overdraws");
        let mut waiting = Box::pin(second.grow(30));
        assert!((&mut waiting).now_or_never().is_none(), "only one may");
        let mut fresh = Box::pin(budget.reservation().grow(10));
        assert!(
            (&mut fresh).now_or_never().is_none(),
            "and none that holds nothing"
        );
        drop(first);
        assert_eq!(waiting.await.bytes(), 80);
        assert_eq!(fresh.await.bytes(), 10);
        assert_eq!(budget.free_bytes(), 100);
    }
}
