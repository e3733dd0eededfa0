//! The Kafka listener: accepted connections and the loop that serves each of them.

mod connection;
mod ending;
mod requests;

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use bytes::Bytes;
use futures::FutureExt;
use futures::future::BoxFuture;
use host::accept::{Admission, accept};
use host::frame::ReadLimits;
use host::gate::{Gate, GateLimits, Slot, Standing};
use host::sampled::Samplers;
use host::{BoxStream, Listener};

use kafka_wire::header::RequestHeader;

use crate::context::{Context, Node, Reply, Session, SessionId};
use crate::dispatch::{self, Refusal};
use crate::queen::Credential;
use connection::Connection;

/// The largest request frame.
pub const MAX_FRAME_BYTES: u32 = 100 * 1024 * 1024;
/// The largest request frame before authentication.
pub const MAX_UNAUTHENTICATED_FRAME_BYTES: u32 = 64 * 1024;
/// How long a connection may say nothing between requests.
pub const IDLE: Duration = Duration::from_secs(600);
/// How long a connection may say nothing inside a request.
pub const STALL: Duration = Duration::from_secs(30);

/// Runs the handler of a request.
type Dispatch = fn(Context, RequestHeader) -> BoxFuture<'static, Handled>;
/// What a handler answers.
type Handled = Result<Reply<Bytes>, Refusal>;

/// What the connections of one listener share.
#[derive(Debug)]
struct Shared {
    node: Arc<Node>,
    /// One line per window for connections that end badly.
    complaints: Samplers<ending::Kind>,
    dispatch: Dispatch,
}

/// Serves the listener until the node drains. Connections are tasks of their own, which the stop of
/// the node waits for.
pub async fn serve(node: Arc<Node>, listener: Box<dyn Listener>) {
    serve_with(node, listener, |cx, header| {
        async move { dispatch::dispatch(&cx, header).await }.boxed()
    })
    .await;
}

async fn serve_with(node: Arc<Node>, listener: Box<dyn Listener>, dispatch: Dispatch) {
    let limits = &node.config.listener;
    let gate = GateLimits {
        max_connections: limits.max_connections,
        max_unauthenticated: limits.max_unauthenticated,
        max_per_address: limits.max_connections_per_ip,
    };
    let admission = Admission {
        gate: Gate::new(gate, node.metrics.gate.clone()),
        // A peer is a stranger until its TLS handshake, and its SASL, have ended.
        standing: match node.tls.is_some() || node.config.security.sasl.is_some() {
            true => Standing::Unauthenticated,
            false => Standing::Authenticated,
        },
        auth_timeout: limits.auth_timeout,
    };
    let shared = Arc::new(Shared {
        complaints: Samplers::default(),
        node: Arc::clone(&node),
        dispatch,
    });
    let ids = AtomicU64::new(0);
    let (clock, shutdown) = (Arc::clone(&node.host.clock), node.shutdown.clone());
    accept(listener, admission, clock, shutdown, move |stream, slot| {
        let id = SessionId(ids.fetch_add(1, Ordering::Relaxed));
        serve_connection(Arc::clone(&shared), id, stream, slot)
    })
    .await;
}

async fn serve_connection(shared: Arc<Shared>, id: SessionId, stream: BoxStream, mut slot: Slot) {
    let (node, peer) = (&shared.node, stream.peer_addr());
    let (stream, server_name) = match &node.tls {
        None => (stream, None),
        Some(acceptor) => match acceptor.accept(stream).await {
            Ok(accepted) => (accepted.stream, accepted.server_name),
            Err(error) => return ending::report_handshake(&shared, id, peer, &error),
        },
    };
    let security = &node.config.security;
    let authenticates = security.sasl.is_some();
    if !authenticates {
        slot.authenticated();
    }
    let credential = Credential {
        // A connection that authenticates brings its own.
        bearer: node.config.queen_token.clone().filter(|_| !authenticates),
        host: server_name.filter(|_| security.forward_sni_host),
    };
    let session = Session::first(id, peer, credential, authenticates);
    Connection::new(Arc::clone(&shared), session, stream, slot)
        .run()
        .await;
}

const fn read_limits(authenticated: bool) -> ReadLimits {
    ReadLimits {
        max_frame_bytes: if authenticated {
            MAX_FRAME_BYTES
        } else {
            MAX_UNAUTHENTICATED_FRAME_BYTES
        },
        idle: IDLE,
        stall: STALL,
    }
}

#[cfg(test)]
mod tests;
