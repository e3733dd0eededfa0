//! One connection to a broker: requests go out as they come, answers return in the same order.
//! Every answer is proved well-formed before it is believed.

use std::collections::BTreeMap;
use std::fmt;
use std::io;
use std::marker::PhantomData;
use std::time::Duration;

use bytes::{Buf, BufMut, BytesMut};
use host::BoxStream;
use host::budget::{Budget, BudgetMetrics};
use host::frame::{FrameReader, ReadError, ReadLimits};
use kafka_protocol::messages::ApiVersionsRequest;
use kafka_protocol::protocol::{Decodable, Request, StrBytes};
use kafka_wire::header::{ResponseHeader, put_request_header};
use kafka_wire::walk::{self, Limits};
use kafka_wire::{ApiKey, ErrorCode};
use tokio::io::{AsyncWriteExt, ReadHalf, WriteHalf};
use tokio::time::{Instant, timeout, timeout_at};

use super::{Client, refused};
use crate::history::{Event, Recorder};

/// The largest answer read.
const MAX_FRAME_BYTES: u32 = 16 << 20;
/// Answers are waited for under the timeout of their request, not of the reader.
const NEVER: Duration = Duration::from_secs(24 * 3600);

/// Why a call has no good answer.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum CallError {
    /// No connection.
    #[error("cannot connect: {0}")]
    Connect(io::ErrorKind),
    /// The connection ended. Whether the request was carried out is unknown.
    #[error("connection lost: {0}")]
    Lost(String),
    /// No answer in time. Whether the request was carried out is unknown.
    #[error("no answer in time")]
    TimedOut,
    /// Answered with an error.
    #[error("refused: {0:?}")]
    Refused(ErrorCode),
    /// The answer isn't Kafka's protocol, or not what was asked for.
    #[error("malformed: {0}")]
    Malformed(String),
}

impl CallError {
    pub(super) fn malformed(what: impl Into<String>) -> Self {
        Self::Malformed(what.into())
    }
}

/// A request that was sent and whose answer is to come.
pub struct Ticket<R> {
    correlation_id: i32,
    version: i16,
    deadline: Instant,
    request: PhantomData<fn() -> R>,
}

impl<R: Request> fmt::Debug for Ticket<R> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(
            f,
            "{} v{} #{}",
            ApiKey(R::KEY),
            self.version,
            self.correlation_id
        )
    }
}

/// One connection.
pub struct Connection {
    reader: FrameReader<ReadHalf<BoxStream>>,
    writer: WriteHalf<BoxStream>,
    client: Client,
    /// Its number in the history.
    number: u64,
    versions: BTreeMap<ApiKey, i16>,
    next_correlation_id: i32,
}

impl fmt::Debug for Connection {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Connection")
            .field("client", &self.client.id)
            .finish_non_exhaustive()
    }
}

impl Connection {
    /// Connects and agrees on versions.
    ///
    /// # Errors
    ///
    /// [`CallError`].
    pub async fn open(client: &Client, address: &(String, u16)) -> Result<Self, CallError> {
        let connecting = client.host.net.connect(&address.0, address.1);
        let stream = timeout(client.profile.connect_timeout, connecting)
            .await
            .map_err(|_| CallError::Connect(io::ErrorKind::TimedOut))?
            .map_err(|error| CallError::Connect(error.kind()))?;
        let (reader, writer) = tokio::io::split(stream);
        let limits = ReadLimits {
            max_frame_bytes: MAX_FRAME_BYTES,
            idle: NEVER,
            stall: NEVER,
        };
        let budget = Budget::new(MAX_FRAME_BYTES as usize, &BudgetMetrics::default());
        let mut connection = Self {
            reader: FrameReader::new(reader, limits, budget),
            writer,
            client: client.clone(),
            number: client.recorder.connection(),
            versions: BTreeMap::new(),
            next_correlation_id: 1,
        };
        connection.agree().await?;
        Ok(connection)
    }

    fn recorder(&self) -> &Recorder {
        &self.client.recorder
    }

