//! The real librdkafka, in this process.
//!
//! librdkafka's calls block, so each session is a thread that takes one operation after another.

mod admin;
mod consumer;
mod context;
mod producer;
mod worker;

use std::sync::mpsc;

use futures::FutureExt;
use futures::future::BoxFuture;
use kafka_wire::ApiKey;
use tokio::sync::oneshot;

use self::context::Wiretap;
use super::{Driver, Refusal, Session};
use crate::cx::Recorder;
use crate::spec::Stop;

/// librdkafka as the `rdkafka` crate builds it.
#[derive(Clone, Debug)]
pub struct Librdkafka {
    client: String,
}

impl Librdkafka {
    /// The version that is linked in.
    pub fn new() -> Self {
        let (_, version) = rdkafka::util::get_rdkafka_version();
        Self {
            client: format!("librdkafka {version}"),
        }
    }
}

impl Default for Librdkafka {
    fn default() -> Self {
        Self::new()
    }
}

impl Driver for Librdkafka {
    fn client(&self) -> String {
        self.client.clone()
    }

    fn open<'a>(
        &'a self,
        bootstrap: &'a str,
        record: &'a Recorder,
    ) -> BoxFuture<'a, Result<Box<dyn Session>, Stop>> {
        async move {
            let tap = Wiretap::new(record.clone());
            let (sender, receiver) = mpsc::channel();
            let worker = worker::Worker::new(
                bootstrap.to_owned(),
                tokio::runtime::Handle::current(),
                tap.clone(),
            );
            std::thread::Builder::new()
                .name("librdkafka-session".into())
                .spawn(move || worker.serve(&receiver))
                .map_err(|error| Stop::fail(format!("no thread for a client: {error}")))?;
            Ok(Box::new(InProcess { sender, tap }) as Box<dyn Session>)
        }
        .boxed()
    }
}

/// An operation on its way to the session's thread.
type Job = (
    serde_json::Value,
    oneshot::Sender<Result<serde_json::Value, Refusal>>,
);

struct InProcess {
    /// Dropping it ends the thread.
    sender: mpsc::Sender<Job>,
    tap: Wiretap,
}

impl Session for InProcess {
    fn call(&mut self, op: serde_json::Value) -> BoxFuture<'_, Result<serde_json::Value, Refusal>> {
        async move {
            let gone = || Refusal {
                code: None,
                message: "the client's thread has ended".into(),
            };
            let (answer, heard) = oneshot::channel();
            self.sender.send((op, answer)).map_err(|_| gone())?;
            heard.await.map_err(|_| gone())?
        }
        .boxed()
    }

    fn seen(&self) -> Vec<(ApiKey, i16)> {
        self.tap.seen()
    }
}
