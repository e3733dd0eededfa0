//! TCP as the seam of `host` has streams, so that its TLS runs over them.

use std::io;
use std::net::Ipv4Addr;

use futures::FutureExt as _;
use futures::future::BoxFuture;
use host::net::{BoxStream, Connect};
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
            Ok(host::os::stream(stream))
        }
        .boxed()
    }
}
