//! The caller's end: whom it trusts, and streams to a peer that proves its name.

use std::io;
use std::sync::Arc;

use futures::FutureExt;
use futures::future::BoxFuture;
use tokio_rustls::TlsConnector;
use tokio_rustls::rustls::pki_types::pem::PemObject;
use tokio_rustls::rustls::pki_types::{CertificateDer, ServerName};
use tokio_rustls::rustls::{ClientConfig, RootCertStore, version};

use super::stream::Tls;
use super::{HostTime, provider};
use crate::Clock;
use crate::files;
use crate::net::{BoxStream, Connect};

/// The authorities whose certificates are believed.
#[derive(Clone, Debug)]
pub struct Roots(Arc<RootCertStore>);

/// There is no certificate to trust.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("no certificate authority to trust{0}")]
pub struct NoRoots(String);

/// The name of the peer is neither a DNS name nor an address.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{0:?} is no name that a certificate can carry")]
pub struct TlsNameError(String);

impl Roots {
    /// Trusts the certificates of a PEM text.
    ///
    /// # Errors
    ///
    /// [`NoRoots`] when it holds none.
    pub fn from_pem(pem: &[u8]) -> Result<Self, NoRoots> {
        let mut store = RootCertStore::empty();
        store.add_parsable_certificates(CertificateDer::pem_slice_iter(pem).filter_map(Result::ok));
        Self::of(store, "")
    }

    /// Trusts what the system trusts; `SSL_CERT_FILE` and `SSL_CERT_DIR` choose other files. Reads
    /// files: call it off the simulated path.
    ///
    /// # Errors
    ///
    /// [`NoRoots`] when the system has none, or when `SSL_CERT_FILE` names no file that ends.
    pub fn of_system() -> Result<Self, NoRoots> {
        if let Some(file) = std::env::var_os("SSL_CERT_FILE") {
            files::regular(file.as_ref())
                .map_err(|error| NoRoots(format!(": SSL_CERT_FILE {error}")))?;
        }
        let found = rustls_native_certs::load_native_certs();
        let mut store = RootCertStore::empty();
        store.add_parsable_certificates(found.certs);
        let hint = " on this system: install its ca-certificates, or name a file in SSL_CERT_FILE";
        Self::of(store, hint)
    }

    fn of(store: RootCertStore, hint: &str) -> Result<Self, NoRoots> {
        if store.is_empty() {
            return Err(NoRoots(hint.to_owned()));
        }
        Ok(Self(Arc::new(store)))
    }
}

/// Connects through another connector and proves the peer's name.
pub struct TlsConnect {
    inner: Arc<dyn Connect>,
    tls: TlsConnector,
    name: ServerName<'static>,
}

impl std::fmt::Debug for TlsConnect {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let mut shown = f.debug_struct("TlsConnect");
        shown.field("inner", &self.inner).field("name", &self.name);
        shown.finish_non_exhaustive()
    }
}

impl TlsConnect {
    /// Streams of `inner` under TLS with the peer that proves to be `name` (a DNS name or an
    /// address without brackets) to one of `roots`.
    ///
    /// # Errors
    ///
    /// [`TlsNameError`].
    ///
    /// # Panics
    ///
    /// Never: the protocol versions are those of the provider.
    pub fn new(
        inner: Arc<dyn Connect>,
        name: &str,
        roots: &Roots,
        clock: Arc<dyn Clock>,
    ) -> Result<Self, TlsNameError> {
        let name =
            ServerName::try_from(name.to_owned()).map_err(|_| TlsNameError(name.to_owned()))?;
        let config = ClientConfig::builder_with_details(provider(), Arc::new(HostTime(clock)))
            .with_protocol_versions(&[&version::TLS13, &version::TLS12])
            .expect("the provider has suites for both versions")
            .with_root_certificates(Arc::clone(&roots.0))
            .with_no_client_auth();
        Ok(Self {
            inner,
            tls: TlsConnector::from(Arc::new(config)),
            name,
        })
    }
}

impl Connect for TlsConnect {
    fn connect(&self) -> BoxFuture<'_, io::Result<BoxStream>> {
        async {
            let stream = self.inner.connect().await?;
            let stream = self.tls.connect(self.name.clone(), stream).await?;
            Ok(Box::new(Tls(stream.into())) as BoxStream)
        }
        .boxed()
    }
}
