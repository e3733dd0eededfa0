//! A service that runs inside this process and is reached like a remote one.

use std::fmt;
use std::sync::Arc;

use futures::future::BoxFuture;

use crate::net::Connect;

/// An embedded service: how to reach it, and how to stop it.
pub struct InProcess {
    /// New streams to the service.
    pub connector: Arc<dyn Connect>,
    /// Stops it: what it acknowledged is durable when the future ends.
    pub stop: Box<dyn FnOnce() -> BoxFuture<'static, ()> + Send>,
}

impl fmt::Debug for InProcess {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("InProcess")
            .field("connector", &self.connector)
            .finish_non_exhaustive()
    }
}
