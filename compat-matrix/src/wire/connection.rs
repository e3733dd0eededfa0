//! One TCP connection that sends and reads length-prefixed frames.

use std::io;
use std::time::Duration;

use bytes::Bytes;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;
use tokio::time::timeout;

/// The largest answer that is read. No check asks for more than 64 MiB.
pub const MAX_ANSWER_BYTES: usize = 128 * 1024 * 1024;
/// How long to wait for a connection or an answer that nobody bounds otherwise.
pub const ANSWER_WITHIN: Duration = Duration::from_secs(10);

/// A connection to a broker.
#[derive(Debug)]
pub struct Connection {
    stream: TcpStream,
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
    /// Connects to `host:port`.
    ///
    /// # Errors
    ///
    /// What the system says, or `TimedOut`.
    pub async fn open(bootstrap: &str) -> io::Result<Self> {
        let stream = timeout(ANSWER_WITHIN, TcpStream::connect(bootstrap))
            .await
            .map_err(|_| io::Error::from(io::ErrorKind::TimedOut))??;
        stream.set_nodelay(true)?;
        Ok(Self { stream })
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
        match timeout(within, self.read_frame()).await {
            Ok(Ok(frame)) => Reply::Frame(frame),
            Ok(Err(error)) => Reply::Closed(closing_words(&error)),
            Err(_) => Reply::Silence,
        }
    }

    async fn read_frame(&mut self) -> io::Result<Bytes> {
        let length = self.stream.read_i32().await?;
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
        self.stream.read_exact(&mut frame).await?;
        Ok(frame.into())
    }

    /// Whether `bootstrap` answers an ApiVersions v0 request, which every Kafka does.
    ///
    /// # Errors
    ///
    /// Why not, in a few words.
    pub async fn ask_api_versions(bootstrap: &str) -> Result<(), String> {
        /// Key 18, version 0, correlation id 7, client id "ready".
        const REQUEST: &[u8] = b"\x00\x12\x00\x00\x00\x00\x00\x07\x00\x05ready";
        let mut connection = Self::open(bootstrap)
            .await
            .map_err(|error| error.to_string())?;
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

fn closing_words(error: &io::Error) -> String {
    match error.kind() {
        io::ErrorKind::UnexpectedEof => "closed".to_owned(),
        io::ErrorKind::ConnectionReset => "reset".to_owned(),
        _ => error.to_string(),
    }
}
