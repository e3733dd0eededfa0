//! A running Queen: starts the engine, serves listeners, stops. Owns the tasks of its connections.

use std::sync::{Arc, Mutex, PoisonError};

use futures::FutureExt;
use host::service::InProcess;
use host::{Host, Listener};
use tokio::task::JoinHandle;

use crate::PIPE_BYTES;
use crate::faults::Faults;
use crate::http::server;
use crate::node::Node;
use crate::options::Options;
use crate::store::StoreError;

/// One Queen. Clones are the same one.
#[derive(Clone, Debug)]
pub struct Queen {
    node: Arc<Node>,
    serving: Arc<Mutex<Vec<JoinHandle<()>>>>,
}

impl Queen {
    /// Opens the storage and starts the engine. Nothing listens yet.
    ///
    /// # Errors
    /// The storage doesn't open or read back.
    pub async fn start(host: Host, options: Options) -> Result<Self, StoreError> {
        Ok(Self {
            node: Node::start(host, options).await?,
            serving: Arc::default(),
        })
    }

    /// Answers connections of `listener` until [`Queen::stop`].
    pub fn serve(&self, listener: Box<dyn Listener>) {
        let task = tokio::spawn(server::accept(Arc::clone(&self.node), listener));
        self.serving
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
            .push(task);
    }

    /// The handle that injects faults.
    pub fn faults(&self) -> &Faults {
        &self.node.faults
    }

    /// Serves a pipe and hands out its other end.
    pub fn in_process(self) -> InProcess {
        let (connector, listener) = host::pipe::pipe(PIPE_BYTES);
        self.serve(Box::new(listener));
        InProcess {
            connector: Arc::new(connector),
            stop: Box::new(move || async move { self.stop().await }.boxed()),
        }
    }

    /// Stops: no new connections, requests in flight are answered, parked fetches answer at once,
    /// and what was acknowledged is durable when this ends.
    pub async fn stop(&self) {
        self.node.engine.begin_stop();
        let serving =
            std::mem::take(&mut *self.serving.lock().unwrap_or_else(PoisonError::into_inner));
        for task in serving {
            // A panic was reported where it happened.
            let _ = task.await;
        }
        self.node.engine.stop().await;
    }
}
