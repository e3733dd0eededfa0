//! One connection that sends and reads length-prefixed frames.

use std::io;
use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use host::net::{BoxStream, Connect as _};
use host::os::OsClock;
use host::tls::TlsConnect;
use tokio::io::{
    AsyncBufReadExt as _, AsyncRead, AsyncReadExt as _, AsyncWriteExt as _, BufReader, ReadHalf,
    WriteHalf,
};
use tokio::time::timeout;

use super::access::Access;
use super::tcp::Dial;

/// The largest answer that is read. No check asks for more than 64 MiB.
pub const MAX_ANSWER_BYTES: usize = 128 * 1024 * 1024;
/// How long to wait for a connection or an answer that nobody bounds otherwise.
pub const ANSWER_WITHIN: Duration = Duration::from_secs(10);
/// What is read ahead: a length and a header. Whoever does not read must not have read much.
const AHEAD_BYTES: usize = 64;

/// A connection to a broker.
pub struct Connection {
    stream: BufReader<BoxStream>,
}

impl std::fmt::Debug for Connection {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("Connection")
    }
}

/// What came after a frame was sent.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Reply {
    /// A frame, without its length prefix.
    Frame(Bytes),
    /// The connection was closed; the text says how.
    Closed(String),
    /// Nothing came in time, and the connection is open.
    Silence,
}

impl Connection {
    /// Connects, and does what the server demands: the TLS handshake, the authentication.
    ///
    /// # Errors
    ///
    /// What the system says, or `TimedOut`; `InvalidData` for a handshake that failed, and
    /// `PermissionDenied` for an authentication.
    pub async fn open(to: &Access) -> io::Result<Self> {
        Self::open_with(to, None).await
    }

    /// As [`Connection::open`], with a window of about `bytes`: what is not read stays with the other
    /// side. IPv4 addresses only.
    ///
    /// # Errors
    ///
    /// As [`Connection::open`], or an address that is a name.
    pub async fn open_narrow(to: &Access, bytes: usize) -> io::Result<Self> {
        let window = u32::try_from(bytes).map_err(io::Error::other)?;
        Self::open_with(to, Some(window)).await
    }

    async fn open_with(to: &Access, window: Option<u32>) -> io::Result<Self> {
        let mut connection = Self::open_stranger(to, window).await?;
        if let Some(who) = &to.security().sasl {
            connection.authenticate(who).await?;
        }
        Ok(connection)
    }

    /// Connects under TLS where the server demands it, and stays a stranger where it authenticates.
    ///
    /// # Errors
    ///
    /// As [`Connection::open`].
    pub async fn open_unauthenticated(to: &Access) -> io::Result<Self> {
        Self::open_stranger(to, None).await
    }

    async fn open_stranger(to: &Access, window: Option<u32>) -> io::Result<Self> {
        let dial = dial(to, window)?;
        let Some(trust) = &to.security().tls else {
            return Self::over(dial.connect()).await;
        };
        let name = dial.host.clone();
        let clock = Arc::new(OsClock::new());
        let tls = TlsConnect::new(Arc::new(dial), &name, trust.roots(), clock)
            .map_err(io::Error::other)?;
        Self::over(tls.connect()).await
    }

    /// Connects and says nothing, whatever the server demands.
    ///
    /// # Errors
    ///
    /// What the system says, or `TimedOut`.
    pub async fn open_bare(to: &Access) -> io::Result<Self> {
        Self::over(dial(to, None)?.connect()).await
    }

    async fn over(connecting: impl Future<Output = io::Result<BoxStream>>) -> io::Result<Self> {
        let stream = timeout(ANSWER_WITHIN, connecting)
            .await
            .map_err(|_| io::Error::from(io::ErrorKind::TimedOut))??;
        Ok(Self {
            stream: BufReader::with_capacity(AHEAD_BYTES, stream),
        })
    }

    /// Reads what is there, up to `most` bytes, and drops it; answers how much it was. Zero is the
    /// end.
    ///
    /// # Errors
    ///
    /// What the system says.
    pub async fn read_some(&mut self, most: usize) -> io::Result<usize> {
        self.stream.read(&mut vec![0; most]).await
    }

    /// Sends `body` behind its length.
    ///
    /// # Errors
    ///
    /// What the system says: a broken pipe when the other side has closed already.
    pub async fn send(&mut self, body: &[u8]) -> io::Result<()> {
        let length = i32::try_from(body.len()).map_err(io::Error::other)?;
        let mut frame = Vec::with_capacity(4 + body.len());
        frame.extend_from_slice(&length.to_be_bytes());
        frame.extend_from_slice(body);
        self.send_raw(&frame).await
    }

    /// Sends bytes as they are, for frames that lie.
    ///
    /// # Errors
    ///
    /// What the system says: a broken pipe when the other side has closed already.
    pub async fn send_raw(&mut self, bytes: &[u8]) -> io::Result<()> {
        self.stream.write_all(bytes).await?;
        self.stream.flush().await
    }

