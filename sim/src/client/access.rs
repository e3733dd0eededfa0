//! How a client reaches its brokers: in the clear, or over TLS, and with a password where it has
//! one, which it says again before its session ends (KIP-368).
//!
//! What goes through TLS shows in the trace as the client reads and writes it: encrypted, it is
//! never twice the same.

use std::fmt;
use std::io;
use std::net::SocketAddr;
use std::pin::Pin;
use std::sync::{Arc, Mutex, PoisonError};
use std::task::{Context, Poll};
use std::time::Duration;

use host::tls::{Roots, TlsConnect};
use host::{BoxStream, Connect, Remote, Secret, Stream};
use kafka_protocol::messages::{
    SaslAuthenticateRequest, SaslAuthenticateResponse, SaslHandshakeRequest,
};
use kafka_protocol::protocol::StrBytes;
use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use tokio::time::sleep;

use super::connection::WeakConnection;
use super::{CallError, Client, Connection, refused};
use crate::history::Name;

/// Of a session's lifetime so much passes, in percent, before it is authenticated again: what Java's
/// SaslClientAuthenticator waits at least, and librdkafka and franz-go stay within.
const REAUTHENTICATE_AT: u32 = 85;

/// What a client knows of security.
#[derive(Clone, Debug, Default)]
pub struct Access {
    /// Whose certificates it believes; `None` speaks without TLS.
    pub trusts: Option<Roots>,
    /// What it says by SASL/PLAIN; `None` authenticates not at all.
    pub credentials: Option<Credentials>,
    /// Its credential may end: it may be refused.
    pub struck: bool,
    /// Nothing goes wrong but with the credentials of others.
    pub undisturbed: bool,
}

/// What a client authenticates with now. Clones are the same.
#[derive(Clone, Debug)]
pub struct Credentials(Arc<Mutex<Held>>);

/// One credential.
#[derive(Clone, Debug)]
pub struct Held {
    /// Its name in the history.
    pub principal: Name,
    /// Whose it is.
    pub tenant: Name,
    /// The password.
    pub secret: Secret<String>,
}

impl Credentials {
    /// Those of somebody who holds `held`.
    pub fn new(held: Held) -> Self {
        Self(Arc::new(Mutex::new(held)))
    }

    /// From now on it holds this instead.
    pub fn hold(&self, held: Held) {
        *self.0.lock().unwrap_or_else(PoisonError::into_inner) = held;
    }

    /// What it holds.
    pub fn held(&self) -> Held {
        self.0
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
            .clone()
    }
}

/// A stream to the broker at `address`.
pub(super) async fn connect(client: &Client, address: &(String, u16)) -> io::Result<BoxStream> {
    let (name, port) = address;
    let remote = Remote {
        net: Arc::clone(&client.host.net),
        host: name.clone(),
        port: *port,
    };
    let Some(roots) = &client.access.trusts else {
        return remote.connect().await;
    };
    let clock = Arc::clone(&client.host.clock);
    let tls = TlsConnect::new(Arc::new(remote), name, roots, clock).map_err(io::Error::other)?;
    let stream = tls.connect().await?;
    Ok(Box::new(Plaintext {
        stream,
        client: client.clone(),
    }))
}

/// Says who it is, where the client has a password (SASL/PLAIN, RFC 4616), and keeps saying it while
/// the connection lives.
pub(super) async fn authenticate(
    client: &Client,
    connection: &Connection,
) -> Result<(), CallError> {
    let Some(credentials) = &client.access.credentials else {
        return Ok(());
    };
    refused(connection.call(&handshake()).await?.error_code)?;
    let message = message(client, connection, credentials);
    let answer = connection.call(&message).await?;
    refused(answer.error_code)?;
    if let Some(lifetime) = lifetime(&answer) {
        let keeping = keep(
            client.clone(),
            credentials.clone(),
            connection.weak(),
            lifetime,
        );
        connection.keeps(tokio::spawn(keeping).abort_handle());
    }
    Ok(())
}

fn handshake() -> SaslHandshakeRequest {
    SaslHandshakeRequest::default().with_mechanism(StrBytes::from_static_str("PLAIN"))
}

fn message(
    client: &Client,
    connection: &Connection,
    credentials: &Credentials,
) -> SaslAuthenticateRequest {
    let held = credentials.held();
    let message = format!("\0{}\0{}", client.id, held.secret.expose());
    connection.presents(held);
    SaslAuthenticateRequest::default().with_auth_bytes(message.into())
}

/// How long the session lasts; `None` is for ever.
fn lifetime(answer: &SaslAuthenticateResponse) -> Option<Duration> {
    let lifetime = u64::try_from(answer.session_lifetime_ms).ok()?;
    (lifetime > 0).then(|| Duration::from_millis(lifetime))
}

/// Authenticates again and again, with what the client holds then. Nothing may come between the two
/// requests, so both are written before an answer is waited for.
async fn keep(
    client: Client,
    credentials: Credentials,
    connection: WeakConnection,
    mut lasts: Duration,
) {
    loop {
        sleep(lasts * REAUTHENTICATE_AT / 100).await;
        let sent = {
            let Some(connection) = connection.upgrade() else {
                return;
            };
            let handshake = connection.send(&handshake());
            let message = connection.send(&message(&client, &connection, &credentials));
            handshake.and_then(|handshake| Ok((handshake, message?)))
        };
        let Ok((mut handshake, mut message)) = sent else {
            return;
        };
        let answers = async {
            refused(handshake.answer().await?.error_code)?;
            let answer = message.answer().await?;
            refused(answer.error_code)?;
            Ok(lifetime(&answer))
        };
        match answers.await {
            Ok(Some(lifetime)) => lasts = lifetime,
            Ok(None) => return,
            // The broker closes what it refuses.
            Err(error) => return client.lament(&error),
        }
    }
}

/// A stream whose bytes are noted where they are readable.
struct Plaintext {
    stream: BoxStream,
    client: Client,
}

impl Plaintext {
    fn note(&self, direction: fmt::Arguments<'_>, bytes: &[u8]) {
        let checksum = crc32c::crc32c(bytes);
        self.client.note(format_args!(
            "{direction} {} bytes {checksum:08x}",
            bytes.len()
        ));
    }
}

impl AsyncRead for Plaintext {
    fn poll_read(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        buf: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        let before = buf.filled().len();
        let read = Pin::new(&mut self.stream).poll_read(cx, buf);
        if let Poll::Ready(Ok(())) = read {
            self.note(format_args!("< plaintext"), &buf.filled()[before..]);
        }
        read
    }
}

impl AsyncWrite for Plaintext {
    fn poll_write(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        buf: &[u8],
    ) -> Poll<io::Result<usize>> {
        let written = Pin::new(&mut self.stream).poll_write(cx, buf);
        if let Poll::Ready(Ok(bytes)) = written {
            self.note(format_args!("> plaintext"), &buf[..bytes]);
        }
        written
    }

    fn poll_flush(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.stream).poll_flush(cx)
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.stream).poll_shutdown(cx)
    }
}

impl Stream for Plaintext {
    fn peer_addr(&self) -> SocketAddr {
        self.stream.peer_addr()
    }

    fn local_addr(&self) -> SocketAddr {
        self.stream.local_addr()
    }
}
