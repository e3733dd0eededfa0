//! One HTTP/1.1 exchange with Queen over a small pool of connections.
//!
//! Knows connections, deadlines and headers; knows no route. Calls that Queen parks (long polls)
//! and calls that it answers at once have separate bounds, so that parked readers never keep a
//! write waiting.

use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use bytes::Bytes;
use host::answers::Answers;
use host::budget::Reservation;
use host::net::Connect;
use host::{Clock, Monotonic};
use http::header::{AUTHORIZATION, CONTENT_TYPE, HOST, RETRY_AFTER, USER_AGENT};
use http::{HeaderMap, HeaderValue, Method, Request, StatusCode, Uri};
use hyper::client::conn::http1::{self, SendRequest};
use hyper_util::rt::TokioIo;
use tokio::sync::{Semaphore, SemaphorePermit};
use tokio::task::JoinHandle;
use tokio::time::{Instant, timeout_at};

use super::body::{Chunks, ReadError, collect};
use super::calls::CallMetrics;
use super::credential::Credential;
use super::error::{Error, Refusal, scrub};
use super::refusal;
use super::rejections::Rejections;

/// How long making a connection may take, within the call's own time.
pub const CONNECT_TIMEOUT: Duration = Duration::from_secs(3);
/// How long a call that Queen doesn't park may take, its wait for a connection included.
pub const CALL_TIMEOUT: Duration = Duration::from_secs(10);
/// Largest answer read: Queen renders at most 64 MiB of a fetch, and the one record it always
/// delivers was pushed in a body of at most 64 MiB.
pub const MAX_ANSWER_BYTES: usize = 80 << 20;
/// Largest body of a refusal read; a longer one costs its connection.
const MAX_REFUSAL_BYTES: usize = 64 << 10;
/// Connections for calls that are answered at once.
pub const MAX_PROMPT_CONNECTIONS: usize = 256;
/// Connections for calls that Queen parks: one per parked Kafka fetch, so about as many as the
/// listener serves by default.
pub const MAX_PARKED_CONNECTIONS: usize = 4096;
/// Unused connections kept for the next call.
const MAX_IDLE_CONNECTIONS: usize = 512;
/// Age at which an unused connection is closed instead of used: below the keep-alive of common
/// servers and balancers.
const MAX_IDLE_AGE: Duration = Duration::from_secs(30);

/// Whether Queen may hold the answer back.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Wait {
    /// Answered at once.
    Prompt,
    /// Held back until something happens or the time asked for has passed.
    Parked,
}

/// Whether sending a call twice has the same effect as sending it once.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Repeat {
    /// The effect and the answer are the same.
    Safe,
    /// A second one would do something else.
    Unsafe,
}

/// One call.
#[derive(Debug)]
pub(super) struct Call<'a> {
    pub(super) method: Method,
    /// The route's path, already encoded.
    pub(super) path: String,
    pub(super) body: Chunks,
    pub(super) credential: &'a Credential,
    pub(super) timeout: Duration,
    pub(super) wait: Wait,
    pub(super) repeat: Repeat,
}

/// The exchange part of the client.
#[derive(Debug)]
pub(super) struct Transport {
    connector: Arc<dyn Connect>,
    authority: Option<HeaderValue>,
    base_path: String,
    clock: Arc<dyn Clock>,
    prompt: Semaphore,
    parked: Semaphore,
    idle: Mutex<Vec<Idle>>,
    pub(super) rejections: Rejections,
    /// For answers, while they are read and worked on.
    pub(super) reads: Answers,
    pub(super) calls: CallMetrics,
}

#[derive(Debug)]
struct Idle {
    connection: Connection,
    since: Monotonic,
}

/// A connection and the task that drives it; dropping it closes the socket.
#[derive(Debug)]
struct Connection {
    sender: SendRequest<Chunks>,
    driver: JoinHandle<()>,
}

impl Drop for Connection {
    fn drop(&mut self) {
        self.driver.abort();
    }
}

/// How one attempt on one connection ended without an answer.
enum Attempt {
    /// The request was handed back unsent.
    Unsent,
    /// The connection ended before the first byte of an answer.
    Silent(Error),
    /// Anything else.
    Failed(Error),
}

impl Transport {
    pub(super) fn new(
        connector: Arc<dyn Connect>,
        authority: Option<HeaderValue>,
        base_path: String,
        clock: Arc<dyn Clock>,
        reads: Answers,
    ) -> Self {
        Self {
            reads,
            connector,
            authority,
            base_path,
            clock,
            prompt: Semaphore::new(MAX_PROMPT_CONNECTIONS),
            parked: Semaphore::new(MAX_PARKED_CONNECTIONS),
            idle: Mutex::new(Vec::new()),
            rejections: Rejections::default(),
            calls: CallMetrics::default(),
        }
    }

