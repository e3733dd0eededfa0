//! Real Kafka clients behind one protocol, so that a scenario is written once.
//!
//! A driver opens sessions; a session takes one operation at a time and answers it, in process or as
//! JSON lines over the standard streams of a child. What a session saw its client send (API and
//! version) goes to the check's record, because a report shows versions that were really used.

pub mod librdkafka;
pub mod protocol;

use std::fmt;

use futures::future::BoxFuture;
use kafka_wire::ApiKey;

use crate::cx::Recorder;
use crate::spec::Stop;

/// One client at one version.
pub trait Driver: fmt::Debug + Send + Sync {
    /// Name and version as reports show them: `librdkafka 2.12.1`.
    fn client(&self) -> String;

    /// A new session against `bootstrap`. It tells `record` every API and version it sees.
    fn open<'a>(
        &'a self,
        bootstrap: &'a str,
        record: &'a Recorder,
    ) -> BoxFuture<'a, Result<Box<dyn Session>, Stop>>;
}

/// A running client.
pub trait Session: Send {
    /// One operation and its answer, both JSON objects: `{"op":"produce","topic":…}`.
    fn call(&mut self, op: serde_json::Value) -> BoxFuture<'_, Result<serde_json::Value, Refusal>>;

    /// The APIs and versions that the client has used so far.
    fn seen(&self) -> Vec<(ApiKey, i16)>;
}

/// An operation that the client reports as failed.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Refusal {
    /// The Kafka error code's name where there is one: `TOPIC_ALREADY_EXISTS`.
    pub code: Option<String>,
    /// The client's own words.
    pub message: String,
}

impl From<Refusal> for Stop {
    fn from(refusal: Refusal) -> Self {
        match refusal.code {
            Some(code) => Self::refused(format!("{code}: {}", refusal.message), code),
            None => Self::fail(refusal.message),
        }
    }
}
