//! A certificate chain and its private key, from PEM.

use std::sync::Arc;

use tokio_rustls::rustls::crypto::ring::sign::any_supported_type;
use tokio_rustls::rustls::pki_types::pem::{self, PemObject};
use tokio_rustls::rustls::pki_types::{CertificateDer, PrivateKeyDer};
use tokio_rustls::rustls::sign::CertifiedKey;
use tokio_rustls::rustls::{Error as TlsError, InconsistentKeys};

use crate::Secret;

/// What a listener proves that it is.
#[derive(Clone, Debug)]
pub struct Identity(pub(super) Arc<CertifiedKey>);

/// The same certificates.
impl PartialEq for Identity {
    fn eq(&self, other: &Self) -> bool {
        self.0.cert == other.0.cert
    }
}

impl Eq for Identity {}

/// Why two PEM texts are no identity. Never shows the key.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum IdentityError {
    /// The chain is not PEM.
    #[error("the certificate chain is not PEM")]
    ChainNotPem,
    /// The chain holds no certificate.
    #[error("the certificate chain holds no certificate")]
    NoCertificate,
    /// A certificate is not one.
    #[error("the chain's first certificate cannot be read")]
    BadCertificate,
    /// The key file holds no private key in PEM (PKCS#8, PKCS#1 or SEC1).
    #[error("the key file holds no private key in PEM (PKCS#8, PKCS#1 or SEC1, not encrypted)")]
    NoKey,
    /// The key is of a kind that is not supported.
    #[error("the private key cannot be used: RSA from 2048 bits, ECDSA P-256 or P-384, or Ed25519")]
    BadKey,
    /// The two do not belong together.
    #[error("the private key does not belong to the certificate")]
    Mismatch,
}

impl IdentityError {
    /// Whether the key is at fault rather than the chain.
    pub const fn is_of_key(self) -> bool {
        matches!(self, Self::NoKey | Self::BadKey | Self::Mismatch)
    }
}

impl Identity {
    /// Reads `chain` (leaf first) and `key`, and proves that they belong together.
    ///
    /// # Errors
    ///
    /// [`IdentityError`].
    pub fn from_pem(chain: &[u8], key: &Secret<Vec<u8>>) -> Result<Self, IdentityError> {
        let chain: Vec<_> = CertificateDer::pem_slice_iter(chain)
            .collect::<Result<_, pem::Error>>()
            .map_err(|_| IdentityError::ChainNotPem)?;
        if chain.is_empty() {
            return Err(IdentityError::NoCertificate);
        }
        let key = PrivateKeyDer::from_pem_slice(key.expose()).map_err(|_| IdentityError::NoKey)?;
        let key = any_supported_type(&key).map_err(|_| IdentityError::BadKey)?;
        let certified = CertifiedKey::new(chain, key);
        match certified.keys_match() {
            // Unknown: the key does not tell its public half; all supported kinds do.
            Ok(()) | Err(TlsError::InconsistentKeys(InconsistentKeys::Unknown)) => {
                Ok(Self(Arc::new(certified)))
            }
            Err(TlsError::InconsistentKeys(_)) => Err(IdentityError::Mismatch),
            Err(_) => Err(IdentityError::BadCertificate),
        }
    }
}

#[cfg(test)]
mod tests {
    use rstest::rstest;

    use super::*;

    fn pair(name: &str) -> (String, String) {
        let made = rcgen::generate_simple_self_signed([name.to_owned()]).unwrap();
        (made.cert.pem(), made.signing_key.serialize_pem())
    }

    #[test]
    fn a_chain_and_its_key_are_an_identity() {
        let (chain, key) = pair("a.test");
        Identity::from_pem(chain.as_bytes(), &Secret::new(key.into_bytes())).unwrap();
    }

    #[test]
    fn another_key_is_told() {
        let ((chain, _), (_, key)) = (pair("a.test"), pair("b.test"));
        let error = Identity::from_pem(chain.as_bytes(), &Secret::new(key.into_bytes()));
        assert_eq!(error.unwrap_err(), IdentityError::Mismatch);
    }

    #[rstest]
    #[case(b"", IdentityError::NoCertificate)]
    #[case(b"not a certificate", IdentityError::NoCertificate)]
    #[case(
        b"-----BEGIN CERTIFICATE-----\n????\n-----END CERTIFICATE-----\n",
        IdentityError::ChainNotPem
    )]
    #[case(
        b"-----BEGIN CERTIFICATE-----\nAAAA\n-----END CERTIFICATE-----\n",
        IdentityError::BadCertificate
    )]
    fn bad_chains_are_told(#[case] chain: &[u8], #[case] why: IdentityError) {
        let key = Secret::new(pair("a.test").1.into_bytes());
        assert_eq!(Identity::from_pem(chain, &key).unwrap_err(), why);
    }

    #[rstest]
    #[case(b"", IdentityError::NoKey)]
    #[case(
        b"-----BEGIN PRIVATE KEY-----\nAAAA\n-----END PRIVATE KEY-----\n",
        IdentityError::BadKey
    )]
    fn bad_keys_are_told_and_not_shown(#[case] key: &[u8], #[case] why: IdentityError) {
        let chain = pair("a.test").0;
        let key = Secret::new(key.to_vec());
        let error = Identity::from_pem(chain.as_bytes(), &key).unwrap_err();
        assert_eq!(error, why);
        assert!(error.is_of_key());
    }
}
