//! Holders of room whose peers do not do their part: an answer that is not read, a request that does
//! not come.
//!
//! They are suffered for as long as their time-outs say, but not while others wait for the room.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::task::{Context, Poll};
use std::time::Duration;

use futures::task::AtomicWaker;
use tokio::time::Instant;

/// How long a peer may owe its part while others wait.
pub const GRACE: Duration = Duration::from_millis(300);

/// Who holds reservations, a connection for example. Cheap to clone.
#[derive(Clone, Debug, Default)]
pub struct Holder(Arc<State>);

#[derive(Debug, Default)]
struct State {
    evicted: AtomicBool,
    waker: AtomicWaker,
}

impl Holder {
    /// Ends when the holder must give everything back.
    pub fn poll_evicted(&self, cx: &mut Context<'_>) -> Poll<()> {
        if !self.is_evicted() {
            self.0.waker.register(cx.waker());
        }
        // Again: it may have happened in between.
        if self.is_evicted() {
            Poll::Ready(())
        } else {
            Poll::Pending
        }
    }

    /// Whether the holder must give everything back.
    pub fn is_evicted(&self) -> bool {
        self.0.evicted.load(Ordering::Acquire)
    }

    /// Whether it had not been evicted before.
    fn evict(&self) -> bool {
        let first = !self.0.evicted.swap(true, Ordering::AcqRel);
        self.0.waker.wake();
        first
    }
}

/// The late holders of one budget.
#[derive(Debug, Default)]
pub(super) struct Lates {
    entries: BTreeMap<u64, Late>,
    next: u64,
}

#[derive(Debug)]
struct Late {
    since: Instant,
    bytes: usize,
    holder: Holder,
}

impl Lates {
    pub(super) fn put(
        &mut self,
        number: Option<u64>,
        since: Instant,
        bytes: usize,
        holder: &Holder,
    ) -> u64 {
        let number = number.unwrap_or(self.next);
        self.next = self.next.max(number + 1);
        let holder = holder.clone();
        let late = Late {
            since,
            bytes,
            holder,
        };
        self.entries.insert(number, late);
        number
    }

    pub(super) fn remove(&mut self, number: u64) {
        self.entries.remove(&number);
    }

    /// Evicts the latest until `missing` bytes are on their way back; says how many were.
    pub(super) fn evict(&mut self, missing: usize) -> u64 {
        let now = Instant::now();
        let entries = || self.entries.values();
        let coming = entries().filter(|late| late.holder.is_evicted());
        let mut coming: usize = coming.map(|late| late.bytes).sum();
        let mut owing: Vec<&Late> = entries()
            .filter(|late| !late.holder.is_evicted() && now >= late.since + GRACE)
            .collect();
        owing.sort_by_key(|late| late.since);
        let mut evicted = 0;
        for late in owing {
            if coming >= missing {
                break;
            }
            coming += late.bytes;
            evicted += u64::from(late.holder.evict());
        }
        evicted
    }
}

#[cfg(test)]
mod tests {
    use futures::FutureExt;

    use super::*;
    use crate::budget::{Budget, BudgetMetrics, Reservation};

    fn late(budget: &Budget, bytes: usize, since: Instant) -> (Reservation, Holder) {
        let mut held = budget.reservation();
        held.charge(bytes);
        let holder = Holder::default();
        held.is_late(since, &holder);
        (held, holder)
    }

    #[tokio::test(start_paused = true)]
    async fn who_waits_ends_the_latest_until_there_is_enough() {
        let budget = Budget::new(100, &BudgetMetrics::default());
        let start = Instant::now();
        let (second, second_holder) = late(&budget, 40, start + Duration::from_millis(100));
        let (first, first_holder) = late(&budget, 40, start);
        let (third, third_holder) = late(&budget, 20, start + Duration::from_millis(200));
        let waiting = tokio::spawn(budget.reservation().grow(70));
        let mut freed = Box::pin(async {
            std::future::poll_fn(|cx| first_holder.poll_evicted(cx)).await;
        });
        (&mut freed).await;
        assert!(start.elapsed() >= GRACE && start.elapsed() < 2 * GRACE);
        std::future::poll_fn(|cx| second_holder.poll_evicted(cx)).await;
        drop((first, second));
        assert_eq!(waiting.await.unwrap().bytes(), 70);
        tokio::time::sleep(Duration::from_secs(60)).await;
        assert!(!third_holder.is_evicted(), "enough was free");
        drop(third);
    }

    #[tokio::test(start_paused = true)]
    async fn nobody_is_ended_while_the_room_suffices_or_it_does_its_part() {
        let budget = Budget::new(100, &BudgetMetrics::default());
        let (mut held, holder) = late(&budget, 100, Instant::now());
        tokio::time::sleep(Duration::from_secs(60)).await;
        budget.relieve();
        assert!(!holder.is_evicted(), "nobody waits");
        held.is_prompt();
        let mut waiting = Box::pin(budget.reservation().grow(10));
        assert!((&mut waiting).now_or_never().is_none());
        tokio::time::sleep(Duration::from_secs(60)).await;
        assert!((&mut waiting).now_or_never().is_none());
        assert!(!holder.is_evicted(), "it reads");
        held.resize(50);
        assert_eq!(waiting.await.bytes(), 10);
    }
}