    /// Ends the sending half: the other side reads an end of file.
    ///
    /// # Errors
    ///
    /// What the system says.
    pub async fn finish(&mut self) -> io::Result<()> {
        self.stream.shutdown().await
    }

    /// Waits for a frame, a close, or the end of `within`.
    pub async fn reply(&mut self, within: Duration) -> Reply {
        reply(&mut self.stream, within).await
    }

    /// Both halves, for a client that sends while it reads.
    pub fn split(&mut self) -> (Reader<'_>, Writer<'_>) {
        let (reader, writer) = tokio::io::split(&mut self.stream);
        (Reader(reader), Writer(writer))
    }

    /// Waits until something can be read, and reads a few bytes of it ahead at most.
    ///
    /// # Errors
    ///
    /// What the system says, or `TimedOut`.
    pub async fn has_bytes(&mut self, within: Duration) -> io::Result<()> {
        timeout(within, self.stream.fill_buf())
            .await
            .map_err(|_| io::Error::from(io::ErrorKind::TimedOut))?
            .map(|_| ())
    }

    /// Reads and drops whatever comes until the other side closes or `within` is over.
    pub async fn read_to_end(&mut self, within: Duration) -> ReadToEnd {
        let mut read = ReadToEnd {
            bytes: 0,
            closed: false,
        };
        let mut buffer = vec![0; 64 * 1024];
        let reading = async {
            loop {
                match self.stream.read(&mut buffer).await {
                    Ok(0) | Err(_) => break,
                    Ok(count) => read.bytes += count,
                }
            }
        };
        let closed = timeout(within, reading).await.is_ok();
        read.closed = closed;
        read
    }

    /// Whether a server answers an ApiVersions v0 request, which every Kafka does.
    ///
    /// # Errors
    ///
    /// Why not, in a few words.
    pub async fn ask_api_versions(to: &Access) -> Result<(), String> {
        /// Key 18, version 0, correlation id 7, client id "ready".
        const REQUEST: &[u8] = b"\x00\x12\x00\x00\x00\x00\x00\x07\x00\x05ready";
        let mut connection = Self::open(to).await.map_err(|error| error.to_string())?;
        connection
            .send(REQUEST)
            .await
            .map_err(|error| error.to_string())?;
        match connection.reply(Duration::from_secs(2)).await {
            Reply::Frame(frame) if frame.starts_with(&7_i32.to_be_bytes()) => Ok(()),
            Reply::Frame(_) => Err("it answered something that is not ApiVersions".into()),
            Reply::Closed(how) => Err(how),
            Reply::Silence => Err("it accepts connections but does not answer".into()),
        }
    }
}

/// The half of a connection that reads.
pub struct Reader<'a>(ReadHalf<&'a mut BufReader<BoxStream>>);

/// The half of a connection that sends.
pub struct Writer<'a>(WriteHalf<&'a mut BufReader<BoxStream>>);

/// What came before the end of a connection.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ReadToEnd {
    /// How much.
    pub bytes: usize,
    /// Whether the end came.
    pub closed: bool,
}

impl Reader<'_> {
    /// As [`Connection::reply`].
    pub async fn reply(&mut self, within: Duration) -> Reply {
        reply(&mut self.0, within).await
    }
}

impl Writer<'_> {
    /// As [`Connection::send_raw`].
    ///
    /// # Errors
    ///
    /// What the system says.
    pub async fn send_raw(&mut self, bytes: &[u8]) -> io::Result<()> {
        self.0.write_all(bytes).await?;
        self.0.flush().await
    }
}

fn dial(to: &Access, window: Option<u32>) -> io::Result<Dial> {
    let (host, port) = to.host_and_port().ok_or_else(|| {
        io::Error::new(
            io::ErrorKind::InvalidInput,
            format!("{to} is not HOST:PORT"),
        )
    })?;
    Ok(Dial {
        host: host.to_owned(),
        port,
        window,
    })
}

async fn reply(stream: &mut (impl AsyncRead + Unpin), within: Duration) -> Reply {
    match timeout(within, read_frame(stream)).await {
        Ok(Ok(frame)) => Reply::Frame(frame),
        Ok(Err(error)) => Reply::Closed(closing_words(&error)),
        Err(_) => Reply::Silence,
    }
}

async fn read_frame(stream: &mut (impl AsyncRead + Unpin)) -> io::Result<Bytes> {
    let length = stream.read_i32().await?;
    let length = usize::try_from(length)
        .ok()
        .filter(|length| *length <= MAX_ANSWER_BYTES)
        .ok_or_else(|| {
            io::Error::new(
                io::ErrorKind::InvalidData,
                format!("an answer that says it has {length} bytes"),
            )
        })?;
    let mut frame = vec![0; length];
    stream.read_exact(&mut frame).await?;
    Ok(frame.into())
}

fn closing_words(error: &io::Error) -> String {
    match error.kind() {
        io::ErrorKind::UnexpectedEof => "closed".to_owned(),
        io::ErrorKind::ConnectionReset => "reset".to_owned(),
        _ => error.to_string(),
    }
}
