//! The listener's end: handshakes, and an identity that can be exchanged while connections live.

use std::io;
use std::sync::Arc;

use arc_swap::ArcSwap;
use tokio_rustls::TlsAcceptor;
use tokio_rustls::rustls::server::{ClientHello, ResolvesServerCert};
use tokio_rustls::rustls::sign::CertifiedKey;
use tokio_rustls::rustls::{ServerConfig, version};

use super::stream::Tls;
use super::{HostTime, Identity, provider};
use crate::Clock;
use crate::net::BoxStream;

/// Bytes that a connection may have encrypted and not sent.
const MAX_UNSENT_BYTES: usize = 64 * 1024;

/// Accepts TLS on plain streams. Cheap to clone.
#[derive(Clone)]
pub struct Acceptor {
    tls: TlsAcceptor,
    current: Arc<Current>,
}

impl std::fmt::Debug for Acceptor {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("Acceptor")
    }
}

/// A stream behind its handshake.
pub struct Accepted {
    /// Plain bytes.
    pub stream: BoxStream,
    /// The name the client asked for (SNI), in lower case as DNS compares it; clients that connect
    /// to an address name none.
    pub server_name: Option<String>,
}

/// The identity of new handshakes.
#[derive(Debug)]
struct Current(ArcSwap<CertifiedKey>);

impl ResolvesServerCert for Current {
    fn resolve(&self, _: ClientHello<'_>) -> Option<Arc<CertifiedKey>> {
        Some(self.0.load_full())
    }
}

impl Acceptor {
    /// Proves `identity` to whoever connects. `clock` dates its session tickets.
    ///
    /// # Panics
    ///
    /// Never: the protocol versions are those of the provider.
    pub fn new(identity: Identity, clock: Arc<dyn Clock>) -> Self {
        let current = Arc::new(Current(ArcSwap::new(identity.0)));
        let mut config = ServerConfig::builder_with_details(provider(), Arc::new(HostTime(clock)))
            .with_protocol_versions(&[&version::TLS13, &version::TLS12])
            .expect("the provider has suites for both versions")
            .with_no_client_auth()
            .with_cert_resolver(Arc::clone(&current) as Arc<dyn ResolvesServerCert>);
        // Kafka clients open a connection per node and keep it: a ticket each is enough.
        config.send_tls13_tickets = 1;
        Self {
            tls: TlsAcceptor::from(Arc::new(config)),
            current,
        }
    }

    /// Proves `identity` from the next handshake on; connections that are open stay.
    pub fn replace(&self, identity: Identity) {
        self.current.0.store(identity.0);
    }

    /// The handshake on `stream`. The caller bounds its time.
    ///
    /// # Errors
    ///
    /// What the peer did wrong, or the end of the stream.
    pub async fn accept(&self, stream: BoxStream) -> io::Result<Accepted> {
        let limited = |connection: &mut tokio_rustls::rustls::ServerConnection| {
            connection.set_buffer_limit(Some(MAX_UNSENT_BYTES));
        };
        let stream = self.tls.accept_with(stream, limited).await?;
        let (_, connection) = stream.get_ref();
        let server_name = connection.server_name().map(str::to_ascii_lowercase);
        Ok(Accepted {
            stream: Box::new(Tls(stream.into())),
            server_name,
        })
    }
}

#[cfg(test)]
mod tests {
    use tokio::io::{AsyncReadExt, AsyncWriteExt};
    use tokio_rustls::TlsConnector;
    use tokio_rustls::rustls::pki_types::pem::PemObject;
    use tokio_rustls::rustls::pki_types::{CertificateDer, ServerName};
    use tokio_rustls::rustls::{ClientConfig, RootCertStore};

    use super::*;
    use crate::Secret;
    use crate::net::{Connect, Listener};
    use crate::os::OsClock;
    use crate::pipe::{PipeConnector, PipeListener, pipe};
    use crate::tls::{Roots, TlsConnect};

    fn identity(name: &str) -> (Identity, String) {
        let made = rcgen::generate_simple_self_signed([name.to_owned()]).unwrap();
        let (chain, key) = (made.cert.pem(), made.signing_key.serialize_pem());
        let identity = Identity::from_pem(chain.as_bytes(), &Secret::new(key.into_bytes()));
        (identity.unwrap(), chain)
    }

