//! What facades prove to be in a world whose clients come over TLS.
//!
//! The key is in the sources and protects nothing. It is of Ed25519, because a signature of that
//! kind always has the same length: two runs of one seed differ in every encrypted byte, and agree
//! in the size of every record.

use facade::config::{Config, Mechanism, TlsConfig};
use host::Secret;
use host::tls::{Identity, Roots};

const CERTIFICATE: &[u8] = include_bytes!("secure/certificate.pem");
const KEY: &[u8] = include_bytes!("secure/key.pem");

/// Whom clients trust: the facades' own certificate.
pub fn roots() -> Roots {
    Roots::from_pem(CERTIFICATE).expect("the certificate is one of these sources")
}

/// A facade that speaks TLS alone, and authenticates whoever comes.
pub(super) fn secure(config: &mut Config) {
    let identity = Identity::from_pem(CERTIFICATE, &Secret::new(KEY.to_vec()))
        .expect("the certificate and its key are of these sources");
    config.security.tls = Some(TlsConfig {
        identity,
        files: None,
    });
    config.security.sasl = Some(Mechanism::Plain);
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_key_is_the_certificates() {
        let mut config = Config::local();
        secure(&mut config);
        assert!(config.security.tls.is_some());
        roots();
    }
}
