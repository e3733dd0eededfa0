//! Produce: from a client's record batches to Queen, once each and in order.
//!
//! [`admit`] reads and judges the batches of one request; [`gather`] puts those of all connections
//! of a credential into pushes; [`push`] sees a push through refusals and lost answers; [`table`]
//! keeps the sequence windows, and [`lineage`] brings them up to the log where other nodes write to
//! it. May touch Queen's push route, in a cluster its fetch route, memory and nothing else.

pub mod admit;
mod codecs;
mod encode;
mod gather;
mod ids;
mod lineage;
mod memory;
mod overtaken;
mod push;
pub mod staged;
mod table;
mod times;
mod unit;
mod verdict;

#[cfg(test)]
mod tests;

use std::collections::BTreeMap;
use std::hash::{Hash, Hasher};
use std::sync::{Arc, Mutex, PoisonError};

use coordinator::producer::Limits;
use host::metrics::{Counter, Gauge, Histogram, Registry};
use host::shutdown::Shutdown;
use host::{Clock, Host};
use indexmap::IndexMap;

pub use codecs::TopicCodecs;
pub use gather::Gatherer;
use gather::Lanes;
use lineage::Doubts;
use memory::Memory;
pub use overtaken::{Batches, Overtaken};
use table::Table;
pub use times::Tolerance;
pub use unit::{Active, Failure, Outcome, RecordFault};

use crate::queen::{Client, Credential, Scope};
use crate::time_index::TimeIndex;

/// Bytes that decompressed and encoded batches of all requests may hold together.
const MEMORY_BYTES: usize = 256 << 20;
/// Credentials whose idle gatherers are kept before the first sweep.
const FIRST_SWEEP: usize = 64;

/// What every push of a node shares.
#[derive(Debug)]
pub struct Shared {
    client: Arc<Client>,
    clock: Arc<dyn Clock>,
    table: Table,
    time_index: Arc<TimeIndex>,
    metrics: Metrics,
    shutdown: Shutdown,
    /// Whether other nodes push batches of the same producers.
    clustered: bool,
    doubts: Doubts,
}

/// The series of the produce path.
#[derive(Debug)]
struct Metrics {
    pushes: Counter,
    push_failures: Counter,
    push_items: Histogram,
    push_seconds: Histogram,
    retries: Counter,
    duplicates: Counter,
    lineages: Counter,
    windows: Gauge,
    window_evictions: Counter,
}

impl Metrics {
    fn new(registry: &Registry) -> Self {
        const ITEMS: &[f64] = &[1.0, 10.0, 100.0, 1_000.0, 10_000.0];
        Self {
            pushes: registry.counter("pushes_total", "Pushes sent to Queen", &[]),
            push_failures: registry.counter(
                "push_failures_total",
                "Pushes that Queen refused or left unanswered",
                &[],
            ),
            push_items: registry.histogram(
                "push_records",
                "Records gathered into one push",
                ITEMS,
                &[],
            ),
            push_seconds: registry.histogram(
                "push_seconds",
                "Time until Queen answered a push",
                host::metrics::SECONDS,
                &[],
            ),
            retries: registry.counter(
                "push_retries_total",
                "Pushes tried again on behalf of waiting clients",
                &[],
            ),
            duplicates: registry.counter(
                "push_duplicates_total",
                "Record batches that Queen had stored before",
                &[],
            ),
            lineages: registry.counter(
                "producer_lineages_total",
                "Batches held against the log: another node had the producer before",
                &[],
            ),
            windows: registry.gauge(
                "producer_windows",
                "Sequence windows of idempotent producers",
                &[],
            ),
            window_evictions: registry.counter(
                "producer_window_evictions_total",
                "Sequence windows dropped for room",
                &[],
            ),
        }
    }
}

/// The produce path of a node.
#[derive(Debug)]
pub struct Produce {
    shared: Arc<Shared>,
    gatherers: Mutex<Gatherers>,
    memory: Memory,
    /// The codec each topic was last produced with.
    pub codecs: TopicCodecs,
}

#[derive(Debug)]
struct Gatherers {
    by_credential: IndexMap<CredentialKey, Arc<Gatherer>>,
    lanes: Lanes,
    sweep_at: usize,
}

impl Produce {
    /// A produce path that pushes through `client`. `clustered`: other nodes do too.
    pub fn new(
        host: &Host,
        (client, clustered): (Arc<Client>, bool),
        time_index: Arc<TimeIndex>,
        shutdown: Shutdown,
        registry: &Registry,
    ) -> Self {
        Self {
            shared: Arc::new(Shared {
                client,
                clock: Arc::clone(&host.clock),
                table: Table::new(Limits::default()),
                time_index,
                metrics: Metrics::new(registry),
                shutdown,
                clustered,
                doubts: Doubts::default(),
            }),
            gatherers: Mutex::new(Gatherers {
                by_credential: IndexMap::new(),
                lanes: Lanes::default(),
                sweep_at: FIRST_SWEEP,
            }),
            memory: Memory::new(MEMORY_BYTES),
            codecs: TopicCodecs::default(),
        }
    }

    /// The producers that produced to a topic lately, by partition.
    pub fn active(&self, scope: &Scope, topic: &str) -> BTreeMap<i32, Vec<Active>> {
        self.shared.table.active(scope, topic)
    }

    /// The gatherer of `credential`'s pushes.
    pub fn gatherer(&self, credential: &Credential) -> Arc<Gatherer> {
        let mut gatherers = self
            .gatherers
            .lock()
            .unwrap_or_else(PoisonError::into_inner);
        let key = CredentialKey(credential.clone());
        if let Some(gatherer) = gatherers.by_credential.get(&key) {
            return Arc::clone(gatherer);
        }
        if gatherers.by_credential.len() >= gatherers.sweep_at {
            gatherers
                .by_credential
                .retain(|_, gatherer| Arc::strong_count(gatherer) > 1 || !gatherer.is_idle());
            gatherers.sweep_at = FIRST_SWEEP.max(2 * gatherers.by_credential.len());
        }
        let lane = gatherers.lanes.next();
        let gatherer = Gatherer::new(credential.clone(), Arc::clone(&self.shared), lane);
        gatherers.by_credential.insert(key, Arc::clone(&gatherer));
        gatherer
    }
}

/// A credential as a key of a map. Never printed: `Secret` sees to that.
#[derive(Debug, PartialEq, Eq)]
struct CredentialKey(Credential);

impl Hash for CredentialKey {
    fn hash<H: Hasher>(&self, state: &mut H) {
        self.0
            .bearer
            .as_ref()
            .map(|bearer| bearer.expose())
            .hash(state);
        self.0.host.hash(state);
    }
}