    /// As [`Transport::call_held`], for answers that are used up at once.
    pub(super) async fn call(&self, call: Call<'_>) -> Result<Bytes, Error> {
        self.call_held(&call).await.map(|(body, _)| body)
    }

    /// Sends `call` and reads its answer; a status other than success is an error.
    ///
    /// A connection of the pool may have been closed by its peer meanwhile. A request that found
    /// it so is sent again on a fresh one when it had not left, or when repeating it is safe.
    pub(super) async fn call_held(&self, call: &Call<'_>) -> Result<(Bytes, Reservation), Error> {
        let credential = call.credential;
        // Queen's identity surface answers 401 to bearers that are good elsewhere.
        let judges = call.path.starts_with("/api/");
        let began = self.clock.monotonic();
        let answered = self.exchanged(call).await;
        let elapsed = self.clock.monotonic().saturating_since(began);
        self.calls.ended(&call.path, elapsed, &answered);
        if let Err(Error::Refused(refusal)) = &answered
            && refusal.status == StatusCode::UNAUTHORIZED
            && judges
        {
            self.rejections.note(credential, self.clock.monotonic());
        }
        answered
    }

    async fn exchanged(&self, call: &Call<'_>) -> Result<(Bytes, Reservation), Error> {
        let deadline = Instant::now() + call.timeout;
        let headers = self.headers(call)?;
        let uri: Uri = format!("{}{}", self.base_path, call.path)
            .parse()
            .map_err(|_| Error::Unsendable("the path is not a legal URI"))?;
        let _permit = self.permit(call.wait, deadline).await?;
        while let Some(connection) = self.take_idle() {
            match self
                .exchange(call, uri.clone(), headers.clone(), connection, deadline)
                .await
            {
                Ok((connection, answer)) => return self.finish(connection, answer),
                Err(Attempt::Unsent) => {}
                Err(Attempt::Silent(_)) if call.repeat == Repeat::Safe => break,
                Err(Attempt::Silent(error) | Attempt::Failed(error)) => return Err(error),
            }
        }
        let connection = self.connect(deadline).await?;
        match self
            .exchange(call, uri, headers, connection, deadline)
            .await
        {
            Ok((connection, answer)) => self.finish(connection, answer),
            Err(Attempt::Unsent) => Err(Error::Unreachable(
                "the new connection closed before the request left".into(),
            )),
            Err(Attempt::Silent(error) | Attempt::Failed(error)) => Err(error),
        }
    }

    fn headers(&self, call: &Call<'_>) -> Result<HeaderMap, Error> {
        let mut headers = HeaderMap::with_capacity(4);
        let host = match &call.credential.host {
            Some(host) => HeaderValue::from_str(host)
                .map_err(|_| Error::Unsendable("the server name is not a legal Host header"))?,
            None => self.authority.clone().ok_or(Error::Unsendable(
                "the host of Queen's URL is not a legal Host header",
            ))?,
        };
        headers.insert(HOST, host);
        headers.insert(
            USER_AGENT,
            HeaderValue::from_static(concat!("queen-kafka/", env!("CARGO_PKG_VERSION"))),
        );
        if call.body.len_bytes() > 0 {
            headers.insert(CONTENT_TYPE, HeaderValue::from_static("application/json"));
        }
        if let Some(bearer) = &call.credential.bearer {
            // A token that no header can carry is one that Queen can't know.
            let mut value =
                HeaderValue::from_str(&format!("Bearer {}", bearer.expose())).map_err(|_| {
                    Error::Refused(Refusal {
                        status: StatusCode::UNAUTHORIZED,
                        retry_after: None,
                        code: None,
                        text: Some("the token has characters that no header can carry".into()),
                    })
                })?;
            value.set_sensitive(true);
            headers.insert(AUTHORIZATION, value);
        }
        Ok(headers)
    }

