//! Accepting and serving connections over any `host::Listener`.

use std::pin::pin;
use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use host::{BoxStream, Listener};
use http::{Request, Response};
use http_body_util::Full;
use hyper::body::Incoming;
use hyper::service::service_fn;
use hyper_util::rt::{TokioIo, TokioTimer};
use tokio::sync::Semaphore;
use tokio::task::JoinSet;

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

/// Serves `listener` until the Queen stops and its connections ended.
pub async fn accept(node: Arc<Node>, mut listener: Box<dyn Listener>) {
    let slots = Arc::new(Semaphore::new(MAX_CONNECTIONS));
    let mut connections = JoinSet::new();
    loop {
        let next = async {
            let slot = Arc::clone(&slots).acquire_owned().await;
            (slot, listener.accept().await)
        };
        tokio::select! {
            biased;
            () = node.engine.shared.stopping() => break,
            Some(_) = connections.join_next() => {}
            (slot, accepted) = next => match accepted {
                Ok(stream) => {
                    let node = Arc::clone(&node);
                    connections.spawn(async move {
                        serve(node, stream).await;
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

async fn serve(node: Arc<Node>, stream: BoxStream) {
    let service = service_fn(|request| answer(Arc::clone(&node), request));
    let mut http = hyper::server::conn::http1::Builder::new();
    http.auto_date_header(false)
        .timer(TokioTimer::new())
        .header_read_timeout(IDLE_TIMEOUT);
    let mut connection = pin!(http.serve_connection(TokioIo::new(stream), service));
    let ended = tokio::select! {
        biased;
        ended = connection.as_mut() => ended,
        () = node.engine.shared.stopping() => {
            connection.as_mut().graceful_shutdown();
            connection.await
        }
    };
    if let Err(error) = ended {
        tracing::trace!(%error, "connection ended");
    }
}

/// The connection is to be cut without an answer.
#[derive(Debug, thiserror::Error)]
#[error("cut by an injected fault")]
pub struct HangUp;

async fn answer(
    node: Arc<Node>,
    request: Request<Incoming>,
) -> Result<Response<Full<Bytes>>, HangUp> {
    routes::answer(&node, request)
        .await
        .map(Reply::into_response)
}
