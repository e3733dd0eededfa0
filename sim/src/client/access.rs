//! How a client reaches its brokers: in the clear, or over TLS, and with a password where it has
//! one.
//!
//! What goes through TLS shows in the trace as the client reads and writes it: encrypted, it is
//! never twice the same.

use std::fmt;
use std::io;
use std::net::SocketAddr;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};

use host::tls::{Roots, TlsConnect};
use host::{BoxStream, Connect, Remote, Secret, Stream};
use kafka_protocol::messages::{SaslAuthenticateRequest, SaslHandshakeRequest};
use kafka_protocol::protocol::StrBytes;
use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};

use super::{CallError, Client, Connection, refused};

/// What a client knows of security.
#[derive(Clone, Debug, Default)]
pub struct Access {
    /// Whose certificates it believes; `None` speaks without TLS.
    pub trusts: Option<Roots>,
    /// The password of SASL/PLAIN; `None` authenticates not at all.
    pub password: Option<Secret<String>>,
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

/// Says who it is, where the client has a password (SASL/PLAIN, RFC 4616).
pub(super) async fn authenticate(
    client: &Client,
    connection: &Connection,
) -> Result<(), CallError> {
    let Some(password) = &client.access.password else {
        return Ok(());
    };
    let handshake =
        SaslHandshakeRequest::default().with_mechanism(StrBytes::from_static_str("PLAIN"));
    refused(connection.call(&handshake).await?.error_code)?;
    let message = format!("\0{}\0{}", client.id, password.expose());
    let authenticate = SaslAuthenticateRequest::default().with_auth_bytes(message.into());
    refused(connection.call(&authenticate).await?.error_code)
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
