//! A certificate chain and its private key, from PEM.

use std::sync::Arc;
use std::time::Duration;

use tokio_rustls::rustls::client::{verify_server_cert_signed_by_trust_anchor, verify_server_name};
use tokio_rustls::rustls::crypto::ring::sign::any_supported_type;
use tokio_rustls::rustls::pki_types::pem::{self, PemObject};
use tokio_rustls::rustls::pki_types::{CertificateDer, PrivateKeyDer, ServerName, UnixTime};
use tokio_rustls::rustls::server::ParsedCertificate;
use tokio_rustls::rustls::sign::CertifiedKey;
use tokio_rustls::rustls::{CertificateError, Error as TlsError, InconsistentKeys, RootCertStore};

use super::provider;
use crate::{Secret, WallTime};

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

/// Why peers that check will not believe a certificate, whoever they trust.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Unfit {
    /// It is for other names.
    #[error("is not for this name")]
    Name,
    /// Its time is over.
    #[error("has expired")]
    Expired,
    /// Its time has not begun.
    #[error("is not valid yet")]
    NotYet,
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

    /// Whether the leaf proves that a listener is `name` (a DNS name or an address) at `now`. Whether
    /// peers trust who signed it is not known here.
    ///
    /// # Errors
    ///
    /// [`Unfit`].
    pub fn fits(&self, name: &str, now: WallTime) -> Result<(), Unfit> {
        let name = ServerName::try_from(name).map_err(|_| Unfit::Name)?;
        // What was read as an identity has a leaf that can be read.
        let leaf = self.0.end_entity_cert().map_err(|_| Unfit::Name)?;
        let leaf = ParsedCertificate::try_from(leaf).map_err(|_| Unfit::Name)?;
        let ms = u64::try_from(now.epoch_ms()).unwrap_or_default();
        let now = UnixTime::since_unix_epoch(Duration::from_millis(ms));
        let algorithms = provider().signature_verification_algorithms;
        // Nobody is trusted: the leaf's own time is looked at before that.
        let nobody = RootCertStore::empty();
        let verdict =
            verify_server_cert_signed_by_trust_anchor(&leaf, &nobody, &[], now, algorithms.all);
        match verdict {
            Err(TlsError::InvalidCertificate(
                CertificateError::Expired | CertificateError::ExpiredContext { .. },
            )) => return Err(Unfit::Expired),
            Err(TlsError::InvalidCertificate(
                CertificateError::NotValidYet | CertificateError::NotValidYetContext { .. },
            )) => return Err(Unfit::NotYet),
            _ => {}
        }
        verify_server_name(&leaf, &name).map_err(|_| Unfit::Name)
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

    #[test]
    fn a_leaf_fits_its_names_in_its_time_whoever_signed_it() {
        let key = rcgen::KeyPair::generate().unwrap();
        let names = ["kafka.test".to_owned(), "10.0.0.7".to_owned()];
        let mut made = rcgen::CertificateParams::new(names).unwrap();
        made.not_before = rcgen::date_time_ymd(2020, 1, 1);
        made.not_after = rcgen::date_time_ymd(2021, 1, 1);
        let chain = made.self_signed(&key).unwrap().pem();
        let key = Secret::new(key.serialize_pem().into_bytes());
        let identity = Identity::from_pem(chain.as_bytes(), &key).unwrap();
        let at = |year: i64| WallTime::from_epoch_ms((year - 1970) * 31_557_600_000 + 86_400_000);
        let fits = |name: &str, year: i64| identity.fits(name, at(year));
        assert_eq!(fits("kafka.test", 2020), Ok(()));
        assert_eq!(fits("10.0.0.7", 2020), Ok(()));
        assert_eq!(fits("other.test", 2020), Err(Unfit::Name));
        assert_eq!(fits("no name", 2020), Err(Unfit::Name));
        assert_eq!(fits("kafka.test", 2019), Err(Unfit::NotYet));
        assert_eq!(fits("kafka.test", 2026), Err(Unfit::Expired));
    }
}
