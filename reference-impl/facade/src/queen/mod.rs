//! The client of Queen: one function per route of its HTTP contract, typed results, error classes.
//!
//! May touch the network through [`host::net::Connect`] and nothing else. Never decides a Kafka
//! code (that is `upstream_errors`) and never retries what might be applied twice.

use std::sync::Arc;

use bytes::Bytes;
use host::Host;
use host::blocking::Blocking;
use host::net::Connect;
use http::{HeaderValue, Method};

mod body;
mod credential;
mod error;
mod fetch;
mod identity;
pub(crate) mod json;
pub mod kv;
mod push;
mod queues;
mod refusal;
mod time;
mod transaction;
mod transport;

pub use credential::{Credential, Scope};
pub use error::{Class, Effect, Error, MAX_ERROR_TEXT_CHARS, Refusal, scrub};
pub use fetch::{
    BOUNDS_PROBE, FetchEntry, Fetched, Lane, LaneStatus, MAX_ENTRY_BYTES, MAX_FETCH_ENTRIES,
    MAX_FETCH_WAIT, OffsetsEntry, OffsetsFound, Record,
};
pub use identity::Health;
pub use push::{Fragment, FragmentWriter, MAX_PUSH_BYTES, MAX_PUSH_ITEMS, Pushed};
pub use queues::{
    ChangedEntry, ChangedLanes, Configured, MAX_CHANGED_ENTRIES, MAX_CHANGED_LANES, NamedLane,
    Queue,
};
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

/// A part of `QUEEN_URL` cannot stand in a request.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("the URL's authority or path cannot stand in an HTTP request")]
pub struct InvalidUrl;

impl Client {
    /// A client that reaches Queen through `connector`, calls it `authority` (`host:port`) and
    /// puts `base_path` (without a trailing slash, often empty) before every route.
    ///
    /// # Errors
    ///
    /// [`InvalidUrl`].
    pub fn new(
        host: &Host,
        connector: Arc<dyn Connect>,
        authority: &str,
        base_path: &str,
    ) -> Result<Self, InvalidUrl> {
        let authority = HeaderValue::from_str(authority).map_err(|_| InvalidUrl)?;
        if !base_path.is_empty()
            && !(base_path.starts_with('/') && base_path.parse::<http::Uri>().is_ok())
        {
            return Err(InvalidUrl);
        }
        Ok(Self {
            transport: transport::Transport::new(
                connector,
                authority,
                base_path.to_owned(),
                host.clock.clone(),
            ),
            blocking: host.blocking,
        })
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
