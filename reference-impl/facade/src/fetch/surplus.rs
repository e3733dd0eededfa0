//! Records that were read beyond what a response could carry, kept for the next one.

use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use host::Monotonic;
use host::budget::Reservation;
use indexmap::IndexMap;
use tokio::sync::{OwnedSemaphorePermit, Semaphore};

use crate::queen::{Credential, Fetched, Lane, Scope};
use crate::time_index::PartitionKey;

/// Bytes of answers kept alive for their undelivered records.
const MAX_BYTES: usize = 64 << 20;
/// The budget's unit.
const PERMIT_BYTES: usize = 1024;
/// How often what is kept is looked through for what is too old.
const LOOK_EVERY: Duration = Duration::from_secs(1);
/// How long records wait for their consumer: watermarks beside them shouldn't get older, and a
/// credential that has ended is shown no others, and these no longer.
pub const MAX_AGE: Duration = Duration::from_secs(5);

/// An answer of Queen, and the part of the budget it holds while anyone keeps it.
#[derive(Debug)]
pub struct Answer {
    fetched: Fetched,
    permit: Mutex<Option<OwnedSemaphorePermit>>,
    /// Its room among the answers that are worked on, until it is kept.
    room: Mutex<Option<Reservation>>,
}

impl Answer {
    /// Holds nothing of the budget yet.
    pub fn new(mut fetched: Fetched) -> Arc<Self> {
        Arc::new(Self {
            room: Mutex::new(fetched.take_room()),
            fetched,
            permit: Mutex::new(None),
        })
    }

    /// What was read.
    pub fn fetched(&self) -> &Fetched {
        &self.fetched
    }
}

/// Some records of one lane of an answer.
#[derive(Clone, Debug)]
pub struct Rest {
    /// The answer.
    pub answer: Arc<Answer>,
    /// Which lane of it.
    pub lane: usize,
    /// The records before this position were delivered.
    pub from: usize,
    /// Bytes of the keys and values of the others, where they're known.
    pub len_bytes: usize,
}

impl Rest {
    /// The lane.
    pub fn lane(&self) -> Option<Lane<'_>> {
        self.answer.fetched.lane(self.lane)
    }
}

#[derive(Debug)]
struct Kept {
    rest: Rest,
    /// Who was shown it by Queen. Another key of the tenant may lack the scope.
    credential: Credential,
    next_offset: i64,
    at: Monotonic,
}

/// What is kept.
#[derive(Debug, Default)]
struct Shelf {
    lanes: IndexMap<Key, Kept>,
    /// When it was last looked through.
    looked: Option<Monotonic>,
}

impl Shelf {
    /// Takes out what is too old; not for each of many requests, because it looks at everything.
    fn clear_out(&mut self, now: Monotonic) {
        if self.looked.is_some_and(|looked| now - looked < LOOK_EVERY) {
            return;
        }
        self.looked = Some(now);
        self.lanes.retain(|_, kept| now - kept.at < MAX_AGE);
    }
}

/// Whose lane.
type Key = (Scope, PartitionKey);

/// The surplus of a node.
#[derive(Debug)]
pub struct Surplus {
    kept: Mutex<Shelf>,
    budget: Arc<Semaphore>,
}

impl Default for Surplus {
    fn default() -> Self {
        Self {
            kept: Mutex::default(),
            budget: Arc::new(Semaphore::new(MAX_BYTES / PERMIT_BYTES)),
        }
    }
}

impl Surplus {
    /// Bytes of the answers that are kept.
    pub fn held_bytes(&self) -> usize {
        MAX_BYTES - self.budget.available_permits() * PERMIT_BYTES
    }

    /// Takes what was kept for a consumer that goes on at `offset`, if it was read as `credential`.
    pub fn take(
        &self,
        now: Monotonic,
        (scope, credential): (&Scope, &Credential),
        partition: PartitionKey,
        offset: i64,
    ) -> Option<Rest> {
        let mut kept = self.kept.lock().unwrap_or_else(PoisonError::into_inner);
        if kept.lanes.is_empty() {
            return None;
        }
        let key = (scope.clone(), partition);
        kept.lanes
            .get(&key)
            .filter(|kept| kept.credential == *credential)?;
        let kept = kept.lanes.swap_remove(&key)?;
        (kept.next_offset == offset && now - kept.at < MAX_AGE).then_some(kept.rest)
    }

    /// Forgets what is too old, and keeps records for who goes on at their first offset, as far as the budget goes.
    pub fn keep(
        &self,
        now: Monotonic,
        (scope, credential): (&Scope, &Credential),
        rests: impl IntoIterator<Item = (PartitionKey, i64, Rest)>,
    ) {
        let mut kept = self.kept.lock().unwrap_or_else(PoisonError::into_inner);
        kept.clear_out(now);
        for (partition, next_offset, rest) in rests {
            if self.charge(&rest.answer) {
                let key = (scope.clone(), partition);
                let at = now;
                kept.lanes.insert(
                    key,
                    Kept {
                        rest,
                        credential: credential.clone(),
                        next_offset,
                        at,
                    },
                );
            }
        }
    }

    /// Pays for an answer once, however many of its lanes are kept.
    fn charge(&self, answer: &Answer) -> bool {
        let mut permit = answer.permit.lock().unwrap_or_else(PoisonError::into_inner);
        if permit.is_none() {
            let permits = answer.fetched.len_bytes().div_ceil(PERMIT_BYTES).max(1);
            let Ok(permits) = u32::try_from(permits) else {
                return false;
            };
            *permit = Arc::clone(&self.budget)
                .try_acquire_many_owned(permits)
                .ok();
        }
        if permit.is_some() {
            // It counts here from now on.
            let mut room = answer.room.lock().unwrap_or_else(PoisonError::into_inner);
            drop(room.take());
        }
        permit.is_some()
    }
}
