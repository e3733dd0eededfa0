//! Records that were read beyond what a response could carry, kept for the next one.

use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use host::Monotonic;
use indexmap::IndexMap;
use tokio::sync::{OwnedSemaphorePermit, Semaphore};

use crate::queen::{Fetched, Lane, Scope};
use crate::time_index::PartitionKey;

/// Bytes of answers kept alive for their undelivered records.
const MAX_BYTES: usize = 64 << 20;
/// The budget's unit.
const PERMIT_BYTES: usize = 1024;
/// How long records wait for their consumer: watermarks beside them shouldn't get older.
const MAX_AGE: Duration = Duration::from_secs(5);

/// An answer of Queen, and the part of the budget it holds while anyone keeps it.
#[derive(Debug)]
pub struct Answer {
    fetched: Fetched,
    permit: Mutex<Option<OwnedSemaphorePermit>>,
}

impl Answer {
    /// Holds nothing of the budget yet.
    pub fn new(fetched: Fetched) -> Arc<Self> {
        Arc::new(Self {
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
    next_offset: i64,
    at: Monotonic,
}

/// Whose lane.
type Key = (Scope, PartitionKey);

/// The surplus of a node.
#[derive(Debug)]
pub struct Surplus {
    kept: Mutex<IndexMap<Key, Kept>>,
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

    /// Takes what was kept for a consumer that goes on at `offset`.
    pub fn take(
        &self,
        now: Monotonic,
        scope: &Scope,
        partition: PartitionKey,
        offset: i64,
    ) -> Option<Rest> {
        let mut kept = self.kept.lock().unwrap_or_else(PoisonError::into_inner);
        if kept.is_empty() {
            return None;
        }
        let kept = kept.swap_remove(&(scope.clone(), partition))?;
        (kept.next_offset == offset && now - kept.at < MAX_AGE).then_some(kept.rest)
    }

    /// Keeps records for who goes on at their first offset, as far as the budget goes.
    pub fn keep(
        &self,
        now: Monotonic,
        scope: &Scope,
        rests: impl IntoIterator<Item = (PartitionKey, i64, Rest)>,
    ) {
        let mut rests = rests.into_iter().peekable();
        if rests.peek().is_none() {
            return;
        }
        let mut kept = self.kept.lock().unwrap_or_else(PoisonError::into_inner);
        kept.retain(|_, kept| now - kept.at < MAX_AGE);
        for (partition, next_offset, rest) in rests {
            if self.charge(&rest.answer) {
                let key = (scope.clone(), partition);
                let at = now;
                kept.insert(
                    key,
                    Kept {
                        rest,
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
        permit.is_some()
    }
}
