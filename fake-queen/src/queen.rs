//! A running Queen: starts the engine, serves listeners, stops. Owns the tasks of its connections.

use std::sync::Arc;

use host::service::InProcess;
use host::{Host, Listener};

use crate::PIPE_BYTES;
use crate::faults::Faults;
use crate::http::server::Serving;
use crate::ids::TenantId;
use crate::node::Node;
use crate::options::Options;
use crate::store::StoreError;

/// One Queen. Clones are the same one.
#[derive(Clone, Debug)]
pub struct Queen {
    node: Arc<Node>,
    serving: Serving,
}

impl Queen {
    /// Opens the storage and starts the engine. Nothing listens yet.
    ///
    /// # Errors
    /// The storage doesn't open or read back.
    pub async fn start(host: Host, options: Options) -> Result<Self, StoreError> {
        Ok(Self {
            node: Node::start(host, options).await?,
            serving: Serving::default(),
        })
    }

    /// Answers connections of `listener` until [`Queen::stop`].
    pub fn serve(&self, listener: Box<dyn Listener>) {
        self.serving.serve(Arc::clone(&self.node), listener);
    }

    /// Gives or takes a tenant's grant to write KV rows, which it needs where
    /// [`Options::kv_require_grant`] is on.
    pub fn grant_kv(&self, tenant: TenantId, granted: bool) {
        self.node.admission.set_granted(tenant, granted);
    }

    /// The handle that injects faults.
    pub fn faults(&self) -> &Faults {
        &self.node.faults
    }

    /// Serves a pipe and hands out its other end.
    pub fn in_process(self) -> InProcess {
        let served = self.clone();
        InProcess::piped(
            PIPE_BYTES,
            |listener| served.serve(listener),
            move || async move { self.stop().await },
        )
    }

    /// Stops: no new connections, requests in flight are answered, parked fetches answer at once,
    /// and what was acknowledged is durable when this ends.
    pub async fn stop(&self) {
        self.node.engine.begin_stop();
        self.serving.ended().await;
        self.node.engine.stop().await;
    }
}
