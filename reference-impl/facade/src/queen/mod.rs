//! The client of Queen: one function per route of its HTTP contract (docs/queen-contract.md), typed
//! results, error classes.
//!
//! May touch the network through [`host::net::Connect`] and nothing else. Never decides a Kafka
//! code (that is `upstream_errors`) and never retries what might be applied twice.

use std::sync::Arc;

use bytes::Bytes;
use host::Host;
use host::answers::Answers;
use host::blocking::Blocking;
use host::budget::BudgetMetrics;
use host::metrics::Registry;
use host::net::Connect;
use http::{HeaderValue, Method};

use crate::config::QueenUrl;

mod body;
mod calls;
mod credential;
mod error;
mod fetch;
mod identity;
pub(crate) mod json;
pub mod kv;
mod push;
mod queues;
mod refusal;
mod rejections;
mod time;
mod transaction;
mod transport;

pub use credential::{Credential, Scope};
pub use error::{Class, Effect, Error, MAX_ERROR_TEXT_CHARS, Refusal, scrub};
pub use fetch::{
    BOUNDS_PROBE, FetchEntry, Fetched, Lane, LaneStatus, MAX_ENTRY_BYTES, MAX_FETCH_ENTRIES,
    MAX_FETCH_WAIT, Named, OffsetsEntry, OffsetsFound, Record,
};
pub use identity::Health;
pub use push::{Fragment, FragmentWriter, MAX_PUSH_BYTES, MAX_PUSH_ITEMS, Pushed};
pub use queues::{
    ChangedEntry, ChangedLanes, Configured, MAX_CHANGED_ENTRIES, MAX_CHANGED_LANES, NamedLane,
    Queue,
};
pub use rejections::Rejections;
pub use transaction::{Bundle, MAX_RIDER_KEYS, MAX_RIDER_OPERATIONS, Rollback};
pub use transport::{
    CALL_TIMEOUT, CONNECT_TIMEOUT, MAX_ANSWER_BYTES, MAX_PARKED_CONNECTIONS,
    MAX_PROMPT_CONNECTIONS, Repeat,
};

/// A client of one Queen. Shared by everything in the process; credentials come with each call.
#[derive(Debug)]
pub struct Client {
    transport: transport::Transport,
    blocking: Blocking,
}

/// The authority cannot be a `Host` header.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("the authority is not a legal Host header")]
pub struct InvalidAuthority;

/// What the Queen of this process is called in the `Host` header.
const EMBEDDED_AUTHORITY: &str = "queen.embedded";

impl Client {
    /// A client that reaches Queen through `connector` and calls it `authority` (`host:port`).
    ///
    /// # Errors
    ///
    /// [`InvalidAuthority`].
    pub fn new(
        host: &Host,
        connector: Arc<dyn Connect>,
        authority: &str,
    ) -> Result<Self, InvalidAuthority> {
        let authority = HeaderValue::from_str(authority).map_err(|_| InvalidAuthority)?;
        Ok(Self::build(host, connector, Some(authority), String::new()))
    }

    /// A client of the Queen at `url`, which `connector` leads to. Every call of a client whose
    /// URL has a host that no header can carry is [`Error::Unsendable`].
    pub fn for_url(host: &Host, connector: Arc<dyn Connect>, url: &QueenUrl) -> Self {
        let (authority, base_path) = match url {
            QueenUrl::Embedded { .. } => (EMBEDDED_AUTHORITY.to_owned(), String::new()),
            QueenUrl::Http {
                host,
                port,
                base_path,
                ..
            } => {
                let authority = if host.contains(':') {
                    format!("[{host}]:{port}")
                } else {
                    format!("{host}:{port}")
                };
                (authority, base_path.clone())
            }
        };
        let authority = HeaderValue::from_str(&authority).ok();
        Self::build(host, connector, authority, base_path)
    }

    /// The same client; its answers hold room in `reads` while they are read and worked on.
    #[must_use]
    pub fn reading_within(mut self, reads: Answers) -> Self {
        self.transport.reads = reads;
        self
    }

    /// The same client; its calls are counted in `registry`.
    #[must_use]
    pub fn counted_in(mut self, registry: &Registry) -> Self {
        self.transport.calls = calls::CallMetrics::register(registry);
        self
    }

    fn build(
        host: &Host,
        connector: Arc<dyn Connect>,
        authority: Option<HeaderValue>,
        base_path: String,
    ) -> Self {
        Self {
            transport: transport::Transport::new(
                connector,
                authority,
                base_path,
                host.clock.clone(),
                // As good as none.
                Answers::new(usize::MAX, &BudgetMetrics::default()),
            ),
            blocking: host.blocking,
        }
    }

    /// The credentials that Queen no longer accepts.
    pub fn rejections(&self) -> &Rejections {
        &self.transport.rejections
    }

    async fn get(&self, path: &str, credential: &Credential) -> Result<Bytes, Error> {
        self.transport
            .call(transport::Call {
                method: Method::GET,
                path: path.into(),
                body: body::Chunks::default(),
                credential,
                timeout: CALL_TIMEOUT,
                wait: transport::Wait::Prompt,
                repeat: Repeat::Safe,
            })
            .await
    }
}

#[cfg(test)]
mod tests;
