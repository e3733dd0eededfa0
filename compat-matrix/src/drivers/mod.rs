//! Real Kafka clients behind one protocol, so that a scenario is written once.
//!
//! A driver opens sessions; a session takes one operation at a time and answers it, in process or as
//! JSON lines over the standard streams of a child.

mod catalogue;
pub mod librdkafka;
mod process;
pub mod protocol;
#[cfg(test)]
mod shared_files;

use std::fmt;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use futures::future::BoxFuture;

pub use self::catalogue::{Catalogue, CatalogueError, Client, EVERY};
use self::protocol::{Begin, Capabilities, Op};
use crate::spec::Stop;

/// One client at one version.
pub trait Driver: fmt::Debug + Send + Sync {
    /// What it can express.
    fn can(&self) -> &Capabilities;

    /// What starting may cost a check before it is about the server.
    fn starts_within(&self) -> Duration {
        Duration::ZERO
    }

    /// A new session. Its clients connect when an operation needs them.
    ///
    /// # Errors
    ///
    /// [`Stop::Fail`] when the driver itself does not work.
    fn open(&self, begin: Begin) -> BoxFuture<'_, Result<Box<dyn Session>, Stop>>;
}

/// A running client. Dropping it ends what it had open.
pub trait Session: Send {
    /// One operation and its answer.
    ///
    /// # Errors
    ///
    /// The client's failure, or the driver's.
    fn call<'a>(&'a mut self, op: &'a Op) -> BoxFuture<'a, Result<serde_json::Value, Refusal>>;

    /// What the driver says beside its answers.
    fn words(&self) -> Words;
}

/// An operation that is not done.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Refusal {
    /// The Kafka error code's name where there is one: `TOPIC_ALREADY_EXISTS`.
    pub code: Option<String>,
    /// The client's own words.
    pub message: String,
    /// The client has no way to do it, whatever the server says.
    pub unable: bool,
}

impl Refusal {
    /// A failure without a code.
    pub fn failed(message: impl Into<String>) -> Self {
        Self {
            code: None,
            message: message.into(),
            unable: false,
        }
    }

    /// The client cannot do it.
    pub fn unable(why: impl Into<String>) -> Self {
        Self {
            unable: true,
            ..Self::failed(why)
        }
    }
}

impl From<Refusal> for Stop {
    fn from(refusal: Refusal) -> Self {
        match refusal.code {
            _ if refusal.unable => Self::Unable(refusal.message),
            Some(code) => Self::refused(format!("{code}: {}", refusal.message), code),
            None => Self::fail(refusal.message),
        }
    }
}

/// The last lines that a driver wrote beside its answers. Cheap to clone; all clones share it.
#[derive(Clone, Debug, Default)]
pub struct Words(Arc<Mutex<std::collections::VecDeque<String>>>);

/// Lines that are kept of a driver's words, the newest ones.
const KEPT_LINES: usize = 30;
/// Bytes that are kept of each.
const KEPT_BYTES: usize = 400;

impl Words {
    /// Adds a line.
    pub fn say(&self, line: &str) {
        let mut end = line.len().min(KEPT_BYTES);
        while !line.is_char_boundary(end) {
            end -= 1;
        }
        // Lines are pushed whole.
        let mut lines = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        if lines.len() == KEPT_LINES {
            lines.pop_front();
        }
        lines.push_back(line[..end].to_owned());
    }

    /// Everything that is kept, and forgets it.
    pub fn take(&self) -> Vec<String> {
        let mut lines = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        std::mem::take(&mut *lines).into()
    }
}

#[cfg(test)]
mod tests {
    use super::{KEPT_BYTES, KEPT_LINES, Refusal, Words};
    use crate::spec::Stop;

    #[test]
    fn words_are_bounded_in_lines_and_bytes() {
        let words = Words::default();
        for n in 0..KEPT_LINES + 5 {
            words.say(&format!("{n}{}", "ü".repeat(KEPT_BYTES)));
        }
        let lines = words.take();
        assert_eq!(lines.len(), KEPT_LINES);
        assert!(lines[0].starts_with("5ü") && lines[0].len() <= KEPT_BYTES);
        assert!(words.take().is_empty());
    }

    #[test]
    fn what_a_client_cannot_do_is_no_failure_of_the_server() {
        assert_eq!(
            Stop::from(Refusal::unable("no zstd")),
            Stop::Unable("no zstd".into())
        );
    }
}
