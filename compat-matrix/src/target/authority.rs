//! A certificate authority of a day: its certificate is what clients are told to trust, and what it
//! issues is for this machine alone.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use host::Secret;
use host::os::OsClock;
use host::tls::{Acceptor, Identity};
use rcgen::{BasicConstraints, CertificateParams, DnType, IsCa, Issuer, KeyPair, KeyUsagePurpose};

use crate::spec::Stop;

/// The names of what it issues.
const NAMES: [&str; 2] = ["127.0.0.1", "localhost"];

/// See the module.
pub struct Authority {
    file: PathBuf,
    issuer: Issuer<'static, KeyPair>,
}

impl std::fmt::Debug for Authority {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Authority")
            .field("file", &self.file)
            .finish_non_exhaustive()
    }
}

/// A certificate and its key, both PEM.
#[derive(Clone, Debug)]
pub struct Issued {
    /// The certificate.
    pub chain: String,
    /// The key.
    pub key: Secret<String>,
}

fn failed(error: impl std::fmt::Display) -> Stop {
    Stop::fail(format!("no certificate: {error}"))
}

impl Authority {
    /// Makes one and writes its certificate into `folder`.
    pub(crate) fn new(folder: &Path) -> Result<Self, Stop> {
        let key = KeyPair::generate().map_err(failed)?;
        let mut params = CertificateParams::default();
        params.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
        params.key_usages = vec![KeyUsagePurpose::KeyCertSign, KeyUsagePurpose::CrlSign];
        params
            .distinguished_name
            .push(DnType::CommonName, "compat-matrix");
        let certificate = params.self_signed(&key).map_err(failed)?;
        let file = folder.join("authority.pem");
        std::fs::write(&file, certificate.pem()).map_err(failed)?;
        Ok(Self {
            file,
            issuer: Issuer::new(params, key),
        })
    }

    /// The PEM file of what is to be trusted.
    pub fn file(&self) -> &Path {
        &self.file
    }

    /// A new certificate for this machine.
    ///
    /// # Errors
    ///
    /// A machine without randomness.
    pub fn issue(&self) -> Result<Issued, Stop> {
        let key = KeyPair::generate().map_err(failed)?;
        let mut params = CertificateParams::new(NAMES.map(String::from)).map_err(failed)?;
        params
            .distinguished_name
            .push(DnType::CommonName, "localhost");
        params.key_usages = vec![KeyUsagePurpose::DigitalSignature];
        params.use_authority_key_identifier_extension = true;
        let certificate = params.signed_by(&key, &self.issuer).map_err(failed)?;
        Ok(Issued {
            chain: certificate.pem(),
            key: Secret::new(key.serialize_pem()),
        })
    }

    /// A listener's end with a new certificate.
    ///
    /// # Errors
    ///
    /// As [`Authority::issue`].
    pub fn acceptor(&self) -> Result<Acceptor, Stop> {
        let issued = self.issue()?;
        let key = Secret::new(issued.key.expose().clone().into_bytes());
        let identity = Identity::from_pem(issued.chain.as_bytes(), &key).map_err(failed)?;
        Ok(Acceptor::new(identity, Arc::new(OsClock::new())))
    }
}
