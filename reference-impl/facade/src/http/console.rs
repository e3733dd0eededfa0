//! Hands a GET of `/` on to the Queen in this process: its console page.

use std::time::Duration;

use http_body_util::{BodyExt, Empty};
use hyper::body::{Bytes, Incoming};
use hyper::header::{ACCEPT, CONTENT_TYPE, HOST, HeaderValue};
use hyper::{Request, Response, StatusCode};
use hyper_util::rt::TokioIo;
use tokio::time::timeout;

use super::{Body, text};
use crate::context::Node;

/// How long the embedded Queen may take to begin its answer.
const HEAD_TIMEOUT: Duration = Duration::from_secs(10);

#[derive(Debug, thiserror::Error)]
enum PassError {
    #[error(transparent)]
    Connect(#[from] std::io::Error),
    #[error(transparent)]
    Http(#[from] hyper::Error),
    #[error("no answer in time")]
    Late(#[from] tokio::time::error::Elapsed),
    #[error(transparent)]
    Request(#[from] hyper::http::Error),
}

/// The embedded Queen's answer to the path, query and `Accept` of `request`; nothing else of it
/// goes through.
pub(super) async fn pass(node: &Node, request: Request<Incoming>) -> Response<Body> {
    match timeout(HEAD_TIMEOUT, exchange(node, &request)).await {
        Ok(Ok(response)) => response,
        Ok(Err(error)) => refused(&error),
        Err(late) => refused(&late.into()),
    }
}

async fn exchange(node: &Node, request: &Request<Incoming>) -> Result<Response<Body>, PassError> {
    let stream = node.upstream.connect().await?;
    let (mut sender, driver) = hyper::client::conn::http1::handshake(TokioIo::new(stream)).await?;
    // Ends with the answer: this stream carries one exchange.
    tokio::spawn(async move {
        if let Err(error) = driver.await {
            tracing::debug!(%error, "console exchange ended");
        }
    });
    let path = request
        .uri()
        .path_and_query()
        .map_or("/", |path| path.as_str());
    let accept = request.headers().get(ACCEPT).cloned();
    let accept = accept.unwrap_or_else(|| HeaderValue::from_static("*/*"));
    let asked = Request::builder()
        .method(request.method())
        .uri(path)
        .header(HOST, "queen.embedded")
        .header(ACCEPT, accept)
        .body(Empty::<Bytes>::new())?;
    let (parts, body) = sender.send_request(asked).await?.into_parts();
    let mut response = Response::new(body.boxed());
    *response.status_mut() = parts.status;
    for name in [CONTENT_TYPE, hyper::header::CACHE_CONTROL] {
        if let Some(value) = parts.headers.get(&name) {
            response.headers_mut().insert(name, value.clone());
        }
    }
    Ok(response)
}

fn refused(error: &PassError) -> Response<Body> {
    tracing::debug!(%error, "the embedded Queen did not answer");
    text(
        StatusCode::BAD_GATEWAY,
        "the embedded Queen did not answer\n",
    )
}
