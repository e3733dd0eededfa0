//! The real machine: tokio's sockets, the system's clocks and generator, tokio's blocking pool.

use std::io;
use std::net::SocketAddr;
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

    fn connect<'a>(&'a self, host: &'a str, port: u16) -> BoxFuture<'a, io::Result<BoxStream>> {
        async move { OsStream::boxed(TcpStream::connect((host, port)).await?) }.boxed()
    }
}

struct OsListener {
    listener: TcpListener,
    local: SocketAddr,
}

impl Listener for OsListener {
    fn accept(&mut self) -> BoxFuture<'_, io::Result<BoxStream>> {
        async { OsStream::boxed(self.listener.accept().await?.0) }.boxed()
    }

    fn local_addr(&self) -> SocketAddr {
        self.local
    }
}

/// A TCP stream with its addresses read once, so they are still known after a reset.
struct OsStream {
    stream: TcpStream,
    peer: SocketAddr,
    local: SocketAddr,
}

impl OsStream {
    fn boxed(stream: TcpStream) -> io::Result<BoxStream> {
        stream.set_nodelay(true)?;
        let (peer, local) = (stream.peer_addr()?, stream.local_addr()?);
        Ok(Box::new(Self {
            stream,
            peer,
            local,
        }))
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
