//! A service that runs inside this process and is reached like a remote one.

use std::fmt;
use std::sync::Arc;

use futures::FutureExt;
use futures::future::BoxFuture;

use crate::net::{Connect, Listener};
use crate::pipe::pipe;

/// An embedded service: how to reach it, and how to stop it.
pub struct InProcess {
    /// New streams to the service.
    pub connector: Arc<dyn Connect>,
    /// Stops it: what it acknowledged is durable when the future ends.
    pub stop: Box<dyn FnOnce() -> BoxFuture<'static, ()> + Send>,
}

impl InProcess {
    /// A service that `serve` serves on a pipe whose directions hold `pipe_bytes` each.
    pub fn piped<S: Future<Output = ()> + Send + 'static>(
        pipe_bytes: usize,
        serve: impl FnOnce(Box<dyn Listener>),
        stop: impl FnOnce() -> S + Send + 'static,
    ) -> Self {
        let (connector, listener) = pipe(pipe_bytes);
        serve(Box::new(listener));
        Self {
            connector: Arc::new(connector),
            stop: Box::new(|| stop().boxed()),
        }
    }
}

impl fmt::Debug for InProcess {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("InProcess")
            .field("connector", &self.connector)
            .finish_non_exhaustive()
    }
}
