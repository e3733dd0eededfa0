//! `QUEEN_KAFKA_HTTP_ADDR`: health, readiness, metrics, the embedded Queen's console.
//!
//! `/livez` says that the process answers. `/readyz` says whether a client would be served:
//! `ready`, `degraded` (Queen answers and is not well; cached metadata and groups still work),
//! `unavailable` (Queen cannot be reached) or `draining`. The first two are 200, the others 503.

mod console;
mod crowd;
mod readiness;

use std::convert::Infallible;
use std::pin::pin;
use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use host::accept::{Admission, accept};
use host::gate::{Gate, GateLimits, GateMetrics, Standing};
use host::{BoxStream, Listener};
use http_body_util::combinators::BoxBody;
use http_body_util::{BodyExt, Full};
use hyper::body::Incoming;
use hyper::header::{ALLOW, CACHE_CONTROL, CONTENT_TYPE, HOST, HeaderValue};
use hyper::service::service_fn;
use hyper::{Method, Request, Response, StatusCode};
use hyper_util::rt::{TokioIo, TokioTimer};

use crate::config::QueenUrl;
use crate::context::Node;
use crowd::Crowd;
use readiness::Readiness;

/// Connections at once. Those that wait are fewer, so that one more finds a place.
const MAX_CONNECTIONS: usize = 256;
/// Connections that are waited for at once; an operator's tools need few.
const MAX_WAITING: usize = 64;
/// How long the head of a request may take, the wait between two requests included.
const HEAD_TIMEOUT: Duration = Duration::from_secs(5);
/// How long one connection lives: whoever scrapes or probes connects again, and whoever does not read
/// its answers does not keep the place of somebody who does.
const LIFETIME: Duration = Duration::from_secs(30);
/// Bytes of the head of a request.
const MAX_HEAD_BYTES: usize = 16 * 1024;

type Body = BoxBody<Bytes, hyper::Error>;

#[derive(Debug)]
struct Site {
    node: Arc<Node>,
    readiness: Readiness,
    crowd: Arc<Crowd>,
}

/// Serves the listener until the node drains, and `draining` on open connections until it closes.
pub async fn serve(node: Arc<Node>, listener: Box<dyn Listener>) {
    let limits = GateLimits {
        max_connections: MAX_CONNECTIONS,
        max_unauthenticated: MAX_CONNECTIONS,
        max_per_address: None,
    };
    let admission = Admission {
        // The series of the gate are the Kafka listener's.
        gate: Gate::new(limits, GateMetrics::default()),
        standing: Standing::Authenticated,
        auth_timeout: HEAD_TIMEOUT,
    };
    let (clock, shutdown) = (Arc::clone(&node.host.clock), node.shutdown.clone());
    let site = Arc::new(Site {
        readiness: Readiness::default(),
        crowd: Crowd::new(MAX_WAITING),
        node,
    });
    accept(listener, admission, clock, shutdown, move |stream, slot| {
        let site = Arc::clone(&site);
        async move {
            connection(site, stream).await;
            drop(slot);
        }
    })
    .await;
}

async fn connection(site: Arc<Site>, stream: BoxStream) {
    let shutdown = site.node.shutdown.clone();
    let visitor = site.crowd.enter(stream.peer_addr().ip());
    let service = service_fn(|request| {
        let (site, visitor) = (&site, &visitor);
        async move {
            visitor.asked();
            let answered = answer(site, request).await;
            visitor.waits();
            answered
        }
    });
    let mut http = hyper::server::conn::http1::Builder::new();
    http.auto_date_header(false)
        .timer(TokioTimer::new())
        .header_read_timeout(HEAD_TIMEOUT)
        .max_buf_size(MAX_HEAD_BYTES);
    let mut connection = pin!(http.serve_connection(TokioIo::new(stream), service));
    let ended = tokio::select! {
        biased;
        ended = connection.as_mut() => ended,
        () = visitor.ended() => return,
        () = tokio::time::sleep(LIFETIME) => return,
        () = shutdown.draining() => {
            connection.as_mut().graceful_shutdown();
            connection.await
        }
    };
    if let Err(error) = ended {
        tracing::debug!(%error, "http connection ended");
    }
}

async fn answer(site: &Site, request: Request<Incoming>) -> Result<Response<Body>, Infallible> {
    if request.headers().get_all(HOST).iter().count() > 1 {
        return Ok(text(StatusCode::BAD_REQUEST, "more than one Host header\n"));
    }
    if !matches!(*request.method(), Method::GET | Method::HEAD) {
        let mut response = text(StatusCode::METHOD_NOT_ALLOWED, "only GET\n");
        let allow = HeaderValue::from_static("GET, HEAD");
        response.headers_mut().insert(ALLOW, allow);
        return Ok(response);
    }
    let node = &site.node;
    Ok(match request.uri().path() {
        "/livez" => text(StatusCode::OK, "ok\n"),
        "/readyz" => site.readiness.answer(node).await,
        "/metrics" => {
            let mut response = text(StatusCode::OK, node.metrics.registry.render());
            let format = HeaderValue::from_static("text/plain; version=0.0.4; charset=utf-8");
            response.headers_mut().insert(CONTENT_TYPE, format);
            response
        }
        // Its console and nothing else: some of Queen's GETs claim records.
        "/" if matches!(node.config.queen_url, QueenUrl::Embedded { .. }) => {
            console::pass(node, request).await
        }
        _ => text(StatusCode::NOT_FOUND, "not found\n"),
    })
}

fn text(status: StatusCode, text: impl Into<Bytes>) -> Response<Body> {
    let body = Full::new(text.into()).map_err(|never| match never {});
    let mut response = Response::new(body.boxed());
    *response.status_mut() = status;
    let plain = HeaderValue::from_static("text/plain; charset=utf-8");
    response.headers_mut().insert(CONTENT_TYPE, plain);
    let no_store = HeaderValue::from_static("no-store");
    response.headers_mut().insert(CACHE_CONTROL, no_store);
    response
}

#[cfg(test)]
mod tests;