    async fn agree(&mut self) -> Result<(), CallError> {
        let key = ApiKey::API_VERSIONS;
        let ceiling = self.client.profile.ceiling(key).unwrap_or(0);
        self.versions.insert(key, ceiling);
        let request = ApiVersionsRequest::default()
            .with_client_software_name(StrBytes::from_static_str("kastellan-sim"))
            .with_client_software_version(StrBytes::from_static_str("1"));
        let response = self.call(&request).await?;
        refused(response.error_code)?;
        for api in response.api_keys {
            let key = ApiKey(api.api_key);
            if let Some(ceiling) = self.client.profile.ceiling(key) {
                let version = ceiling.min(api.max_version);
                if version >= api.min_version {
                    self.versions.insert(key, version);
                }
            }
        }
        Ok(())
    }

    /// Sends `request`. Its answer is to be received before those of later requests.
    ///
    /// # Errors
    ///
    /// [`CallError`]; the connection is of no use afterwards.
    pub async fn send<R: Request>(&mut self, request: &R) -> Result<Ticket<R>, CallError> {
        let key = ApiKey(R::KEY);
        let version = self.versions.get(&key).copied();
        let version = version
            .ok_or_else(|| CallError::malformed(format!("{key} is not offered")))?
            .min(R::VERSIONS.max);
        let correlation_id = self.next_correlation_id;
        self.next_correlation_id += 1;
        let mut frame = BytesMut::new();
        frame.put_i32(0);
        put_request_header(
            &mut frame,
            key,
            version,
            correlation_id,
            Some(self.client.id.as_str()),
        );
        request
            .encode(&mut frame, version)
            .map_err(|error| CallError::malformed(format!("{key} v{version}: {error}")))?;
        let length = i32::try_from(frame.len() - 4)
            .map_err(|_| CallError::malformed("a request above 2 GiB"))?;
        frame[..4].copy_from_slice(&length.to_be_bytes());
        let ticket = Ticket {
            correlation_id,
            version,
            deadline: Instant::now() + self.client.profile.request_timeout,
            request: PhantomData,
        };
        self.recorder()
            .note(self.client.id.as_str(), format_args!("? {ticket:?}"));
        let asked = Event::Asked {
            connection: self.number,
            api: key.0,
            version,
            correlation: correlation_id,
        };
        self.recorder().record(&self.client.id, asked);
        timeout_at(ticket.deadline, self.writer.write_all(&frame))
            .await
            .map_err(|_| CallError::TimedOut)?
            .map_err(|error| CallError::Lost(error.kind().to_string()))?;
        Ok(ticket)
    }

    /// Receives the answer to the oldest request that has none. May be dropped and called again.
    ///
    /// # Errors
    ///
    /// [`CallError`]; the connection is of no use afterwards.
    pub async fn receive<R: Request>(
        &mut self,
        ticket: &Ticket<R>,
    ) -> Result<R::Response, CallError> {
        let frame = timeout_at(ticket.deadline, self.reader.next())
            .await
            .map_err(|_| CallError::TimedOut)?
            .map_err(|error| match error {
                ReadError::Io(error) => CallError::Lost(error.kind().to_string()),
                ReadError::Truncated => CallError::Lost(error.to_string()),
                error => CallError::malformed(error.to_string()),
            })?
            .ok_or_else(|| CallError::Lost("closed".to_owned()))?;
        let malformed = |why: String| CallError::malformed(format!("answer to {ticket:?}: {why}"));
        let (key, version) = (ApiKey(R::KEY), ticket.version);
        let header = ResponseHeader::parse(frame.bytes, key, version)
            .map_err(|error| malformed(error.to_string()))?;
        if header.correlation_id != ticket.correlation_id {
            return Err(malformed(format!(
                "correlation id {}",
                header.correlation_id
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
        self.recorder()
            .note(self.client.id.as_str(), format_args!("= {ticket:?}"));
        let answered = Event::Answered {
            connection: self.number,
            api: key.0,
            version,
            correlation: header.correlation_id,
            throttle_ms: 0,
        };
        self.recorder().record(&self.client.id, answered);
        Ok(response)
    }

    /// Sends `request` and receives its answer, while nothing else is in flight.
    ///
    /// # Errors
    ///
    /// [`CallError`]; the connection is of no use afterwards.
    pub async fn call<R: Request>(&mut self, request: &R) -> Result<R::Response, CallError> {
        let ticket = self.send(request).await?;
        self.receive(&ticket).await
    }
}
