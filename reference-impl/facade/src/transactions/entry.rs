//! One transactional id of this process: its core, what waits in memory, who asked last.

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use coordinator::transaction::{Durability, Limits, Recovered, Transaction};
use host::Monotonic;
use tokio::sync::watch;

use super::marker::StoredMarker;
use crate::offsets::Tenant;
use crate::queen::kv::Version;
use crate::queen::{Credential, Fragment, Scope};

/// Names an entry.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct Key {
    pub(super) scope: Scope,
    pub(super) id: Arc<str>,
}

/// A staged batch that waits in memory.
#[derive(Clone, Debug)]
pub(super) struct Held {
    pub(super) fragment: Fragment,
    /// What it is charged.
    pub(super) bytes: usize,
}

#[derive(Debug)]
pub(super) struct State {
    pub(super) core: Transaction<Version>,
    /// The open transaction's batches, in the order in which they came.
    pub(super) held: Vec<Held>,
    /// Who asked last: calls that nobody waits for are made as them.
    pub(super) credential: Credential,
    /// Where the rows of the open transaction begin in the stored stage.
    pub(super) stage_from: i64,
    /// Beyond the last row known to be in it.
    pub(super) stage_end: i64,
    pub(super) used: Monotonic,
}

impl State {
    /// Takes what is stored for what is: the marker, and what the stage holds beyond it. Not while a
    /// write is on its way.
    pub(super) fn load(
        &mut self,
        now: Monotonic,
        stored: Option<StoredMarker>,
        recovered: Option<(i64, Recovered)>,
    ) {
        if self.core.writing().is_some() {
            return;
        }
        let from = stored.as_ref().and_then(|stored| stored.stage);
        self.stage_from = from.unwrap_or(0);
        let end = recovered.as_ref().map(|(end, _)| *end);
        self.stage_end = end.unwrap_or(self.stage_from);
        let row = stored.map(|stored| (stored.version, stored.marker));
        let open = recovered.map(|(_, open)| open);
        self.core.reloaded(now, row, open);
    }

    /// Rows of the open transaction are in the lane, the first at `first`.
    pub(super) fn staged_at(&mut self, first: i64, rows: i64) {
        let end = first.saturating_add(rows);
        if first < self.stage_from {
            // The lane began anew: Queen removes those that were empty and idle for long.
            (self.stage_from, self.stage_end) = (first, end);
        } else {
            self.stage_end = self.stage_end.max(end);
        }
    }
}

#[derive(Debug)]
pub(super) struct Entry {
    pub(super) key: Key,
    state: Mutex<State>,
    /// One reader of the marker at a time.
    pub(super) loading: tokio::sync::Mutex<()>,
    /// Counts writes that were settled.
    pub(super) settled: watch::Sender<u64>,
}

impl Entry {
    pub(super) fn new(
        key: Key,
        tenant: &Tenant,
        (limits, durability, writer): (Limits, Durability, u64),
        now: Monotonic,
    ) -> Self {
        Self {
            key,
            state: Mutex::new(State {
                core: Transaction::new(limits, durability, writer),
                held: Vec::new(),
                credential: tenant.credential.clone(),
                stage_from: 0,
                stage_end: 0,
                used: now,
            }),
            loading: tokio::sync::Mutex::default(),
            settled: watch::Sender::new(0),
        }
    }

    pub(super) fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
