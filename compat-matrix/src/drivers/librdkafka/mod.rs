//! The real librdkafka, in this process.
//!
//! librdkafka's calls block, so each session is a thread that takes one operation after another.

mod admin;
mod consumer;
mod context;
mod producer;
mod settings;
mod transactions;
mod worker;

use std::sync::mpsc;

use futures::FutureExt;
use futures::future::BoxFuture;
use tokio::sync::oneshot;

use super::protocol::{Begin, Capabilities, Op};
use super::{Driver, Refusal, Session, Words};
use crate::spec::Stop;

/// What the `rdkafka` crate has no call for, and what this build of librdkafka leaves out.
const LACKS: &[&str] = &[
    "change_topic_config",
    "list_offsets",
    "group_offsets",
    "alter_group_offsets",
    "delete_group_offsets",
    "describe_cluster",
    "describe_log_dirs",
    "assignor.sticky",
];

/// Everything that it cannot do.
fn lacks() -> Vec<&'static str> {
    [LACKS, &Op::FRAMEWORKS].concat()
}

/// librdkafka as the `rdkafka` crate builds it.
#[derive(Clone, Debug)]
pub struct Librdkafka {
    label: String,
    can: Capabilities,
}

impl Librdkafka {
    /// The version that is linked in.
    pub fn new() -> Self {
        let (_, version) = rdkafka::util::get_rdkafka_version();
        Self {
            label: format!("librdkafka {version}"),
            // A test holds the names to be right.
            can: Capabilities::all_but(&lacks()).unwrap_or_default(),
        }
    }

    /// Name and version.
    pub fn label(&self) -> &str {
        &self.label
    }
}

impl Default for Librdkafka {
    fn default() -> Self {
        Self::new()
    }
}

impl Driver for Librdkafka {
    fn can(&self) -> &Capabilities {
        &self.can
    }

    fn open(&self, begin: Begin) -> BoxFuture<'_, Result<Box<dyn Session>, Stop>> {
        async move {
            let words = Words::default();
            let (sender, receiver) = mpsc::channel();
            let worker =
                worker::Worker::new(begin, tokio::runtime::Handle::current(), words.clone());
            std::thread::Builder::new()
                .name("librdkafka-session".into())
                .spawn(move || worker.serve(&receiver))
                .map_err(|error| Stop::fail(format!("no thread for a client: {error}")))?;
            Ok(Box::new(InProcess { sender, words }) as Box<dyn Session>)
        }
        .boxed()
    }
}

/// An operation on its way to the session's thread.
type Job = (Op, oneshot::Sender<Result<serde_json::Value, Refusal>>);

struct InProcess {
    /// Dropping it ends the thread.
    sender: mpsc::Sender<Job>,
    words: Words,
}

impl Session for InProcess {
    fn call<'a>(&'a mut self, op: &'a Op) -> BoxFuture<'a, Result<serde_json::Value, Refusal>> {
        async move {
            let gone = || Refusal::failed("the client's thread has ended");
            let (answer, heard) = oneshot::channel();
            self.sender.send((op.clone(), answer)).map_err(|_| gone())?;
            heard.await.map_err(|_| gone())?
        }
        .boxed()
    }

    fn words(&self) -> Words {
        self.words.clone()
    }
}

#[cfg(test)]
mod tests {
    use super::{Librdkafka, lacks};
    use crate::drivers::Driver as _;
    use crate::drivers::protocol::Capabilities;

    #[test]
    fn what_is_lacking_are_capabilities() {
        let expected = Capabilities::all_but(&lacks()).unwrap();
        assert_eq!(Librdkafka::new().can(), &expected);
    }
}
