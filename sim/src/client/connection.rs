//! One connection to a broker: requests go out as they come, answers return in the same order.
//! Every answer is proved well-formed before it is believed.
//!
//! Handles are cheap to clone. A request that has no answer in its time ends the connection, as it
//! does in the libraries whose profiles there are.

mod error;
mod serving;

use std::collections::{BTreeMap, VecDeque};
use std::fmt;
use std::io;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, Weak};
use std::time::Duration;

use bytes::{Buf, BufMut, Bytes, BytesMut};
use kafka_protocol::messages::ApiVersionsRequest;
use kafka_protocol::protocol::{Decodable, StrBytes};
use kafka_wire::header::{ResponseHeader, put_request_header};
use kafka_wire::walk::{self, Limits};
use kafka_wire::{ApiKey, ErrorCode};
use tokio::sync::{Notify, mpsc, oneshot};
use tokio::task::AbortHandle;
use tokio::time::{Instant, timeout};

use super::access::Held;
use super::api::Api;
use super::{Client, access, refused};
use serving::{Serving, fail_all};

pub use error::CallError;

/// An answer that is to come. May be dropped: the answer is then read and forgotten.
pub struct Ticket<R: Api> {
    key: ApiKey,
    version: i16,
    answer: oneshot::Receiver<Result<R::Response, CallError>>,
}

impl<R: Api> fmt::Debug for Ticket<R> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} v{}", self.key, self.version)
    }
}

impl<R: Api> Ticket<R> {
    /// The version that was asked with.
    pub const fn version(&self) -> i16 {
        self.version
    }

    /// Waits for the answer. Until it is there, the wait may be dropped and begun again.
    ///
    /// # Errors
    ///
    /// [`CallError`], but no refusal: what the answer says is the caller's to judge.
    pub async fn answer(&mut self) -> Result<R::Response, CallError> {
        let answer = (&mut self.answer).await;
        answer.unwrap_or_else(|_| Err(CallError::Lost("connection dropped".to_owned())))
    }
}

/// The part of a waiting request that knows its type.
trait Waiter: Send {
    /// Takes the answer's frame, or why there is none. Tells what every answer tells.
    fn take(self: Box<Self>, frame: Result<Bytes, CallError>) -> Result<Heard, CallError>;
}

/// What an answer tells, whatever was asked.
#[derive(Clone, Debug, Default)]
struct Heard {
    throttle: Throttle,
    /// What was moved or shown for whoever asked.
    served: Vec<String>,
}

/// What an answer says about throttling.
#[derive(Clone, Copy, Debug, Default)]
struct Throttle {
    time: Duration,
    client_waits: bool,
}

struct Typed<R: Api> {
    /// Whether it moves anything when it succeeds.
    moves: bool,
    version: i16,
    correlation_id: i32,
    answer: oneshot::Sender<Result<R::Response, CallError>>,
}

impl<R: Api> Typed<R> {
    fn decode(&self, frame: Bytes) -> Result<R::Response, CallError> {
        let (key, version) = (ApiKey(R::KEY), self.version);
        let malformed =
            |why: String| CallError::malformed(format!("answer to {key} v{version}: {why}"));
        let header = ResponseHeader::parse(frame, key, version)
            .map_err(|error| malformed(error.to_string()))?;
        if header.correlation_id != self.correlation_id {
            return Err(malformed(format!(
                "correlation id {} for {}",
                header.correlation_id, self.correlation_id
            )));
        }
        walk::response(key, version, &header.body, &Limits::DEFAULT)
            .map_err(|error| malformed(error.to_string()))?;
        let mut body = header.body;
        let response = R::Response::decode(&mut body, version)
            .map_err(|error| malformed(error.to_string()))?;
        if body.has_remaining() {
            return Err(malformed(format!("{} bytes left", body.remaining())));
        }
        Ok(response)
    }
}

impl<R: Api> Waiter for Typed<R> {
    fn take(self: Box<Self>, frame: Result<Bytes, CallError>) -> Result<Heard, CallError> {
        let response = frame.and_then(|frame| self.decode(frame));
        let heard = response.as_ref().map_err(Clone::clone).map(|response| {
            let millis = u64::try_from(R::throttle_time_ms(response)).unwrap_or(0);
            let throttle = Throttle {
                time: Duration::from_millis(millis),
                client_waits: self.version >= R::CLIENT_WAITS_FROM,
            };
            let served = match self.moves {
                true => R::served(response),
                false => Vec::new(),
            };
            Heard { throttle, served }
        });
        // Whoever asked may have stopped waiting.
        let _ = self.answer.send(response);
        heard
    }
}

/// A request on its way out.
struct Outgoing {
    frame: Bytes,
    key: ApiKey,
    version: i16,
    correlation_id: i32,
    timeout: Duration,
    /// `None` when no answer comes (Produce with acks 0): the sender is told when it is written.
    waiter: Option<Box<dyn Waiter>>,
    written: Option<oneshot::Sender<()>>,
}