    fn clock() -> Arc<dyn Clock> {
        Arc::new(OsClock::new())
    }

    fn client(to: &PipeConnector, name: &str, roots: &str) -> TlsConnect {
        let roots = Roots::from_pem(roots.as_bytes()).unwrap();
        TlsConnect::new(Arc::new(to.clone()), name, &roots, clock()).unwrap()
    }

    async fn accepted(listener: &mut PipeListener, acceptor: &Acceptor) -> io::Result<Accepted> {
        acceptor.accept(listener.accept().await.unwrap()).await
    }

    #[tokio::test]
    async fn bytes_pass_and_the_name_is_told() {
        let (connector, mut listener) = pipe(1024);
        let (identity, chain) = identity("a.test");
        let acceptor = Acceptor::new(identity, clock());
        let client = client(&connector, "A.test", &chain);
        let (stream, accepted) = tokio::join!(client.connect(), accepted(&mut listener, &acceptor));
        let (mut stream, mut accepted) = (stream.unwrap(), accepted.unwrap());
        assert_eq!(accepted.server_name.as_deref(), Some("a.test"));
        stream.write_all(b"ping").await.unwrap();
        stream.flush().await.unwrap();
        let mut read = [0; 4];
        accepted.stream.read_exact(&mut read).await.unwrap();
        assert_eq!(&read, b"ping");
        // Gone without a word of TLS: the end of the stream, not a fault.
        drop(stream);
        assert_eq!(accepted.stream.read(&mut read).await.unwrap(), 0);
    }

    #[tokio::test]
    async fn a_client_that_trusts_another_refuses_and_a_replaced_identity_is_proved_next() {
        let (connector, mut listener) = pipe(1024);
        let ((old, old_chain), (new, new_chain)) = (identity("a.test"), identity("a.test"));
        let acceptor = Acceptor::new(old, clock());
        let trusting = client(&connector, "a.test", &old_chain);
        let (open, held) = tokio::join!(trusting.connect(), accepted(&mut listener, &acceptor));
        let (mut open, mut held) = (open.unwrap(), held.unwrap());
        acceptor.replace(new);
        let (stream, _) = tokio::join!(trusting.connect(), accepted(&mut listener, &acceptor));
        assert!(stream.is_err(), "the old certificate is no longer proved");
        let trusting = client(&connector, "a.test", &new_chain);
        let (stream, _) = tokio::join!(trusting.connect(), accepted(&mut listener, &acceptor));
        stream.unwrap();
        open.write_all(b"x").await.unwrap();
        open.flush().await.unwrap();
        assert_eq!(held.stream.read_u8().await.unwrap(), b'x', "it stays");
    }

    #[tokio::test]
    async fn a_client_that_offers_a_protocol_is_served_without_one() {
        let (connector, mut listener) = pipe(1024);
        let (identity, chain) = identity("a.test");
        let acceptor = Acceptor::new(identity, clock());
        let mut roots = RootCertStore::empty();
        roots.add_parsable_certificates(
            CertificateDer::pem_slice_iter(chain.as_bytes()).filter_map(Result::ok),
        );
        let mut config = ClientConfig::builder_with_provider(provider())
            .with_safe_default_protocol_versions()
            .unwrap()
            .with_root_certificates(roots)
            .with_no_client_auth();
        config.alpn_protocols = vec![b"kafka".to_vec(), b"h2".to_vec()];
        let offering = TlsConnector::from(Arc::new(config));
        let plain = connector.connect().await.unwrap();
        let name = ServerName::try_from("a.test").unwrap();
        let (stream, accepted) = tokio::join!(
            offering.connect(name, plain),
            accepted(&mut listener, &acceptor)
        );
        accepted.unwrap();
        assert_eq!(stream.unwrap().get_ref().1.alpn_protocol(), None);
    }

    #[tokio::test]
    async fn what_is_not_tls_is_an_error() {
        let (connector, mut listener) = pipe(1024);
        let acceptor = Acceptor::new(identity("a.test").0, clock());
        let mut stream = connector.connect().await.unwrap();
        stream.write_all(&[0, 0, 0, 20, 0, 18, 0, 3]).await.unwrap();
        assert!(accepted(&mut listener, &acceptor).await.is_err());
    }
}
