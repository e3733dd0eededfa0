//! The real machine: tokio's sockets, the system's clocks and generator, tokio's blocking pool.

use std::io;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};
use std::time::{SystemTime, UNIX_EPOCH};

use futures::FutureExt;
use futures::future::BoxFuture;
use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use tokio::net::{TcpListener, TcpStream};

use crate::Host;
use crate::blocking::Blocking;
use crate::clock::{Clock, Monotonic, WallTime};
use crate::entropy::Entropy;
use crate::net::{BoxStream, Listener, Net, Stream};

/// The host of a production process. Call it inside a tokio runtime.
pub fn host() -> Host {
    Host {
        net: Arc::new(OsNet),
        clock: Arc::new(OsClock::new()),
        entropy: Arc::new(OsEntropy),
        blocking: Blocking::Pool,
    }
}

/// The system's network stack.
#[derive(Debug)]
pub struct OsNet;

/// Connections the kernel queues before they are accepted.
const BACKLOG: i32 = 1024;

impl Net for OsNet {
    fn bind(&self, addr: SocketAddr) -> BoxFuture<'_, io::Result<Box<dyn Listener>>> {
        async move {
            let socket = socket2::Socket::new(
                socket2::Domain::for_address(addr),
                socket2::Type::STREAM,
                Some(socket2::Protocol::TCP),
            )?;
            socket.set_reuse_address(true)?;
            socket.set_nonblocking(true)?;
            if addr.ip() == std::net::IpAddr::V6(std::net::Ipv6Addr::UNSPECIFIED) {
                // One wildcard listener serves both families, whatever the system's default is.
                socket.set_only_v6(false)?;
            }
            socket.bind(&addr.into())?;
            socket.listen(BACKLOG)?;
            let listener = TcpListener::from_std(socket.into())?;
            let local = listener.local_addr()?;
            Ok(Box::new(OsListener { listener, local }) as Box<dyn Listener>)
        }
        .boxed()
    }

    fn resolve<'a>(
        &'a self,
        host: &'a str,
        port: u16,
    ) -> BoxFuture<'a, io::Result<Vec<SocketAddr>>> {
        async move {
            let found: Vec<_> = tokio::net::lookup_host((host, port)).await?.collect();
            if found.is_empty() {
                return Err(io::ErrorKind::NotFound.into());
            }
            Ok(found)
        }
        .boxed()
    }

    #[expect(clippy::disallowed_methods, reason = "the seam itself")]
    fn connect<'a>(&'a self, host: &'a str, port: u16) -> BoxFuture<'a, io::Result<BoxStream>> {
        async move {
            let stream = TcpStream::connect((host, port)).await?;
            let peer = stream.peer_addr()?;
            Ok(OsStream::boxed(stream, peer))
        }
        .boxed()
    }
}

struct OsListener {
    listener: TcpListener,
    local: SocketAddr,
}

impl Listener for OsListener {
    fn accept(&mut self) -> BoxFuture<'_, io::Result<BoxStream>> {
        async {
            let (stream, peer) = self.listener.accept().await?;
            Ok(OsStream::boxed(stream, peer))
        }
        .boxed()
    }

    fn local_addr(&self) -> SocketAddr {
        self.local
    }
}

/// A socket that was made elsewhere, as a stream of the seam.
pub fn stream(stream: TcpStream) -> BoxStream {
    let nowhere = SocketAddr::new(IpAddr::V4(Ipv4Addr::UNSPECIFIED), 0);
    let peer = stream.peer_addr().unwrap_or(nowhere);
    OsStream::boxed(stream, peer)
}

/// A TCP stream with its addresses read once, so they are still known after a reset.
struct OsStream {
    stream: TcpStream,
    peer: SocketAddr,
    local: SocketAddr,
}

impl OsStream {
    /// Never fails: a peer that is gone already is found out by the first read, not by whoever
    /// accepts.
    fn boxed(stream: TcpStream, peer: SocketAddr) -> BoxStream {
        // Only a socket that was reset refuses this.
        let _ = stream.set_nodelay(true);
        let unknown = match peer {
            SocketAddr::V4(_) => IpAddr::V4(Ipv4Addr::UNSPECIFIED),
            SocketAddr::V6(_) => IpAddr::V6(Ipv6Addr::UNSPECIFIED),
        };
        let local = stream.local_addr().unwrap_or(SocketAddr::new(unknown, 0));
        Box::new(Self {
            stream,
            peer,
            local,
        })
    }
}

