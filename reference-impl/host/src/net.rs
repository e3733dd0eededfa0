//! The network seam: streams, listeners and connectors as trait objects.
//!
//! One trait object per connection costs nanoseconds per read and keeps every handler free of type
//! parameters.

use std::fmt::Debug;
use std::io;
use std::net::SocketAddr;
use std::sync::Arc;

use futures::future::BoxFuture;
use tokio::io::{AsyncRead, AsyncWrite};

/// A connected byte stream.
pub trait Stream: AsyncRead + AsyncWrite + Send + Unpin + 'static {
    /// The other end. Streams without a network (pipes) answer the unspecified address, port 0.
    fn peer_addr(&self) -> SocketAddr;
    /// This end.
    fn local_addr(&self) -> SocketAddr;
}

/// A stream of any kind.
pub type BoxStream = Box<dyn Stream>;

/// A bound listener.
pub trait Listener: Send + 'static {
    /// The next connection. Errors are transient (too many files, peer gone): the caller waits a
    /// moment and asks again.
    fn accept(&mut self) -> BoxFuture<'_, io::Result<BoxStream>>;
    /// The bound address, with the port the system chose when port 0 was asked for.
    fn local_addr(&self) -> SocketAddr;
}

/// The network of one node.
pub trait Net: Debug + Send + Sync + 'static {
    /// Binds `addr`. A port of 0 lets the system choose.
    fn bind(&self, addr: SocketAddr) -> BoxFuture<'_, io::Result<Box<dyn Listener>>>;
    /// The addresses of `host`, at least one, each with `port`.
    fn resolve<'a>(
        &'a self,
        host: &'a str,
        port: u16,
    ) -> BoxFuture<'a, io::Result<Vec<SocketAddr>>>;
    /// Resolves `host` and connects to the first address that answers.
    fn connect<'a>(&'a self, host: &'a str, port: u16) -> BoxFuture<'a, io::Result<BoxStream>>;
}

/// Connects to one fixed peer: a remote `host:port`, or a service inside this process.
pub trait Connect: Debug + Send + Sync + 'static {
    /// A new stream to the peer.
    fn connect(&self) -> BoxFuture<'_, io::Result<BoxStream>>;
}

/// Connects to one `host:port`, resolved anew for every stream.
#[derive(Clone, Debug)]
pub struct Remote {
    /// How it is reached.
    pub net: Arc<dyn Net>,
    /// Name or address, without brackets.
    pub host: String,
    /// TCP port.
    pub port: u16,
}

impl Connect for Remote {
    fn connect(&self) -> BoxFuture<'_, io::Result<BoxStream>> {
        self.net.connect(&self.host, self.port)
    }
}
