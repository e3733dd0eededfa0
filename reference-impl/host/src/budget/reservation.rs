//! Bytes taken from a budget.

use std::pin::pin;
use std::sync::{Arc, PoisonError};

use tokio::sync::OwnedSemaphorePermit;
use tokio::time::{Instant, sleep};

use super::late::Holder;
use super::{Budget, RELIEF_EVERY, Wanted, gauge};

/// Bytes taken from a [`Budget`], given back when dropped.
#[derive(Debug)]
pub struct Reservation {
    budget: Budget,
    bytes: usize,
    overdraft: Option<OwnedSemaphorePermit>,
    /// Its number among the late.
    late: Option<u64>,
}

impl Reservation {
    pub(super) fn of(budget: Budget) -> Self {
        Self {
            budget,
            bytes: 0,
            overdraft: None,
            late: None,
        }
    }

    /// A reservation of nothing from the same budget.
    pub fn empty_of(other: &Self) -> Self {
        other.budget.reservation()
    }

    /// Bytes held.
    pub fn bytes(&self) -> usize {
        self.bytes
    }

    /// Takes `bytes` more if they are free and nobody waits for them, or if they are given in any
    /// case.
    pub fn try_grow(&mut self, bytes: u32) -> bool {
        let always = self.bytes.saturating_add(bytes as usize) <= self.budget.0.always;
        if self.overdraft.is_some() || always {
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
    /// no other does; one that holds nothing waits for room. More than the whole budget counts as
    /// all of it, and the rest is overdrawn.
    pub async fn grow(mut self, bytes: u32) -> Self {
        if self.try_grow(bytes) {
            return self;
        }
        let budget = self.budget.clone();
        let inner = &budget.0;
        inner.waits.inc();
        let all = bytes as usize;
        let asked = all.min(inner.capacity);
        let _wanted = Wanted::new(&budget, asked);
        // At most `bytes`.
        let mut room = pin!(inner.room.acquire_many(asked as u32));
        let mut overdraft = pin!(Arc::clone(&inner.overdraft).acquire_owned());
        loop {
            // Neither semaphore is ever closed.
            tokio::select! {
                biased;
                Ok(permit) = &mut room => {
                    permit.forget();
                    self.hold(asked);
                    self.charge(all - asked);
                    return self;
                }
                Ok(overdraft) = &mut overdraft, if self.bytes > 0 => {
                    self.overdraft = Some(overdraft);
                    self.charge(all);
                    return self;
                }
                () = sleep(RELIEF_EVERY) => budget.relieve(),
            }
        }
    }

    /// Takes `bytes` more at once, overdrawing if it must: for memory that is there already.
    pub fn charge(&mut self, bytes: usize) {
        self.budget.overdraw(bytes);
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

    /// `holder` has owed its part since `since`: when others wait for room, those that have owed
    /// longest are ended.
    pub fn is_late(&mut self, since: Instant, holder: &Holder) {
        let mut lates = self
            .budget
            .0
            .lates
            .lock()
            .unwrap_or_else(PoisonError::into_inner);
        self.late = Some(lates.put(self.late, since, self.bytes, holder));
    }

    /// Nothing is owed any more.
    pub fn is_prompt(&mut self) {
        if let Some(number) = self.late.take() {
            let mut lates = self
                .budget
                .0
                .lates
                .lock()
                .unwrap_or_else(PoisonError::into_inner);
            lates.remove(number);
        }
    }

    fn hold(&mut self, bytes: usize) {
        self.bytes += bytes;
        self.budget.0.held.add(gauge(bytes));
    }
}

impl Drop for Reservation {
    fn drop(&mut self) {
        self.is_prompt();
        self.budget.give_back(self.bytes);
    }
}
