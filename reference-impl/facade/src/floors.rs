//! Floors: where DeleteRecords has moved the start of a partition's log.
//!
//! Queen removes records by age only, so a floor is a row of its own,
//! `qk:floor:<topic>:<partition>` = `{qid, floor, ts}`. It holds only for the queue it was made for
//! and while it isn't above the high watermark: queues are recreated, and an idle lane starts at 0
//! again. Every reader takes a tenant's floors from one scan, a few seconds old at most.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use host::{Clock, Host, Monotonic};
use indexmap::IndexMap;
use serde::{Deserialize, Serialize};

use crate::catalogue::Topic;
use crate::queen::kv::{Batch, Expect, Expiry, OnLoss, OpResult, Outcome};
use crate::queen::{Client, Credential, Error, Repeat, Scope};

/// What the rows begin with.
const PREFIX: &str = "qk:floor:";
/// How long a first scan that failed is not made again.
const RETRY_AFTER: Duration = Duration::from_secs(1);
/// How long a scan serves before the next one starts behind it.
const SCAN_AGE: Duration = Duration::from_secs(10);
/// Pages of 1,000 rows that a scan reads at most.
const MAX_PAGES: usize = 64;
/// Tenants whose floors are kept.
const MAX_SCOPES: usize = 1024;
/// How often a raise tries again when someone else wrote the row.
const MAX_RAISES: usize = 4;

/// The floor of one partition.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
struct Row {
    /// The queue it was made for, as the list spells its id.
    qid: Option<String>,
    /// The first offset that may be read.
    floor: i64,
    /// When it was made, in milliseconds since the Unix epoch.
    ts: i64,
}

/// The floors of one tenant.
#[derive(Clone, Debug, Default)]
pub struct Table(BTreeMap<Arc<str>, BTreeMap<i32, Row>>);

impl Table {
    /// The start of a partition's log, as Kafka clients see it: the log's own, or the floor.
    pub fn log_start(
        &self,
        topic: &Topic,
        partition: i32,
        log_start: i64,
        high_watermark: i64,
    ) -> i64 {
        let row = self
            .0
            .get(&topic.name)
            .and_then(|rows| rows.get(&partition));
        match row {
            Some(row) if row.qid == topic.queue_id && row.floor <= high_watermark => {
                log_start.max(row.floor)
            }
            _ => log_start,
        }
    }

    fn insert(&mut self, key: &str, row: Row) {
        let Some((topic, partition)) = key
            .strip_prefix(PREFIX)
            .and_then(|rest| rest.rsplit_once(':'))
        else {
            return;
        };
        let Ok(partition) = partition.parse() else {
            return;
        };
        self.0
            .entry(Arc::from(topic))
            .or_default()
            .insert(partition, row);
    }
}

/// The floors of every tenant a node serves.
#[derive(Debug)]
pub struct Floors {
    client: Arc<Client>,
    clock: Arc<dyn Clock>,
    scopes: Mutex<IndexMap<Scope, Arc<State>>>,
}

#[derive(Debug, Default)]
struct State {
    known: Mutex<Known>,
    /// Held by the one who scans.
    scanning: tokio::sync::Mutex<()>,
}

#[derive(Debug, Default)]
struct Known {
    table: Arc<Table>,
    /// When the last scan ended, well or not; `None` before the first that did not fail for a while.
    scanned: Option<Monotonic>,
    /// How the last scan failed, and when, while none has succeeded.
    failed: Option<(Monotonic, Error)>,
    /// Raises since the start: a scan that began before one must not undo it.
    raises: u64,
}

/// A floor that can't be raised.
#[derive(Clone, Debug, thiserror::Error)]
pub enum RaiseError {
    /// The call failed; it may be tried again.
    #[error(transparent)]
    Queen(#[from] Error),
    /// Others kept writing the same row.
    #[error("the floor was written by others meanwhile")]
    Contended,
}

impl Floors {
    /// Floors kept by the Queen behind `client`.
    pub fn new(host: &Host, client: Arc<Client>) -> Self {
        Self {
            client,
            clock: Arc::clone(&host.clock),
            scopes: Mutex::default(),
        }
    }

