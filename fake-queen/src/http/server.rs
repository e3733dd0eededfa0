//! Accepting and serving connections over any `host::Listener`.

use std::error::Error;
use std::pin::pin;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use bytes::Bytes;
use host::{BoxStream, Listener};
use http::{Request, Response};
use http_body_util::Full;
use hyper::body::{Body, Incoming};
use hyper::service::service_fn;
use hyper_util::rt::{TokioIo, TokioTimer};
use tokio::sync::Semaphore;
use tokio::task::{JoinHandle, JoinSet};

use super::reply::Reply;
use crate::node::Node;
use crate::routes;

/// Connections at once; more wait to be accepted. Well above what one facade parks (4096) and keeps
/// for prompt calls, so that readers who wait never keep a push out.
const MAX_CONNECTIONS: usize = 8192;
/// How long a connection may go without a complete request head: longer than clients' pools keep
/// idle connections, so that none of them sends into a connection that is just being closed.
const IDLE_TIMEOUT: Duration = Duration::from_secs(600);
/// What waits after a failed accept (too many open files).
const ACCEPT_PAUSE: Duration = Duration::from_millis(50);
/// How long requests in flight have to be answered once the Queen stops.
const DRAIN: Duration = Duration::from_secs(10);

/// Who answers the requests of a listener: a Queen, or the proxy before one.
pub trait Site: Send + Sync + 'static {
    /// Of its answers.
    type Body: Body<Data = Bytes, Error: Into<Box<dyn Error + Send + Sync>>> + Send;

    /// Ends when nobody is to be served any more.
    fn stopping(&self) -> impl Future<Output = ()> + Send;

    /// Answers a request.
    ///
    /// # Errors
    /// The connection is to be cut.
    fn answer(
        self: Arc<Self>,
        request: Request<Incoming>,
    ) -> impl Future<Output = Result<Response<Self::Body>, HangUp>> + Send;
}

/// The listeners that a site is served on. Clones share them.
#[derive(Clone, Debug, Default)]
pub struct Serving(Arc<Mutex<Vec<JoinHandle<()>>>>);

impl Serving {
    /// Answers connections of `listener` until the site stops.
    pub fn serve<S: Site>(&self, site: Arc<S>, listener: Box<dyn Listener>) {
        let task = tokio::spawn(accept(site, listener));
        self.0
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
            .push(task);
    }

    /// Waits until no listener is left of those served before.
    pub async fn ended(&self) {
        let serving = std::mem::take(&mut *self.0.lock().unwrap_or_else(PoisonError::into_inner));
        for task in serving {
            // A panic was reported where it happened.
            let _ = task.await;
        }
    }
}

/// Serves `listener` until the site stops and its connections ended.
async fn accept<S: Site>(site: Arc<S>, mut listener: Box<dyn Listener>) {
    let slots = Arc::new(Semaphore::new(MAX_CONNECTIONS));
    let mut connections = JoinSet::new();
    loop {
        let next = async {
            let slot = Arc::clone(&slots).acquire_owned().await;
            (slot, listener.accept().await)
        };
        tokio::select! {
            biased;
            () = site.stopping() => break,
            Some(_) = connections.join_next() => {}
            (slot, accepted) = next => match accepted {
                Ok(stream) => {
                    let site = Arc::clone(&site);
                    connections.spawn(async move {
                        serve(site, stream).await;
                        drop(slot);
                    });
                }
                Err(error) => {
                    tracing::debug!(%error, "accept failed");
                    tokio::time::sleep(ACCEPT_PAUSE).await;
                }
            }
        }
    }
    drop(listener);
    let drained = async { while connections.join_next().await.is_some() {} };
    if tokio::time::timeout(DRAIN, drained).await.is_err() {
        connections.shutdown().await;
    }
}

async fn serve<S: Site>(site: Arc<S>, stream: BoxStream) {
    let service = service_fn(|request| Arc::clone(&site).answer(request));
    let mut http = hyper::server::conn::http1::Builder::new();
    http.auto_date_header(false)
        .timer(TokioTimer::new())
        .header_read_timeout(IDLE_TIMEOUT);
    let mut connection = pin!(http.serve_connection(TokioIo::new(stream), service));
    let ended = tokio::select! {
        biased;
        ended = connection.as_mut() => ended,
        () = site.stopping() => {
            connection.as_mut().graceful_shutdown();
            connection.await
        }
    };
    if let Err(error) = ended {
        tracing::trace!(%error, "connection ended");
    }
}

/// Whether a request says in one way where it is meant to go.
pub fn has_one_host(headers: &http::HeaderMap) -> bool {
    headers.get_all(http::header::HOST).iter().count() <= 1
}

/// The connection is to be cut without an answer.
#[derive(Debug, thiserror::Error)]
#[error("cut by an injected fault")]
pub struct HangUp;

impl Site for Node {
    type Body = Full<Bytes>;

    fn stopping(&self) -> impl Future<Output = ()> + Send {
        self.engine.shared.stopping()
    }

    async fn answer(
        self: Arc<Self>,
        request: Request<Incoming>,
    ) -> Result<Response<Self::Body>, HangUp> {
        routes::answer(&self, request)
            .await
            .map(Reply::into_response)
    }
}