    async fn permit(&self, wait: Wait, deadline: Instant) -> Result<SemaphorePermit<'_>, Error> {
        let pool = match wait {
            Wait::Prompt => &self.prompt,
            Wait::Parked => &self.parked,
        };
        match timeout_at(deadline, pool.acquire()).await {
            Ok(Ok(permit)) if Instant::now() < deadline => Ok(permit),
            // Too late, or closed (which nobody does).
            _ => Err(Error::Busy),
        }
    }

    /// The most recently used connection that is still open.
    fn take_idle(&self) -> Option<Connection> {
        let now = self.clock.monotonic();
        let mut idle = self.idle.lock().unwrap_or_else(PoisonError::into_inner);
        while let Some(Idle { connection, since }) = idle.pop() {
            if now.saturating_since(since) > MAX_IDLE_AGE {
                // Those below are older still.
                idle.clear();
                return None;
            }
            if !connection.sender.is_closed() {
                return Some(connection);
            }
        }
        None
    }

    fn put_idle(&self, connection: Connection) {
        if connection.sender.is_closed() {
            return;
        }
        let since = self.clock.monotonic();
        let mut idle = self.idle.lock().unwrap_or_else(PoisonError::into_inner);
        let kept = idle
            .iter()
            .position(|idle| since.saturating_since(idle.since) <= MAX_IDLE_AGE)
            .unwrap_or(idle.len());
        idle.drain(..kept);
        if idle.len() < MAX_IDLE_CONNECTIONS {
            idle.push(Idle { connection, since });
        }
    }

    async fn connect(&self, deadline: Instant) -> Result<Connection, Error> {
        let connect_deadline = deadline.min(Instant::now() + CONNECT_TIMEOUT);
        let made = timeout_at(connect_deadline, async {
            let stream = self
                .connector
                .connect()
                .await
                .map_err(|error| Error::Unreachable(scrub(&error.to_string())))?;
            http1::handshake(TokioIo::new(stream))
                .await
                .map_err(|error| Error::Unreachable(scrub(&error.to_string())))
        })
        .await
        .map_err(|_| Error::Unreachable("no connection in time".into()))?;
        let (sender, connection) = made?;
        let driver = tokio::spawn(async move {
            // Whoever waits for the answer hears of the error too.
            let _ = connection.await;
        });
        Ok(Connection { sender, driver })
    }

    fn finish(
        &self,
        connection: Option<Connection>,
        answer: Answer,
    ) -> Result<(Bytes, Reservation), Error> {
        if let Some(connection) = connection {
            self.put_idle(connection);
        }
        if answer.status.is_success() {
            Ok((answer.body, answer.room))
        } else {
            Err(Error::Refused(refusal::parse(
                answer.status,
                answer.retry_after,
                &answer.body,
            )))
        }
    }
}

struct Answer {
    status: StatusCode,
    retry_after: Option<Duration>,
    body: Bytes,
    room: Reservation,
}

impl Transport {
    /// One request and its answer on one connection, which comes back while it is usable.
    async fn exchange(
        &self,
        call: &Call<'_>,
        uri: Uri,
        headers: HeaderMap,
        mut connection: Connection,
        deadline: Instant,
    ) -> Result<(Option<Connection>, Answer), Attempt> {
        let timed_out = || Attempt::Failed(Error::TimedOut(call.timeout));
        match timeout_at(deadline, connection.sender.ready()).await {
            Ok(Ok(())) => {}
            Ok(Err(_)) => return Err(Attempt::Unsent),
            Err(_) => return Err(Attempt::Failed(Error::Busy)),
        }
        let mut request = Request::new(call.body.clone());
        *request.method_mut() = call.method.clone();
        *request.uri_mut() = uri;
        *request.headers_mut() = headers;
        let sent = timeout_at(deadline, connection.sender.try_send_request(request)).await;
        let response = match sent.map_err(|_| timed_out())? {
            Ok(response) => response,
            Err(mut failure) => {
                if failure.take_message().is_some() {
                    return Err(Attempt::Unsent);
                }
                let error = failure.into_error();
                let lost = Error::Lost(scrub(&error.to_string()));
                return Err(if error.is_incomplete_message() || error.is_canceled() {
                    Attempt::Silent(lost)
                } else {
                    Attempt::Failed(lost)
                });
            }
        };
        let status = response.status();
        let retry_after = response.headers().get(RETRY_AFTER).and_then(delta_seconds);
        let bound = if status.is_success() {
            MAX_ANSWER_BYTES
        } else {
            MAX_REFUSAL_BYTES
        };
        let read = timeout_at(deadline, collect(response.into_body(), bound, &self.reads)).await;
        let (connection, body, room) = match read {
            Ok(Ok((body, room))) => (Some(connection), body, room),
            // The status of a refusal says enough without its text.
            _ if !status.is_success() => (None, Bytes::new(), self.reads.nothing(0)),
            Ok(Err(ReadError::TooLong)) => {
                return Err(Attempt::Failed(Error::Unreadable(format!(
                    "answer longer than {bound} bytes"
                ))));
            }
            Ok(Err(ReadError::Lost(error))) => {
                return Err(Attempt::Failed(Error::Lost(scrub(&error.to_string()))));
            }
            Err(_) => return Err(timed_out()),
        };
        Ok((
            connection,
            Answer {
                status,
                retry_after,
                body,
                room,
            },
        ))
    }
}

/// `Retry-After` in seconds. The date form would need a clock that agrees with the server's, so it
/// counts as absent.
fn delta_seconds(value: &HeaderValue) -> Option<Duration> {
    let text = value.to_str().ok()?.trim();
    if text.is_empty() || !text.bytes().all(|byte| byte.is_ascii_digit()) {
        return None;
    }
    // Digits alone fail to parse only when they are too many: a very long time.
    Some(Duration::from_secs(text.parse().unwrap_or(u64::MAX)))
}
