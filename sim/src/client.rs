//! Kafka clients over `host`: they know the protocol's bytes and the simulated time, and nothing of
//! the servers. What they ask and hear goes into the history.
//!
//! A [`Client`] is who somebody is; [`producer::Producer`], [`transactional::TransactionalProducer`],
//! [`consumer::Consumer`] and [`admin::Admin`] are what one does. How they behave where libraries differ is a [`Profile`].

pub mod access;
pub mod admin;
mod api;
pub mod backoff;
pub mod cluster;
mod connection;
pub mod consumer;
pub mod partitioner;
pub mod producer;
pub mod profile;
pub mod reader;
mod records;
pub mod transactional;

use std::time::Duration;

use host::{Host, Monotonic};
use kafka_protocol::messages::{GroupId, TopicName};
use kafka_protocol::protocol::StrBytes;
use kafka_wire::{ApiKey, ErrorCode};

pub use access::Access;
pub use connection::{CallError, Connection, Ticket};
pub use profile::Profile;

use crate::history::{Event, Isolation, Name, Promise, Recorder};

/// What one client is.
#[derive(Clone, Debug)]
pub struct Client {
    /// The machine it runs on.
    pub host: Host,
    /// How it behaves.
    pub profile: &'static Profile,
    /// What it calls itself.
    pub id: Name,
    /// `bootstrap.servers`: name and port.
    pub bootstrap: (String, u16),
    /// How it gets to its brokers.
    pub access: Access,
    /// What it did.
    pub recorder: Recorder,
}

impl Client {
    /// Says in the history what this is and what may be demanded of it.
    pub fn introduce(&self, mut promises: Vec<Promise>) {
        if self.profile.obeys_throttle {
            promises.push(Promise::ObeysThrottle);
        }
        if self.access.struck {
            promises.retain(|promise| *promise != Promise::NeverRefused);
        }
        if self.access.undisturbed {
            promises.push(Promise::Undisturbed);
        }
        self.record(Event::Client {
            profile: self.profile.name.into(),
            promises,
        });
    }

    /// Records what it did or saw.
    pub fn record(&self, event: Event) {
        self.recorder.record(&self.id, event);
    }

    /// Says in the trace, and where it is the server's fault in the history, what went wrong.
    pub fn lament(&self, error: &CallError) {
        self.note(format_args!("! {error}"));
        if let CallError::Malformed(what) = error {
            self.record(Event::Malformed { what: what.clone() });
        }
    }

    fn note(&self, what: std::fmt::Arguments<'_>) {
        self.recorder.note(self.id.as_str(), what);
    }

    fn now(&self) -> Monotonic {
        self.host.clock.monotonic()
    }

    fn wall_ms(&self) -> i64 {
        self.host.clock.wall().epoch_ms()
    }

    /// A request is about to be written.
    fn asked(&self, connection: u64, (key, version): (ApiKey, i16), correlation: i32) {
        self.note(format_args!(
            "? {key} v{version} #{correlation} on {connection}"
        ));
        self.record(Event::Asked {
            connection,
            api: key.0,
            version,
            correlation,
        });
    }

    /// A good answer came.
    fn answered(
        &self,
        connection: u64,
        (key, version): (ApiKey, i16),
        correlation: i32,
        throttle: Duration,
    ) {
        self.note(format_args!(
            "= {key} v{version} #{correlation} on {connection}"
        ));
        self.record(Event::Answered {
            connection,
            api: key.0,
            version,
            correlation,
            throttle_ms: u32::try_from(throttle.as_millis()).unwrap_or(u32::MAX),
        });
    }

    /// Waits as long as the profile does after so many failures in a row.
    async fn back_off(&self, failures: u32) {
        let wait = self
            .profile
            .retry
            .after(failures, self.host.entropy.as_ref());
        tokio::time::sleep(wait).await;
    }
}

/// The wire's type of a topic's name.
fn topic_name(topic: &Name) -> TopicName {
    TopicName(StrBytes::from_string(topic.as_str().to_owned()))
}

/// The wire's type of a group's name.
fn group_id(group: &Name) -> GroupId {
    GroupId(text(group))
}

/// The wire's type of a text.
fn text(name: &Name) -> StrBytes {
    StrBytes::from_string(name.as_str().to_owned())
}

/// A name off the wire.
fn name(text: &StrBytes) -> Name {
    Name::from(text.as_str())
}

/// A number of milliseconds as the wire has it.
fn millis(duration: Duration) -> i32 {
    i32::try_from(duration.as_millis()).unwrap_or(i32::MAX)
}

/// `isolation_level` as the wire has it.
fn level(isolation: Isolation) -> i8 {
    match isolation {
        Isolation::ReadUncommitted => 0,
        Isolation::ReadCommitted => 1,
    }
}

/// The code, if it is one.
fn error_code(code: i16) -> Result<ErrorCode, CallError> {
    ErrorCode::from_code(code)
        .ok_or_else(|| CallError::malformed(format!("unknown error code {code}")))
}

fn refused(code: i16) -> Result<(), CallError> {
    match error_code(code)? {
        ErrorCode::None => Ok(()),
        code => Err(CallError::Refused(code)),
    }
}