/// A request that is written and has no answer yet.
struct Awaited {
    key: ApiKey,
    version: i16,
    correlation_id: i32,
    deadline: Instant,
    asked_ms: u64,
    waiter: Box<dyn Waiter>,
}

#[derive(Default)]
struct Shared {
    awaited: VecDeque<Awaited>,
    muted_until: Option<Instant>,
    closed: Option<CallError>,
    /// What was sent to authenticate with, and not answered.
    presented: VecDeque<Held>,
    /// Whom answers are for.
    authenticated: Option<Held>,
    /// What keeps the session from ending.
    keeper: Option<AbortHandle>,
}

impl Drop for Shared {
    fn drop(&mut self) {
        if let Some(keeper) = self.keeper.take() {
            keeper.abort();
        }
    }
}

struct Inner {
    client: Client,
    number: u64,
    versions: Mutex<BTreeMap<ApiKey, i16>>,
    next_correlation_id: Mutex<i32>,
    outbox: mpsc::UnboundedSender<Outgoing>,
    shared: Arc<Mutex<Shared>>,
    task: AbortHandle,
}

impl Drop for Inner {
    fn drop(&mut self) {
        self.task.abort();
    }
}

/// One connection.
#[derive(Clone)]
pub struct Connection(Arc<Inner>);

/// A connection that may be gone.
#[derive(Clone)]
pub(super) struct WeakConnection(Weak<Inner>);

impl WeakConnection {
    /// The connection, while anybody holds it.
    pub fn upgrade(&self) -> Option<Connection> {
        self.0.upgrade().map(Connection)
    }
}

impl fmt::Debug for Connection {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Connection")
            .field("client", &self.0.client.id)
            .field("number", &self.0.number)
            .finish_non_exhaustive()
    }
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    // Nothing panics while it holds one of these.
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

impl Connection {
    /// Connects, agrees on versions, and authenticates.
    ///
    /// # Errors
    ///
    /// [`CallError`].
    pub async fn open(client: &Client, address: &(String, u16)) -> Result<Self, CallError> {
        let connecting = access::connect(client, address);
        let stream = timeout(client.profile.connect_timeout, connecting)
            .await
            .map_err(|_| CallError::Connect(io::ErrorKind::TimedOut))?
            .map_err(|error| CallError::Connect(error.kind()))?;
        let number = client.recorder.connection();
        let (outbox, orders) = mpsc::unbounded_channel();
        let shared = Arc::new(Mutex::new(Shared::default()));
        let serving = Serving {
            client: client.clone(),
            number,
            shared: Arc::clone(&shared),
            changed: Arc::new(Notify::new()),
        };
        let task = tokio::spawn(serving.run(stream, orders)).abort_handle();
        let connection = Self(Arc::new(Inner {
            client: client.clone(),
            number,
            versions: Mutex::default(),
            next_correlation_id: Mutex::new(1),
            outbox,
            shared,
            task,
        }));
        connection.agree().await?;
        access::authenticate(client, &connection).await?;
        Ok(connection)
    }

    async fn agree(&self) -> Result<(), CallError> {
        let key = ApiKey::API_VERSIONS;
        let profile = self.0.client.profile;
        let mut version = profile.ceiling(key).unwrap_or(0);
        let request = ApiVersionsRequest::default()
            .with_client_software_name(StrBytes::from_static_str(profile.software.0))
            .with_client_software_version(StrBytes::from_static_str(profile.software.1));
        loop {
            lock(&self.0.versions).insert(key, version);
            let response = self.call(&request).await?;
            if ErrorCode::from_code(response.error_code) == Some(ErrorCode::UnsupportedVersion)
                && version > 0
            {
                // An older broker answers in version 0 and says what it speaks (KIP-511).
                let offered = response.api_keys.iter().find(|api| api.api_key == key.0);
                version = offered.map_or(0, |api| api.max_version.clamp(0, version - 1));
                continue;
            }
            refused(response.error_code)?;
            let mut versions = lock(&self.0.versions);
            for api in response.api_keys {
                let key = ApiKey(api.api_key);
                if let Some(ceiling) = profile.ceiling(key) {
                    let version = ceiling.min(api.max_version).min(codec_ceiling(key));
                    if version >= api.min_version {
                        versions.insert(key, version);
                    }
                }
            }
            return Ok(());
        }
    }

    /// Whether requests can still be sent.
    pub fn is_open(&self) -> bool {
        lock(&self.0.shared).closed.is_none()
    }

    /// The client's number of it, unique in the client's life.
    pub fn number(&self) -> u64 {
        self.0.number
    }

    pub(super) fn weak(&self) -> WeakConnection {
        WeakConnection(Arc::downgrade(&self.0))
    }

    /// The next SaslAuthenticate says that it is whoever holds `held`.
    pub(super) fn presents(&self, held: Held) {
        lock(&self.0.shared).presented.push_back(held);
    }

