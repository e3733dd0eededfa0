//! A plain HTTP relay between facades and Queen: it hands on every call and answer as they are,
//! except for those that a fault strikes. Reaches its machine through `host`, as doors do.

use std::pin::pin;
use std::sync::Arc;

use bytes::Bytes;
use fake_queen::faults::{Faults, Injected, RetryAfter};
use fake_queen::http::target::Target;
use futures::lock::Mutex;
use host::{BoxStream, Connect, Listener};
use http::header::{HeaderValue, RETRY_AFTER};
use http::{Request, Response, StatusCode};
use http_body_util::{BodyExt, Full, Limited};
use hyper::body::Incoming;
use hyper::client::conn::http1::{SendRequest, handshake};
use hyper::server::conn::http1;
use hyper::service::service_fn;
use hyper_util::rt::TokioIo;
use tokio::task::AbortHandle;
use tokio::time::sleep;

/// The largest body handed on: above what either side sends.
const MAX_BODY_BYTES: usize = 80 << 20;

/// The connection is cut instead of an answer.
#[derive(Debug, thiserror::Error)]
#[error("cut")]
struct Cut;

/// Relays what `listener` accepts to `upstream`, until it is dropped.
pub async fn relay(mut listener: Box<dyn Listener>, upstream: Arc<dyn Connect>, faults: Faults) {
    loop {
        if let Ok(stream) = listener.accept().await {
            tokio::spawn(serve(stream, Arc::clone(&upstream), faults.clone()));
        }
    }
}

async fn serve(stream: BoxStream, upstream: Arc<dyn Connect>, faults: Faults) {
    let onward = Arc::new(Onward {
        upstream,
        connection: Mutex::new(None),
        faults,
    });
    let service = service_fn(|request| {
        let onward = Arc::clone(&onward);
        async move { onward.hand_on(request).await }
    });
    let mut http = http1::Builder::new();
    let connection = http
        .auto_date_header(false)
        .serve_connection(TokioIo::new(stream), service);
    // Its end is all that matters: both sides see their sockets close.
    let _ = pin!(connection).await;
}

/// One connection's way to Queen: made with its first call, and closed with it.
struct Onward {
    upstream: Arc<dyn Connect>,
    connection: Mutex<Option<Line>>,
    faults: Faults,
}

struct Line {
    sender: SendRequest<Full<Bytes>>,
    driver: AbortHandle,
}

impl Drop for Line {
    fn drop(&mut self) {
        self.driver.abort();
    }
}

impl Onward {
    async fn hand_on(&self, request: Request<Incoming>) -> Result<Response<Full<Bytes>>, Cut> {
        let (head, body) = request.into_parts();
        let route = Target::of(&head.method, head.uri.path());
        let body = collect(body).await?;
        let injected = self.faults.strike(route.name(), &body);
        if let Some(delay) = injected.delay() {
            sleep(delay).await;
        }
        if injected.drop_before() {
            return Err(Cut);
        }
        if let Some(refusal) = refusal(&injected) {
            return Ok(refusal);
        }
        let answer = self
            .exchange(Request::from_parts(head, Full::new(body)))
            .await?;
        if let Some(delay) = injected.delay_after() {
            sleep(delay).await;
        }
        if injected.drop_after() {
            return Err(Cut);
        }
        Ok(answer)
    }

    async fn exchange(&self, request: Request<Full<Bytes>>) -> Result<Response<Full<Bytes>>, Cut> {
        let mut connection = self.connection.lock().await;
        let line = match &mut *connection {
            Some(line) => line,
            none => none.insert(self.connect().await?),
        };
        let answer = line.sender.send_request(request).await.map_err(|_| Cut)?;
        let (head, body) = answer.into_parts();
        Ok(Response::from_parts(head, Full::new(collect(body).await?)))
    }

    async fn connect(&self) -> Result<Line, Cut> {
        let stream = self.upstream.connect().await.map_err(|_| Cut)?;
        let made = handshake(TokioIo::new(stream)).await;
        let (sender, connection) = made.map_err(|_| Cut)?;
        let driver = tokio::spawn(async move {
            let _ = connection.await;
        });
        Ok(Line {
            sender,
            driver: driver.abort_handle(),
        })
    }
}

async fn collect(body: Incoming) -> Result<Bytes, Cut> {
    let whole = Limited::new(body, MAX_BODY_BYTES).collect().await;
    Ok(whole.map_err(|_| Cut)?.to_bytes())
}

/// The answer of a relay that refuses a call itself.
fn refusal(injected: &Injected) -> Option<Response<Full<Bytes>>> {
    let (code, retry_after, body) = injected.status()?;
    let body = body
        .unwrap_or(r#"{"error":"refused on the way"}"#)
        .to_owned();
    let mut answer = Response::new(Full::new(Bytes::from(body)));
    *answer.status_mut() = StatusCode::from_u16(code).ok()?;
    if let Some(RetryAfter::Seconds(seconds)) = retry_after {
        answer
            .headers_mut()
            .insert(RETRY_AFTER, HeaderValue::from(seconds));
    }
    Some(answer)
}