impl Stream for OsStream {
    fn peer_addr(&self) -> SocketAddr {
        self.peer
    }

    fn local_addr(&self) -> SocketAddr {
        self.local
    }
}

impl AsyncRead for OsStream {
    fn poll_read(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        buf: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        Pin::new(&mut self.stream).poll_read(cx, buf)
    }
}

impl AsyncWrite for OsStream {
    fn poll_write(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        buf: &[u8],
    ) -> Poll<io::Result<usize>> {
        Pin::new(&mut self.stream).poll_write(cx, buf)
    }

    fn poll_write_vectored(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        bufs: &[io::IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        Pin::new(&mut self.stream).poll_write_vectored(cx, bufs)
    }

    fn is_write_vectored(&self) -> bool {
        true
    }

    fn poll_flush(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.stream).poll_flush(cx)
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.stream).poll_shutdown(cx)
    }
}

/// tokio's monotonic clock and the system's wall clock.
#[derive(Debug)]
pub struct OsClock {
    origin: tokio::time::Instant,
}

impl OsClock {
    /// A clock whose origin is now.
    pub fn new() -> Self {
        Self {
            origin: tokio::time::Instant::now(),
        }
    }
}

impl Default for OsClock {
    fn default() -> Self {
        Self::new()
    }
}

impl Clock for OsClock {
    fn monotonic(&self) -> Monotonic {
        Monotonic::from_origin(self.origin.elapsed())
    }

    #[expect(clippy::disallowed_methods, reason = "the seam itself")]
    fn wall(&self) -> WallTime {
        let ms = SystemTime::now()
            .duration_since(UNIX_EPOCH)
            .map_or(0, |since| since.as_millis());
        WallTime::from_epoch_ms(i64::try_from(ms).unwrap_or(i64::MAX))
    }
}

/// The system's generator.
#[derive(Debug)]
pub struct OsEntropy;

impl Entropy for OsEntropy {
    fn fill(&self, bytes: &mut [u8]) {
        // A kernel without a generator can't run a node, and there is nobody to answer.
        #[expect(
            clippy::expect_used,
            clippy::disallowed_methods,
            reason = "the seam itself"
        )]
        getrandom::fill(bytes).expect("the system's random generator works");
    }
}

#[cfg(test)]
mod tests {
    use tokio::io::{AsyncReadExt, AsyncWriteExt};

    use super::*;

    /// Whether this machine has IPv6 at all; containers often have none.
    fn has_ipv6() -> bool {
        std::net::TcpListener::bind("[::1]:0").is_ok()
    }

    async fn reaches(host: &str, listener: &mut Box<dyn Listener>) -> bool {
        let port = listener.local_addr().port();
        let connecting = async {
            let mut near = OsNet.connect(host, port).await?;
            near.write_all(b"x").await?;
            Ok::<_, io::Error>(near)
        };
        let (near, far) = tokio::join!(connecting, listener.accept());
        let (near, mut far) = (near.unwrap(), far.unwrap());
        let mut byte = [0];
        far.read_exact(&mut byte).await.unwrap();
        byte == *b"x" && near.local_addr().port() == far.peer_addr().port()
    }

    #[tokio::test]
    async fn one_wildcard_listener_serves_both_families() {
        let families: &[(&str, &[&str])] = match has_ipv6() {
            true => &[("[::]:0", &["127.0.0.1", "::1"]), ("[::1]:0", &["::1"])],
            false => &[],
        };
        for (addr, hosts) in [("0.0.0.0:0", &["127.0.0.1", "localhost"][..])]
            .iter()
            .chain(families)
        {
            let mut listener = OsNet.bind(addr.parse().unwrap()).await.unwrap();
            for host in *hosts {
                assert!(reaches(host, &mut listener).await, "{host} at {addr}");
            }
        }
    }

    #[tokio::test]
    async fn names_resolve_to_addresses_with_the_port() {
        let found = OsNet.resolve("localhost", 9092).await.unwrap();
        assert!(
            found
                .iter()
                .all(|addr| addr.ip().is_loopback() && addr.port() == 9092)
        );
        assert!(OsNet.resolve("no such name", 1).await.is_err());
    }
}