    /// `keeper` keeps the session from ending, and ends with the connection.
    pub(super) fn keeps(&self, keeper: AbortHandle) {
        lock(&self.0.shared).keeper = Some(keeper);
    }

    /// The version in which `key` is asked here; `None` when it isn't offered.
    pub fn version(&self, key: ApiKey) -> Option<i16> {
        lock(&self.0.versions).get(&key).copied()
    }

    /// Ends it. What waits for an answer hears that it is lost.
    pub fn close(&self, why: &str) {
        let error = CallError::Lost(why.to_owned());
        fail_all(&self.0.shared, &error);
        self.0.task.abort();
    }

    fn version_of<R: Api>(&self) -> Result<i16, CallError> {
        let key = ApiKey(R::KEY);
        let version = self.version(key).ok_or(CallError::NotOffered(key))?;
        // The codec knows some APIs in versions that it can't write.
        Ok(version.min(R::VERSIONS.max))
    }

    fn frame<R: Api>(&self, request: &R, version: i16) -> Result<(Bytes, i32), CallError> {
        let key = ApiKey(R::KEY);
        let correlation_id = {
            let mut next = lock(&self.0.next_correlation_id);
            let taken = *next;
            *next = next.wrapping_add(1).max(1);
            taken
        };
        let mut frame = BytesMut::new();
        frame.put_i32(0);
        let id = Some(self.0.client.id.as_str());
        put_request_header(&mut frame, key, version, correlation_id, id);
        request
            .encode(&mut frame, version)
            .map_err(|error| CallError::malformed(format!("{key} v{version}: {error}")))?;
        let length = i32::try_from(frame.len() - 4)
            .map_err(|_| CallError::malformed("a request above 2 GiB"))?;
        frame[..4].copy_from_slice(&length.to_be_bytes());
        Ok((frame.freeze(), correlation_id))
    }

    fn post(&self, outgoing: Outgoing) -> Result<(), CallError> {
        let posted = self.0.outbox.send(outgoing);
        posted.map_err(|_| {
            let closed = lock(&self.0.shared).closed.clone();
            closed.unwrap_or_else(|| CallError::Lost("closed".to_owned()))
        })
    }

    /// Sends `request`; its answer comes with the ticket.
    ///
    /// # Errors
    ///
    /// [`CallError`]: nothing was sent.
    pub fn send<R: Api>(&self, request: &R) -> Result<Ticket<R>, CallError> {
        self.send_within(request, self.0.client.profile.request_timeout, i16::MAX)
    }

    /// As [`send`](Self::send), for a request that the broker may keep longer than others, or that
    /// must not be of a later version than `ceiling`.
    ///
    /// # Errors
    ///
    /// [`CallError`]: nothing was sent.
    pub fn send_within<R: Api>(
        &self,
        request: &R,
        timeout: Duration,
        ceiling: i16,
    ) -> Result<Ticket<R>, CallError> {
        let (key, version) = (ApiKey(R::KEY), self.version_of::<R>()?.min(ceiling));
        let (frame, correlation_id) = self.frame(request, version)?;
        let (sender, answer) = oneshot::channel();
        let waiter: Typed<R> = Typed {
            moves: R::moves(request),
            version,
            correlation_id,
            answer: sender,
        };
        self.post(Outgoing {
            frame,
            key,
            version,
            correlation_id,
            timeout,
            waiter: Some(Box::new(waiter)),
            written: None,
        })?;
        Ok(Ticket {
            key,
            version,
            answer,
        })
    }

    /// Sends a request that has no answer, and waits until it is written.
    ///
    /// # Errors
    ///
    /// [`CallError`]; whether it was sent is unknown.
    pub async fn send_unanswered<R: Api>(
        &self,
        request: &R,
        ceiling: i16,
    ) -> Result<(), CallError> {
        let (key, version) = (ApiKey(R::KEY), self.version_of::<R>()?.min(ceiling));
        let (frame, correlation_id) = self.frame(request, version)?;
        let (written, is_written) = oneshot::channel();
        self.post(Outgoing {
            frame,
            key,
            version,
            correlation_id,
            timeout: self.0.client.profile.request_timeout,
            waiter: None,
            written: Some(written),
        })?;
        is_written
            .await
            .map_err(|_| CallError::Lost("not written".to_owned()))
    }

    /// Sends `request` and waits for its answer.
    ///
    /// # Errors
    ///
    /// [`CallError`], but no refusal.
    pub async fn call<R: Api>(&self, request: &R) -> Result<R::Response, CallError> {
        self.send(request)?.answer().await
    }
}

/// The highest version that the codec writes.
fn codec_ceiling(key: ApiKey) -> i16 {
    let known = kafka_protocol::messages::ApiKey::try_from(key.0);
    known.map_or(-1, |known| known.valid_versions().max)
}
