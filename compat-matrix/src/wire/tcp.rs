//! TCP as the seam of `host` has streams, so that its TLS runs over them.

use std::io;
use std::net::{Ipv4Addr, SocketAddr};
use std::pin::Pin;
use std::task::{Context, Poll};

use futures::FutureExt as _;
use futures::future::BoxFuture;
use host::net::{BoxStream, Connect, Stream};
use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use tokio::net::{TcpSocket, TcpStream};

/// Connects to one server.
#[derive(Clone, Debug)]
pub(crate) struct Dial {
    /// Name or address, without brackets.
    pub(crate) host: String,
    /// Its port.
    pub(crate) port: u16,
    /// What the kernel may hold unread; IPv4 addresses only.
    pub(crate) window: Option<u32>,
}

impl Connect for Dial {
    fn connect(&self) -> BoxFuture<'_, io::Result<BoxStream>> {
        async move {
            let stream = match self.window {
                None => TcpStream::connect((self.host.as_str(), self.port)).await?,
                Some(bytes) => {
                    let address: Ipv4Addr = self.host.parse().map_err(io::Error::other)?;
                    let socket = TcpSocket::new_v4()?;
                    socket.set_recv_buffer_size(bytes)?;
                    socket.connect((address, self.port).into()).await?
                }
            };
            Ok(boxed(stream))
        }
        .boxed()
    }
}

/// A socket as a stream of `host`.
pub(crate) fn boxed(stream: TcpStream) -> BoxStream {
    // Delays are the network's and not Nagle's. A socket that refuses it works all the same.
    let _ = stream.set_nodelay(true);
    Box::new(Tcp(stream))
}

struct Tcp(TcpStream);

const NOWHERE: SocketAddr = SocketAddr::new(std::net::IpAddr::V4(Ipv4Addr::UNSPECIFIED), 0);

impl Stream for Tcp {
    fn peer_addr(&self) -> SocketAddr {
        self.0.peer_addr().unwrap_or(NOWHERE)
    }

    fn local_addr(&self) -> SocketAddr {
        self.0.local_addr().unwrap_or(NOWHERE)
    }
}

impl AsyncRead for Tcp {
    fn poll_read(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        buf: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        Pin::new(&mut self.0).poll_read(cx, buf)
    }
}

impl AsyncWrite for Tcp {
    fn poll_write(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        bytes: &[u8],
    ) -> Poll<io::Result<usize>> {
        Pin::new(&mut self.0).poll_write(cx, bytes)
    }

    fn poll_flush(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.0).poll_flush(cx)
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.0).poll_shutdown(cx)
    }
}
