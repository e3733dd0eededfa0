//! A producer: records in batches, several requests in flight, sent again until they are stored or
//! their time is over.
//!
//! [`core`] decides; the task here speaks to the cluster and writes the history. Records are
//! [`Value`]s, so that checkers can tell who wrote what.

pub mod core;
pub(in crate::client) mod request;
mod task;
pub mod writer;

use bytes::Bytes;
use kafka_wire::ErrorCode;
use tokio::sync::{mpsc, oneshot};
use tokio::task::AbortHandle;

use super::Client;
use super::cluster::Cluster;
pub(crate) use request::digest;
use task::{Command, Task};

use crate::history::{Name, Value};

pub use writer::{Plan, Writer};

/// A record to be written.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Record {
    /// Where to.
    pub topic: Name,
    /// Where to; the profile's partitioner chooses when it is left open.
    pub partition: Option<i32>,
    /// Its key.
    pub key: Option<Bytes>,
    /// Its value.
    pub value: Value,
}

/// Where a record is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Delivered {
    /// The partition.
    pub partition: i32,
    /// The offset, where the broker told.
    pub offset: Option<i64>,
}

/// Why a record is not known to be stored.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum SendError {
    /// The broker refused it: it is not stored.
    #[error("refused: {0:?}")]
    Refused(ErrorCode),
    /// Its time was over before it was sent: it is not stored.
    #[error("given up before it was sent")]
    GivenUp,
    /// It may be stored, or not.
    #[error("given up in doubt")]
    Unknown,
    /// The producer has ended.
    #[error("the producer has ended")]
    Closed,
}

/// The fate of a record, once it is known.
#[derive(Debug)]
pub struct Delivery(oneshot::Receiver<Result<Delivered, SendError>>);

impl Delivery {
    /// Waits for it.
    ///
    /// # Errors
    ///
    /// [`SendError`].
    pub async fn result(self) -> Result<Delivered, SendError> {
        self.0.await.unwrap_or(Err(SendError::Closed))
    }
}

/// A running producer. Dropping it ends it at once, as a crash does.
#[derive(Debug)]
pub struct Producer {
    commands: mpsc::UnboundedSender<Command>,
    task: AbortHandle,
}

impl Drop for Producer {
    fn drop(&mut self) {
        self.task.abort();
    }
}

impl Producer {
    /// Starts a producer.
    pub fn start(client: Client) -> Self {
        let (commands, orders) = mpsc::unbounded_channel();
        let task = Task::new(Cluster::new(client), orders);
        let task = tokio::spawn(task.run()).abort_handle();
        Self { commands, task }
    }

    /// Hands over a record. Records of a partition are stored in the order of these calls, as far
    /// as the profile promises that.
    pub fn send(&self, record: Record) -> Delivery {
        let (done, delivery) = oneshot::channel();
        // When the task has ended, the delivery says so.
        let _ = self.commands.send(Command::Send { record, done });
        Delivery(delivery)
    }

    /// Sends what is there without waiting for more, and waits until every record's fate is known.
    pub async fn flush(&self) {
        let (done, flushed) = oneshot::channel();
        if self.commands.send(Command::Flush(done)).is_ok() {
            // An error says that the task has ended, and every fate with it.
            let _ = flushed.await;
        }
    }
}
