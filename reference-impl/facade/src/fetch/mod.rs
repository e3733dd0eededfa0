//! Fetch: what a consumer asks for, read from Queen in as few calls as there are chunks of lanes.
//!
//! [`plan`] turns a request into lanes to read; [`poll`] reads them, parked together until one has
//! news; [`assemble`] fills the response in reading order; [`surplus`] keeps what was read beyond
//! the response. May touch Queen's fetch route, memory and nothing else.

pub mod assemble;
pub mod bounds;
pub mod plan;
pub mod poll;
pub mod surplus;

#[cfg(test)]
mod tests;

use std::sync::{Arc, Mutex, PoisonError};

use coordinator::fetch_session::{FetchSessions, Limits};
use host::metrics::{Counter, Gauge, Registry};
use uuid::Uuid;

use surplus::Surplus;

/// A topic as a fetch session names it.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum TopicKey {
    /// Below version 13.
    Name(Arc<str>),
    /// From version 13 on.
    Id(Uuid),
}

/// The fetch path of a node.
#[derive(Debug)]
pub struct Fetching {
    sessions: Mutex<FetchSessions<TopicKey>>,
    /// Records that were read and not yet delivered.
    pub surplus: Surplus,
    /// The series.
    pub metrics: Metrics,
}

/// The series of the fetch path.
#[derive(Debug)]
pub struct Metrics {
    /// Calls of Queen's fetch route.
    pub calls: Counter,
    /// Records delivered.
    pub records: Counter,
    /// Bytes of record batches delivered.
    pub bytes: Counter,
    /// Partitions answered from what was read before.
    pub surplus_hits: Counter,
    /// Times that were looked up as if timestamps rose, because too much was unknown.
    pub guessed_times: Counter,
    sessions: Gauge,
    session_partitions: Gauge,
    surplus_bytes: Gauge,
}

impl Fetching {
    /// A fetch path without sessions, and room for as many as `limits` say.
    pub fn new(limits: Limits, registry: &Registry) -> Self {
        Self {
            sessions: Mutex::new(FetchSessions::new(limits)),
            surplus: Surplus::default(),
            metrics: Metrics::new(registry),
        }
    }

    /// Works on the sessions.
    pub fn sessions<T>(&self, work: impl FnOnce(&mut FetchSessions<TopicKey>) -> T) -> T {
        let mut sessions = self.sessions.lock().unwrap_or_else(PoisonError::into_inner);
        let result = work(&mut sessions);
        let gauge = |n: usize| i64::try_from(n).unwrap_or(i64::MAX);
        self.metrics.sessions.set(gauge(sessions.len()));
        self.metrics
            .session_partitions
            .set(gauge(sessions.partitions()));
        self.metrics
            .surplus_bytes
            .set(gauge(self.surplus.held_bytes()));
        result
    }
}

impl Metrics {
    fn new(registry: &Registry) -> Self {
        let counter = |name, help| registry.counter(name, help, &[]);
        let gauge = |name, help| registry.gauge(name, help, &[]);
        Self {
            calls: counter("fetch_calls_total", "Calls of Queen's fetch route"),
            records: counter("fetched_records_total", "Records delivered"),
            bytes: counter("fetched_bytes_total", "Bytes of record batches delivered"),
            surplus_hits: counter(
                "fetch_surplus_hits_total",
                "Partitions answered from records read before",
            ),
            guessed_times: counter(
                "guessed_times_total",
                "Lookups by time that supposed rising timestamps",
            ),
            sessions: gauge("fetch_sessions", "Fetch sessions"),
            session_partitions: gauge(
                "fetch_session_partitions",
                "Partitions of all fetch sessions",
            ),
            surplus_bytes: gauge(
                "fetch_surplus_bytes",
                "Bytes read from Queen and not yet delivered",
            ),
        }
    }
}
