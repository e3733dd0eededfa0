//! The state machine behind the routes: queues, lanes, records, KV rows. Knows no HTTP. Reaches
//! its machine through `host` and its disk through `store`.

pub mod batch;
pub mod change;
pub mod configure;
pub mod dedup;
pub mod groups;
pub mod id_run;
pub mod kv;
pub mod native;
pub mod park;
pub mod push;
pub mod queue_options;
pub mod read;
pub mod removal;
pub mod rendering;
pub mod segment;
pub mod state;
pub mod transaction;
pub mod versions;
pub mod writer;

use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, PoisonError, RwLock, RwLockReadGuard, RwLockWriteGuard};
use std::time::Duration;

use host::Host;
use tokio::sync::watch;
use tokio::task::JoinHandle;

use self::batch::Sources;
use self::park::Park;
use self::rendering::Rendering;
use self::state::State;
use crate::store::{Store, StoreError};

/// What the writer and the readers share.
#[derive(Debug)]
pub struct Shared {
    /// The machine.
    pub host: Host,
    /// The disk, when there is one.
    pub store: Option<Arc<Store>>,
    /// Parked fetches.
    pub park: Park,
    /// Parked pops.
    pub pops: Park,
    /// What large answers hold.
    pub rendering: Rendering,
    state: RwLock<State>,
    broken: AtomicBool,
    stopping: watch::Sender<bool>,
}

impl Shared {
    /// The state, for lookups. Hold it briefly and never across an await.
    pub fn read(&self) -> RwLockReadGuard<'_, State> {
        // A panic while applying leaves rows that the next start corrects; readers go on.
        self.state.read().unwrap_or_else(PoisonError::into_inner)
    }

    fn write(&self) -> RwLockWriteGuard<'_, State> {
        self.state.write().unwrap_or_else(PoisonError::into_inner)
    }

    fn mark_broken(&self) {
        self.broken.store(true, Ordering::Release);
    }

    /// The store failed; nothing can be written.
    pub fn is_broken(&self) -> bool {
        self.broken.load(Ordering::Acquire)
    }

    /// Ends when the Queen begins to stop.
    pub async fn stopping(&self) {
        let mut stopping = self.stopping.subscribe();
        // The sender lives in `self`.
        let _ = stopping.wait_for(|stopping| *stopping).await;
    }
}

/// A running engine.
#[derive(Debug)]
pub struct Engine {
    /// State and parked fetches.
    pub shared: Arc<Shared>,
    writer: writer::Handle,
    tasks: Mutex<Vec<JoinHandle<()>>>,
}

/// How an engine is set up; see `Options` for the meaning of each field.
#[derive(Debug)]
#[expect(missing_docs, reason = "named as in Options")]
pub struct Settings {
    pub segment_cache_bytes: usize,
    pub retention_interval: Duration,
    pub lane_cleanup_after: Duration,
}

impl Engine {
    /// Reads the store back and starts the writer and retention.
    ///
    /// # Errors
    /// The store doesn't open or read back.
    pub async fn start(
        host: Host,
        store: Option<Store>,
        settings: Settings,
    ) -> Result<Self, StoreError> {
        let store = store.map(Arc::new);
        let mut state = State::new(store.as_ref().map(|_| settings.segment_cache_bytes));
        let mut sources = Sources::default();
        if let Some(store) = &store {
            let reading = Arc::clone(store);
            let now_ms = host.clock.wall().epoch_ms();
            let (loaded, counters) = host
                .blocking
                .run(move || {
                    reading
                        .load(now_ms)
                        .map(|loaded| (loaded.state_changes, loaded.counters))
                })
                .await?;
            loaded.into_iter().for_each(|change| state.apply(change));
            sources.counters = counters;
        }
        let shared = Arc::new(Shared {
            host,
            store,
            park: Park::default(),
            pops: Park::default(),
            rendering: Rendering::default(),
            state: RwLock::new(state),
            broken: AtomicBool::new(false),
            stopping: watch::Sender::new(false),
        });
        let (writer, jobs) = writer::channel();
        let writer_task = tokio::spawn(writer::run(Arc::clone(&shared), jobs, sources));
        let retention_task = tokio::spawn(removal::run(
            Arc::clone(&shared),
            writer.clone(),
            settings.retention_interval,
            settings.lane_cleanup_after,
        ));
        Ok(Self {
            shared,
            writer,
            tasks: Mutex::new(vec![writer_task, retention_task]),
        })
    }

    /// The way to the writer.
    pub fn writer(&self) -> &writer::Handle {
        &self.writer
    }

    /// Lets parked fetches answer at once with what there is, for ever.
    pub fn begin_stop(&self) {
        self.shared.stopping.send_replace(true);
    }

    /// Stops: what was acknowledged is durable and the store is closed when this ends. Whoever
    /// still waits for an answer gets one first.
    pub async fn stop(&self) {
        self.begin_stop();
        self.writer.stop().await;
        let tasks = std::mem::take(&mut *self.tasks.lock().unwrap_or_else(PoisonError::into_inner));
        for task in tasks {
            // A panic was reported where it happened.
            let _ = task.await;
        }
        if let Some(store) = self.shared.store.clone() {
            let blocking = self.shared.host.blocking;
            blocking.run(move || store.close()).await;
        }
    }
}
