//! A stream behind its handshake, of either end.

use std::io;
use std::net::SocketAddr;
use std::pin::Pin;
use std::task::{Context, Poll};

use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use tokio_rustls::TlsStream;

use crate::net::{BoxStream, Stream};

/// Plain bytes on the inside, records on the outside.
pub(super) struct Tls(pub(super) TlsStream<BoxStream>);

impl Stream for Tls {
    fn peer_addr(&self) -> SocketAddr {
        self.0.get_ref().0.peer_addr()
    }

    fn local_addr(&self) -> SocketAddr {
        self.0.get_ref().0.local_addr()
    }
}

impl AsyncRead for Tls {
    fn poll_read(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        buf: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        let polled = Pin::new(&mut self.0).poll_read(cx, buf);
        match polled {
            // Many clients close the socket without saying so first. Frames carry their length,
            // so a listener notices a cut where it matters.
            Poll::Ready(Err(error))
                if error.kind() == io::ErrorKind::UnexpectedEof
                    && matches!(self.0, TlsStream::Server(_)) =>
            {
                Poll::Ready(Ok(()))
            }
            polled => polled,
        }
    }
}

impl AsyncWrite for Tls {
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
    ) -> Poll<io::Result<usize>> {
        Pin::new(&mut self.0).poll_write_vectored(cx, bufs)
    }

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
