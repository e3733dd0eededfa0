//! turmoil's sockets as `host` streams. What is written is traced by its writer, so that every byte
//! on the network shows once.

use std::io;
use std::net::{IpAddr, SocketAddr};
use std::pin::Pin;
use std::task::{Context, Poll, ready};

use futures::FutureExt;
use futures::future::BoxFuture;
use host::{BoxStream, Listener, Net, Stream};
use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use tokio::runtime::Handle;
use turmoil::net::{TcpListener, TcpStream};

use super::Machine;
use super::late::{Late, Outgoing};
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

    fn stream(&self, stream: TcpStream, late: Option<Late>) -> io::Result<BoxStream> {
        let (peer, local) = (stream.peer_addr()?, stream.local_addr()?);
        let socket = Socket {
            number: self.machine.0.sockets.number(),
            stream: Some(stream),
            peer,
            local,
            machine: self.machine.clone(),
        };
        Ok(Box::new(SimStream {
            socket: Some(socket),
            outgoing: late.map(Outgoing::new),
            peer,
            local,
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
            let Machine(machine) = &self.machine;
            machine.gate.open().await;
            let stream = TcpStream::connect((host, port)).await?;
            self.stream(stream, machine.late.clone())
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
            let gate = &self.net.machine.0.gate;
            gate.open().await;
            let (stream, _) = self.listener.accept().await?;
            gate.open().await;
            self.net.stream(stream, None)
        }
        .boxed()
    }

    fn local_addr(&self) -> SocketAddr {
        self.local
    }
}

/// An open socket of a machine.
struct Socket {
    number: u64,
    /// Gone only while it is dropped.
    stream: Option<TcpStream>,
    peer: SocketAddr,
    local: SocketAddr,
    machine: Machine,
}

impl Socket {
    /// The stream, while the machine isn't frozen.
    fn open(&mut self, cx: &Context<'_>) -> Poll<io::Result<Pin<&mut TcpStream>>> {
        ready!(self.machine.0.gate.poll_open(cx));
        let stream = self.stream.as_mut();
        Poll::Ready(
            stream
                .map(Pin::new)
                .ok_or(io::ErrorKind::NotConnected.into()),
        )
    }
}

impl Drop for Socket {
    fn drop(&mut self) {
        if let Some(stream) = self.stream.take() {
            let Machine(machine) = &self.machine;
            machine
                .sockets
                .dropped(self.number, stream, machine.gate.is_shut());
        }
    }
}

impl AsyncRead for Socket {
    fn poll_read(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        buf: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        ready!(self.open(cx))?.poll_read(cx, buf)
    }
}

impl AsyncWrite for Socket {
    fn poll_write(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        buf: &[u8],
    ) -> Poll<io::Result<usize>> {
        let written = ready!(self.open(cx))?.poll_write(cx, buf);
        if let Poll::Ready(Ok(bytes)) = written {
            let (port, peer) = (self.local.port(), named(self.peer));
            let to = format_args!(":{port} {peer}");
            let Machine(machine) = &self.machine;
            let ports = [port, self.peer.port()];
            machine.trace.sent(machine.node, to, ports, &buf[..bytes]);
        }
        written
    }

    fn poll_flush(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        ready!(self.open(cx))?.poll_flush(cx)
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        ready!(self.open(cx))?.poll_shutdown(cx)
    }
}

/// A socket, and what its program has written that is still to go out.
struct SimStream {
    /// Gone only while it is dropped.
    socket: Option<Socket>,
    outgoing: Option<Outgoing>,
    peer: SocketAddr,
    local: SocketAddr,
}

impl SimStream {
    fn socket(&mut self) -> io::Result<Pin<&mut Socket>> {
        let socket = self.socket.as_mut().map(Pin::new);
        socket.ok_or(io::ErrorKind::NotConnected.into())
    }

    /// Sends what is due. Pending while anything waits.
    fn pump(&mut self, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        let (Some(outgoing), Some(socket)) = (&mut self.outgoing, &mut self.socket) else {
            return Poll::Ready(Ok(()));
        };
        outgoing.poll(cx, |cx, bytes| Pin::new(&mut *socket).poll_write(cx, bytes))
    }
}

impl Drop for SimStream {
    fn drop(&mut self) {
        let (Some(socket), Some(outgoing)) = (self.socket.take(), self.outgoing.take()) else {
            return;
        };
        // What was written before a close arrives, as it does from a kernel's buffers.
        if !outgoing.is_empty()
            && let Ok(runtime) = Handle::try_current()
        {
            runtime.spawn(outgoing.linger(socket));
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
        if let Poll::Ready(Err(error)) = self.pump(cx) {
            return Poll::Ready(Err(error));
        }
        self.socket()?.poll_read(cx, buf)
    }
}

impl AsyncWrite for SimStream {
    fn poll_write(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        buf: &[u8],
    ) -> Poll<io::Result<usize>> {
        if let Poll::Ready(Err(error)) = self.pump(cx) {
            return Poll::Ready(Err(error));
        }
        if let Some(taken) = self
            .outgoing
            .as_mut()
            .and_then(|outgoing| outgoing.take(buf))
        {
            // Starts the clock of what was taken.
            let _ = self.pump(cx);
            return Poll::Ready(Ok(taken));
        }
        let written = self.socket()?.poll_write(cx, buf);
        if let (Some(outgoing), Poll::Ready(Ok(bytes))) = (&mut self.outgoing, &written) {
            outgoing.passed(*bytes);
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
        // What is late is out of the program's hands.
        if let Poll::Ready(Err(error)) = self.pump(cx) {
            return Poll::Ready(Err(error));
        }
        self.socket()?.poll_flush(cx)
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        ready!(self.pump(cx))?;
        self.socket()?.poll_shutdown(cx)
    }
}
