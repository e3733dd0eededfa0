//! The memory that decompressed and encoded records of all requests may hold together.
//!
//! A batch reserves before it's opened and holds until Queen has answered; who finds no room waits,
//! which holds up its own connection only.

use std::sync::Arc;

use tokio::sync::{OwnedSemaphorePermit, Semaphore};

/// The budget's unit: a permit for every byte would not fit the semaphore's count on all targets.
const PERMIT_BYTES: usize = 1024;

/// The budget of one node.
#[derive(Clone, Debug)]
pub struct Memory {
    permits: Arc<Semaphore>,
    total: u32,
}

/// A part of the budget, returned when dropped.
#[derive(Debug)]
pub struct Reservation {
    permit: OwnedSemaphorePermit,
}

impl Memory {
    /// A budget of `bytes`, at least one kibibyte.
    pub fn new(bytes: usize) -> Self {
        let total = u32::try_from(bytes / PERMIT_BYTES)
            .unwrap_or(u32::MAX)
            .max(1);
        Self {
            permits: Arc::new(Semaphore::new(total as usize)),
            total,
        }
    }

    /// Reserves `bytes` if that's possible at once. More than the whole budget counts as all of it.
    pub fn try_reserve(&self, bytes: usize) -> Option<Reservation> {
        let permit = Arc::clone(&self.permits).try_acquire_many_owned(self.permits_of(bytes));
        permit.ok().map(|permit| Reservation { permit })
    }

    /// Reserves `bytes`, in order of arrival.
    pub async fn reserve(&self, bytes: usize) -> Reservation {
        let permits = Arc::clone(&self.permits);
        match permits.acquire_many_owned(self.permits_of(bytes)).await {
            Ok(permit) => Reservation { permit },
            // Nobody closes the semaphore.
            Err(_) => std::future::pending().await,
        }
    }

    fn permits_of(&self, bytes: usize) -> u32 {
        u32::try_from(bytes.div_ceil(PERMIT_BYTES))
            .unwrap_or(u32::MAX)
            .min(self.total)
    }
}

impl Reservation {
    /// Gives back what exceeds `bytes`.
    pub fn shrink(&mut self, bytes: usize) {
        let keep = bytes.div_ceil(PERMIT_BYTES);
        if let Some(surplus) = self.permit.num_permits().checked_sub(keep) {
            drop(self.permit.split(surplus));
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn gives_back_what_is_dropped_or_shrunk() {
        let memory = Memory::new(8 * PERMIT_BYTES);
        let mut held = memory.try_reserve(6 * PERMIT_BYTES).unwrap();
        assert!(memory.try_reserve(3 * PERMIT_BYTES).is_none());
        held.shrink(1);
        let rest = memory.try_reserve(7 * PERMIT_BYTES);
        assert!(rest.is_some() && memory.try_reserve(1).is_none());
        drop((held, rest));
        assert!(memory.try_reserve(usize::MAX).is_some(), "all of it");
    }
}