    /// The floors of `scope`. Waits for a scan until one has succeeded; from then on the last one
    /// counts while others fail.
    ///
    /// # Errors
    ///
    /// The floors were never read, and may be later: whoever serves without them serves records that
    /// were deleted. A Queen that will never have them has none.
    pub async fn table(
        self: &Arc<Self>,
        scope: &Scope,
        credential: &Credential,
    ) -> Result<Arc<Table>, Error> {
        let state = self.state(scope);
        let now = self.clock.monotonic();
        let (table, scanned) = {
            let known = state.lock();
            (Arc::clone(&known.table), known.scanned)
        };
        match scanned {
            Some(at) if now - at < SCAN_AGE => Ok(table),
            Some(_) => {
                // Nobody waits for a newer one; if someone scans already that will do.
                if state.scanning.try_lock().is_ok() {
                    let (floors, credential) = (Arc::clone(self), credential.clone());
                    tokio::spawn(async move { floors.scan(&state, &credential).await });
                }
                Ok(table)
            }
            None => {
                self.scan(&state, credential).await;
                let known = state.lock();
                match &known.failed {
                    Some((_, error)) => Err(error.clone()),
                    None => Ok(Arc::clone(&known.table)),
                }
            }
        }
    }

    async fn scan(&self, state: &State, credential: &Credential) {
        let since = state.lock().scanned;
        let _scanning = state.scanning.lock().await;
        let raises = {
            let known = state.lock();
            let now = self.clock.monotonic();
            let failed = known.failed.as_ref();
            if known.scanned != since || failed.is_some_and(|(at, _)| now - *at < RETRY_AFTER) {
                // Someone scanned while this one waited for its turn, or a moment ago.
                return;
            }
            known.raises
        };
        let scan = self
            .client
            .kv_scan(credential, PREFIX, false, MAX_PAGES)
            .await;
        let mut known = state.lock();
        let now = self.clock.monotonic();
        if let Err(error) = &scan
            && known.scanned.is_none()
            && error.is_transient()
        {
            known.failed = Some((now, error.clone()));
        } else {
            known.failed = None;
            known.scanned = Some(now);
        }
        match scan {
            Ok(scan) if known.raises == raises => {
                let mut table = Table::default();
                for row in scan.rows {
                    // Rows that others wrote wrong are none.
                    if let Ok(value) = row.value() {
                        table.insert(&row.key, value);
                    }
                }
                known.table = Arc::new(table);
            }
            Ok(_) => {}
            Err(error) => tracing::warn!(%error, "the floors of deleted records can't be read"),
        }
    }

    /// Raises the floor of a partition to `offset` at least, and answers what it is then.
    ///
    /// # Errors
    ///
    /// [`RaiseError`]; the floor may be raised all the same when an answer was lost.
    pub async fn raise(
        &self,
        scope: &Scope,
        credential: &Credential,
        topic: &Topic,
        partition: i32,
        offset: i64,
    ) -> Result<i64, RaiseError> {
        let key = format!("{PREFIX}{}:{partition}", topic.name);
        for _ in 0..MAX_RAISES {
            let read = self.client.kv_read(credential, &[&key]).await?;
            let held = read.rows.first();
            let before: Option<Row> = held
                .and_then(|row| row.value().ok())
                .filter(|row: &Row| row.qid == topic.queue_id);
            if let Some(row) = before.filter(|row| row.floor >= offset) {
                return Ok(self.remember(scope, &key, row));
            }
            let row = Row {
                qid: topic.queue_id.clone(),
                floor: offset,
                ts: self.clock.wall().epoch_ms(),
            };
            let expect = held.map_or(Expect::Absent, |row| Expect::Version(row.version));
            let mut batch = Batch::new();
            batch
                .put(&key, &row, Expiry::Forever, expect, OnLoss::Skip)
                .map_err(|_| Error::Unsendable("the row of a floor"))?;
            // A repetition would meet its own row and lose; the next round reads that.
            let outcome = self.client.kv(credential, &batch, Repeat::Unsafe).await?;
            if let Outcome::Done(results) = outcome
                && let Some(OpResult::Applied(_)) = results.first()
            {
                return Ok(self.remember(scope, &key, row));
            }
        }
        Err(RaiseError::Contended)
    }

    /// What was just written is known here at once.
    fn remember(&self, scope: &Scope, key: &str, row: Row) -> i64 {
        let floor = row.floor;
        let state = self.state(scope);
        let mut known = state.lock();
        known.raises += 1;
        let mut table = Table::clone(&known.table);
        table.insert(key, row);
        known.table = Arc::new(table);
        floor
    }

    fn state(&self, scope: &Scope) -> Arc<State> {
        let mut scopes = self.scopes.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(state) = scopes.get(scope) {
            return Arc::clone(state);
        }
        if scopes.len() >= MAX_SCOPES {
            scopes.swap_remove_index(0);
        }
        let state = Arc::new(State::default());
        scopes.insert(scope.clone(), Arc::clone(&state));
        state
    }
}

impl State {
    fn lock(&self) -> std::sync::MutexGuard<'_, Known> {
        self.known.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
