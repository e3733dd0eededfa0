//! In-memory streams: a listener and a connector that meet inside one process.

use std::io;
use std::net::{Ipv4Addr, SocketAddr};
use std::pin::Pin;
use std::task::{Context, Poll};

use futures::FutureExt;
use futures::future::BoxFuture;
use tokio::io::{AsyncRead, AsyncWrite, DuplexStream, ReadBuf};
use tokio::sync::mpsc;

use crate::net::{BoxStream, Connect, Listener, Stream};

/// The address of every pipe end.
const NOWHERE: SocketAddr = SocketAddr::new(std::net::IpAddr::V4(Ipv4Addr::UNSPECIFIED), 0);
/// Connections that may wait to be accepted.
const BACKLOG: usize = 128;

/// A connected pair: streams made by the connector come out of the listener. Each direction holds
/// at most `capacity_bytes` unread bytes.
pub fn pipe(capacity_bytes: usize) -> (PipeConnector, PipeListener) {
    let (sender, receiver) = mpsc::channel(BACKLOG);
    (
        PipeConnector {
            sender,
            capacity_bytes,
        },
        PipeListener { receiver },
    )
}

/// Makes streams to the [`PipeListener`] of its pair.
#[derive(Clone, Debug)]
pub struct PipeConnector {
    sender: mpsc::Sender<DuplexStream>,
    capacity_bytes: usize,
}

impl Connect for PipeConnector {
    fn connect(&self) -> BoxFuture<'_, io::Result<BoxStream>> {
        async {
            let (near, far) = tokio::io::duplex(self.capacity_bytes);
            self.sender
                .send(far)
                .await
                .map_err(|_| io::Error::from(io::ErrorKind::ConnectionRefused))?;
            Ok(Box::new(PipeStream(near)) as BoxStream)
        }
        .boxed()
    }
}

/// Accepts the streams of its [`PipeConnector`].
#[derive(Debug)]
pub struct PipeListener {
    receiver: mpsc::Receiver<DuplexStream>,
}

impl Listener for PipeListener {
    fn accept(&mut self) -> BoxFuture<'_, io::Result<BoxStream>> {
        async {
            match self.receiver.recv().await {
                Some(stream) => Ok(Box::new(PipeStream(stream)) as BoxStream),
                // Every connector is gone: nobody will ever connect.
                None => std::future::pending().await,
            }
        }
        .boxed()
    }

    fn local_addr(&self) -> SocketAddr {
        NOWHERE
    }
}

/// One end of an in-memory stream.
#[derive(Debug)]
pub struct PipeStream(DuplexStream);

impl Stream for PipeStream {
    fn peer_addr(&self) -> SocketAddr {
        NOWHERE
    }

    fn local_addr(&self) -> SocketAddr {
        NOWHERE
    }
}

impl AsyncRead for PipeStream {
    fn poll_read(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        buf: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        Pin::new(&mut self.0).poll_read(cx, buf)
    }
}

impl AsyncWrite for PipeStream {
    fn poll_write(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        buf: &[u8],
    ) -> Poll<io::Result<usize>> {
        Pin::new(&mut self.0).poll_write(cx, buf)
    }

    fn poll_write_vectored(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        bufs: &[io::IoSlice<'_>],
    ) -> Poll<Result<usize, io::Error>> {
        Pin::new(&mut self.0).poll_write_vectored(cx, bufs)
    }

    /// An HTTP body is copied into one buffer first where this is false.
    fn is_write_vectored(&self) -> bool {
        self.0.is_write_vectored()
    }

    fn poll_flush(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.0).poll_flush(cx)
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.0).poll_shutdown(cx)
    }
}

#[cfg(test)]
mod tests {
    use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};

    use super::*;

    #[tokio::test]
    async fn slices_are_written_in_one_go() {
        let (connector, mut listener) = pipe(64);
        let (near, far) = tokio::join!(connector.connect(), listener.accept());
        let (mut near, mut far) = (near.unwrap(), far.unwrap());
        assert!(near.is_write_vectored());
        let slices = [io::IoSlice::new(b"one "), io::IoSlice::new(b"two")];
        assert_eq!(near.write_vectored(&slices).await.unwrap(), 7);
        let mut read = [0; 7];
        far.read_exact(&mut read).await.unwrap();
        assert_eq!(&read, b"one two");
    }
}
