//! Where a server is, and how it is spoken to: in the clear or under TLS, as nobody or as somebody.

use std::fmt;
use std::path::{Path, PathBuf};

use host::Secret;
use host::tls::Roots;

/// The address of a server and what it demands of those who connect.
#[derive(Clone, Debug)]
pub struct Access {
    address: String,
    security: Security,
}

/// What a server demands.
#[derive(Clone, Debug, Default)]
pub struct Security {
    /// Whom to trust; `None` is plaintext.
    pub tls: Option<Trust>,
    /// Who to be, by SASL/PLAIN; `None` is nobody.
    pub sasl: Option<Credentials>,
}

/// The certificates to trust.
#[derive(Clone, Debug)]
pub struct Trust {
    file: PathBuf,
    roots: Roots,
}

/// A name and its password.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Credentials {
    /// User name.
    pub username: String,
    /// Password: for Queen a bearer token.
    pub password: Secret<String>,
}

/// Why a file is nobody's certificate.
#[derive(Debug, thiserror::Error)]
pub enum TrustError {
    /// It cannot be read.
    #[error("cannot read {path}: {source}")]
    Read {
        /// The file.
        path: String,
        /// What the system said.
        source: std::io::Error,
    },
    /// It holds no certificate.
    #[error("{path} holds no certificate in PEM")]
    Empty {
        /// The file.
        path: String,
    },
}

impl Access {
    /// A server that anybody may use in the clear.
    pub fn plain(address: impl Into<String>) -> Self {
        Self::new(address, Security::default())
    }

    /// A server at `address` (`host:port`).
    pub fn new(address: impl Into<String>, security: Security) -> Self {
        Self {
            address: address.into(),
            security,
        }
    }

    /// Another server of the same cluster.
    #[must_use]
    pub fn at(&self, address: &str) -> Self {
        Self::new(address, self.security.clone())
    }

    /// The same server for who shows other credentials, or none.
    #[must_use]
    pub fn with_credentials(&self, sasl: Option<Credentials>) -> Self {
        let security = Security {
            tls: self.security.tls.clone(),
            sasl,
        };
        Self::new(self.address.clone(), security)
    }

    /// `host:port`.
    pub fn address(&self) -> &str {
        &self.address
    }

    /// Host without brackets, and port.
    pub fn host_and_port(&self) -> Option<(&str, u16)> {
        let (host, port) = self.address.rsplit_once(':')?;
        let host = host.trim_start_matches('[').trim_end_matches(']');
        Some((host, port.parse().ok()?))
    }

    /// What it demands.
    pub const fn security(&self) -> &Security {
        &self.security
    }
}

impl fmt::Display for Access {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.address)
    }
}

impl Trust {
    /// Trusts the certificates of a PEM file.
    ///
    /// # Errors
    ///
    /// A file that cannot be read or holds none.
    pub fn of_file(file: &Path) -> Result<Self, TrustError> {
        let path = || file.display().to_string();
        let pem = std::fs::read(file).map_err(|source| TrustError::Read {
            path: path(),
            source,
        })?;
        let roots = Roots::from_pem(&pem).map_err(|_| TrustError::Empty { path: path() })?;
        Ok(Self {
            file: file.to_path_buf(),
            roots,
        })
    }

    /// The file.
    pub fn file(&self) -> &Path {
        &self.file
    }

    /// What it holds.
    pub(crate) const fn roots(&self) -> &Roots {
        &self.roots
    }
}

#[cfg(test)]
mod tests {
    use std::path::Path;

    use host::Secret;

    use super::{Access, Credentials, Trust, TrustError};

    #[test]
    fn addresses_are_split_and_passwords_are_not_shown() {
        let access = Access::plain("[::1]:9092");
        assert_eq!(access.host_and_port(), Some(("::1", 9092)));
        assert_eq!(Access::plain("nowhere").host_and_port(), None);
        let access = access.with_credentials(Some(Credentials {
            username: "alice".into(),
            password: Secret::new("hunter2".into()),
        }));
        assert!(!format!("{access} {access:?}").contains("hunter2"));
        assert_eq!(
            access.at("b:1").security().sasl,
            access.security().sasl,
            "another node, the same demands"
        );
    }

    #[test]
    fn a_file_without_certificates_is_told_by_name() {
        let absent = Trust::of_file(Path::new("/no/such/file.pem")).unwrap_err();
        assert!(matches!(absent, TrustError::Read { .. }), "{absent}");
        let folder = tempfile::tempdir().unwrap();
        let file = folder.path().join("empty.pem");
        std::fs::write(&file, "nothing").unwrap();
        let empty = Trust::of_file(&file).unwrap_err();
        assert!(empty.to_string().contains("empty.pem"), "{empty}");
    }
}
