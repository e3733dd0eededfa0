//! turmoil's sockets as `host` streams. What is written is traced by its writer, so that every byte
//! on the network shows once.

use std::io;
use std::net::{IpAddr, SocketAddr};
use std::pin::Pin;
use std::task::{Context, Poll};

use futures::FutureExt;
use futures::future::BoxFuture;
use host::{BoxStream, Listener, Net, Stream};
use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use turmoil::net::{TcpListener, TcpStream};

use super::Machine;
use crate::trace::Node;

/// The network as one machine sees it.
#[derive(Clone, Debug)]
pub(super) struct SimNet {
    machine: Machine,
}

impl SimNet {
    /// The network card of `machine`.
    pub(super) fn new(machine: Machine) -> Self {
        Self { machine }
    }

    fn stream(&self, stream: TcpStream) -> io::Result<BoxStream> {
        let (peer, local) = (stream.peer_addr()?, stream.local_addr()?);
        Ok(Box::new(SimStream {
            number: self.machine.0.sockets.number(),
            stream: Some(stream),
            peer,
            local,
            machine: self.machine.clone(),
        }))
    }
}

/// The name behind an address, for the trace.
fn named(addr: SocketAddr) -> String {
    match turmoil::reverse_lookup(addr.ip()) {
        Some(name) => format!("{name}:{}", addr.port()),
        None => addr.to_string(),
    }
}

impl Net for SimNet {
    fn bind(&self, addr: SocketAddr) -> BoxFuture<'_, io::Result<Box<dyn Listener>>> {
        async move {
            let listener = TcpListener::bind(addr).await?;
            let local = listener.local_addr()?;
            let net = self.clone();
            Ok(Box::new(SimListener {
                listener,
                local,
                net,
            }) as Box<dyn Listener>)
        }
        .boxed()
    }

    fn resolve<'a>(
        &'a self,
        host: &'a str,
        port: u16,
    ) -> BoxFuture<'a, io::Result<Vec<SocketAddr>>> {
        async move {
            if let Ok(ip) = host.parse::<IpAddr>() {
                return Ok(vec![SocketAddr::new(ip, port)]);
            }
            // turmoil would give any name an address of its own.
            let known = Node::ALL.iter().find(|node| node.name() == host);
            let known = known.ok_or(io::ErrorKind::NotFound)?;
            Ok(vec![SocketAddr::new(turmoil::lookup(known.name()), port)])
        }
        .boxed()
    }

    fn connect<'a>(&'a self, host: &'a str, port: u16) -> BoxFuture<'a, io::Result<BoxStream>> {
        async move {
            let stream = TcpStream::connect((host, port)).await?;
            self.stream(stream)
        }
        .boxed()
    }
}

struct SimListener {
    listener: TcpListener,
    local: SocketAddr,
    net: SimNet,
}

impl Listener for SimListener {
    fn accept(&mut self) -> BoxFuture<'_, io::Result<BoxStream>> {
        async {
            let (stream, _) = self.listener.accept().await?;
            self.net.stream(stream)
        }
        .boxed()
    }

    fn local_addr(&self) -> SocketAddr {
        self.local
    }
}

struct SimStream {
    number: u64,
    /// Gone only while it is dropped.
    stream: Option<TcpStream>,
    peer: SocketAddr,
    local: SocketAddr,
    machine: Machine,
}

impl SimStream {
    fn open(&mut self) -> io::Result<Pin<&mut TcpStream>> {
        let stream = self.stream.as_mut();
        Ok(Pin::new(stream.ok_or(io::ErrorKind::NotConnected)?))
    }
}

impl Drop for SimStream {
    fn drop(&mut self) {
        if let Some(stream) = self.stream.take() {
            self.machine.0.sockets.dropped(self.number, stream);
        }
    }
}

impl Stream for SimStream {
    fn peer_addr(&self) -> SocketAddr {
        self.peer
    }

    fn local_addr(&self) -> SocketAddr {
        self.local
    }
}

impl AsyncRead for SimStream {
    fn poll_read(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        buf: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        self.open()?.poll_read(cx, buf)
    }
}

impl AsyncWrite for SimStream {
    fn poll_write(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        buf: &[u8],
    ) -> Poll<io::Result<usize>> {
        let written = self.open()?.poll_write(cx, buf);
        if let Poll::Ready(Ok(bytes)) = written {
            let (port, peer) = (self.local.port(), named(self.peer));
            let to = format_args!(":{port} {peer}");
            let Machine(machine) = &self.machine;
            machine.trace.sent(machine.node, to, &buf[..bytes]);
        }
        written
    }

    fn poll_write_vectored(
        self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        bufs: &[io::IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        // One segment, as the kernel would send it.
        let segment: Vec<u8> = bufs.iter().flat_map(|buf| buf.iter().copied()).collect();
        self.poll_write(cx, &segment)
    }

    fn is_write_vectored(&self) -> bool {
        true
    }

    fn poll_flush(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        self.open()?.poll_flush(cx)
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        self.open()?.poll_shutdown(cx)
    }
}
