//! A budget of bytes that the connections of a node share.
//!
//! Room is taken as bytes arrive, so an announced length buys nothing. Frames that are half read
//! when the room ends could wait for each other for ever; therefore one of them at a time may
//! overdraw, and each frame has a limit of its own. Who waits for room looks round for holders that
//! keep everybody waiting ([`late`]) and has them ended, the latest first.

pub mod late;
mod reservation;

use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use tokio::sync::Semaphore;

use crate::metrics::{Counter, Gauge, Registry};
use late::Lates;
pub use reservation::Reservation;

/// How often somebody who waits for room looks for holders that are late.
const RELIEF_EVERY: Duration = Duration::from_millis(100);

/// The shared budget. Cheap to clone.
#[derive(Clone, Debug)]
pub struct Budget(Arc<Inner>);

#[derive(Debug)]
struct Inner {
    capacity: usize,
    /// What a reservation holds in any case: such frames pass whatever others hold.
    always: usize,
    room: Semaphore,
    /// Bytes charged that the room did not hold; paid before room is given back.
    debt: Mutex<usize>,
    overdraft: Arc<Semaphore>,
    /// Bytes that are waited for.
    wanted: AtomicUsize,
    lates: Mutex<Lates>,
    held: Gauge,
    waits: Counter,
    evicted: Counter,
}

impl Budget {
    /// A budget of `capacity_bytes`.
    pub fn new(capacity_bytes: usize, metrics: &BudgetMetrics) -> Self {
        Self::with_always(capacity_bytes, 0, metrics)
    }

    /// A budget of `capacity_bytes` in which every reservation may grow to `always_bytes` at once,
    /// whatever is free: what is small passes by what is large. Overdrawn by that much for each of
    /// its users at most.
    pub fn with_always(
        capacity_bytes: usize,
        always_bytes: usize,
        metrics: &BudgetMetrics,
    ) -> Self {
        let capacity = capacity_bytes.min(Semaphore::MAX_PERMITS);
        Self(Arc::new(Inner {
            capacity,
            always: always_bytes,
            room: Semaphore::new(capacity),
            debt: Mutex::new(0),
            overdraft: Arc::new(Semaphore::new(1)),
            wanted: AtomicUsize::new(0),
            lates: Mutex::default(),
            held: metrics.held.clone(),
            waits: metrics.waits.clone(),
            evicted: metrics.evicted.clone(),
        }))
    }

    /// A reservation of nothing, to be grown.
    pub fn reservation(&self) -> Reservation {
        Reservation::of(self.clone())
    }

    /// Bytes that are free now.
    pub fn free_bytes(&self) -> usize {
        self.0.room.available_permits()
    }

    /// Bytes held beyond the capacity.
    pub fn overdrawn_bytes(&self) -> usize {
        *self.0.debt.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Ends as many late holders as it takes to free what is wanted and what is overdrawn; nobody
    /// while the room suffices.
    pub fn relieve(&self) {
        let wanted = self.0.wanted.load(Ordering::Relaxed);
        let missing = (wanted + self.overdrawn_bytes()).saturating_sub(self.free_bytes());
        if missing == 0 {
            return;
        }
        let mut lates = self.0.lates.lock().unwrap_or_else(PoisonError::into_inner);
        self.0.evicted.add(lates.evict(missing));
    }

    fn give_back(&self, bytes: usize) {
        self.0.held.add(-gauge(bytes));
        let mut debt = self.0.debt.lock().unwrap_or_else(PoisonError::into_inner);
        let paid = bytes.min(*debt);
        *debt -= paid;
        self.0.room.add_permits(bytes - paid);
    }

    /// Takes `bytes` whether they are free or not.
    fn overdraw(&self, bytes: usize) {
        let taken = self.0.room.forget_permits(bytes);
        let mut debt = self.0.debt.lock().unwrap_or_else(PoisonError::into_inner);
        *debt += bytes - taken;
    }
}

fn gauge(bytes: usize) -> i64 {
    i64::try_from(bytes).unwrap_or(i64::MAX)
}

/// Bytes that somebody waits for, as long as it does.
struct Wanted<'b>(&'b Budget, usize);

impl<'b> Wanted<'b> {
    fn new(budget: &'b Budget, bytes: usize) -> Self {
        budget.0.wanted.fetch_add(bytes, Ordering::Relaxed);
        Self(budget, bytes)
    }
}

impl Drop for Wanted<'_> {
    fn drop(&mut self) {
        self.0.0.wanted.fetch_sub(self.1, Ordering::Relaxed);
    }
}

/// What budgets count; several may count together.
#[derive(Clone, Debug, Default)]
pub struct BudgetMetrics {
    held: Gauge,
    waits: Counter,
    evicted: Counter,
}

impl BudgetMetrics {
    /// Registers the series.
    pub fn register(registry: &Registry) -> Self {
        Self {
            held: registry.gauge(
                "in_flight_bytes",
                "Bytes of requests and responses that connections hold.",
                &[],
            ),
            waits: registry.counter(
                "in_flight_waits_total",
                "Waits because the byte budget was spent.",
                &[],
            ),
            evicted: registry.counter(
                "in_flight_evictions_total",
                "Connections ended early because they kept room that others waited for.",
                &[],
            ),
        }
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

    #[tokio::test]
    async fn what_is_small_passes_and_what_is_larger_than_all_takes_all() {
        let budget = Budget::with_always(100, 10, &BudgetMetrics::default());
        let large = budget.reservation().grow(250).await;
        assert_eq!((large.bytes(), budget.overdrawn_bytes()), (250, 150));
        let small = budget.reservation().grow(10).now_or_never().unwrap();
        let mut eleven = Box::pin(budget.reservation().grow(11));
        assert!((&mut eleven).now_or_never().is_none());
        drop(large);
        assert_eq!(eleven.await.bytes(), 11);
        drop(small);
        assert_eq!((budget.free_bytes(), budget.overdrawn_bytes()), (100, 0));
    }
}
