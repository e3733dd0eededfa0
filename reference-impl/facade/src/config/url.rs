//! `QUEEN_URL`.

use std::fmt;
use std::net::Ipv6Addr;
use std::path::PathBuf;

use super::{HostPort, QueenUrl};

/// A Queen on this machine.
pub const DEFAULT: &str = "http://localhost:6632";

/// The longest path before the routes.
const MAX_PATH_BYTES: usize = 1024;

/// Why a text is no `QUEEN_URL`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum UrlError {
    /// Another scheme, or none.
    #[error("must begin with http://, https:// or embedded:")]
    Scheme,
    /// No host, or a port that is none.
    #[error("has no host that can be called")]
    Host,
    /// A user name or a password.
    #[error("must not carry credentials: they belong in QUEEN_TOKEN")]
    Credentials,
    /// More than any server takes.
    #[error("has a path of more than {MAX_PATH_BYTES} bytes")]
    Path,
    /// A query or a fragment.
    #[error("must not carry a query or a fragment")]
    Query,
}

impl QueenUrl {
    /// Parses the variable.
    ///
    /// # Errors
    ///
    /// [`UrlError`], a sentence without its subject.
    pub fn parse(text: &str) -> Result<Self, UrlError> {
        if let Some(dir) = text.strip_prefix("embedded:") {
            let dir = Some(dir.trim()).filter(|dir| !dir.is_empty());
            return Ok(Self::Embedded {
                dir: dir.map(PathBuf::from),
            });
        }
        let (scheme, rest) = text.split_once("://").ok_or(UrlError::Scheme)?;
        let tls = match scheme.to_ascii_lowercase().as_str() {
            "http" => false,
            "https" => true,
            _ => return Err(UrlError::Scheme),
        };
        if rest.contains(['?', '#']) {
            return Err(UrlError::Query);
        }
        let (authority, path) = rest.split_at(rest.find('/').unwrap_or(rest.len()));
        if authority.contains('@') {
            return Err(UrlError::Credentials);
        }
        let with_port = match authority.strip_suffix(':').unwrap_or(authority) {
            bare if !has_port(bare) => format!("{bare}:{}", if tls { 443 } else { 80 }),
            whole => whole.to_owned(),
        };
        let HostPort { host, port } = HostPort::parse(&with_port).map_err(|_| UrlError::Host)?;
        let base_path = path.trim_end_matches('/').to_owned();
        if base_path.len() > MAX_PATH_BYTES {
            return Err(UrlError::Path);
        }
        if base_path.bytes().any(|b| b <= b' ' || b >= 0x7f) {
            return Err(UrlError::Host);
        }
        Ok(Self::Http {
            tls,
            host,
            port,
            base_path,
        })
    }
}

fn has_port(authority: &str) -> bool {
    match authority.rsplit_once(']') {
        Some((_, rest)) => rest.starts_with(':'),
        None => authority.contains(':'),
    }
}

impl fmt::Display for QueenUrl {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Http {
                tls,
                host,
                port,
                base_path,
            } => {
                let (scheme, usual) = if *tls { ("https", 443) } else { ("http", 80) };
                let bracketed = host.parse::<Ipv6Addr>().is_ok();
                let (open, close) = if bracketed { ("[", "]") } else { ("", "") };
                write!(f, "{scheme}://{open}{host}{close}")?;
                if *port != usual {
                    write!(f, ":{port}")?;
                }
                f.write_str(base_path)
            }
            Self::Embedded { dir: None } => f.write_str("embedded:"),
            Self::Embedded { dir: Some(dir) } => write!(f, "embedded:{}", dir.display()),
        }
    }
}

#[cfg(test)]
mod tests {
    use rstest::rstest;

    use super::*;

    #[rstest]
    #[case("http://localhost:6632", "http://localhost:6632")]
    #[case("http://localhost:6632/", "http://localhost:6632")]
    #[case("HTTP://queen/base//", "http://queen/base")]
    #[case("http://queen:80", "http://queen")]
    #[case("http://[::1]:6632/", "http://[::1]:6632")]
    #[case("http://[::1]", "http://[::1]")]
    #[case("https://queen:443/", "https://queen")]
    #[case("https://queen:80", "https://queen:80")]
    #[case("embedded:", "embedded:")]
    #[case("embedded: ", "embedded:")]
    #[case("embedded:./data", "embedded:./data")]
    #[case("embedded:/var/lib/queen", "embedded:/var/lib/queen")]
    fn is_normalised(#[case] text: &str, #[case] shown: &str) {
        assert_eq!(QueenUrl::parse(text).unwrap().to_string(), shown);
    }

    #[rstest]
    #[case("localhost:6632", UrlError::Scheme)]
    #[case("ftp://queen", UrlError::Scheme)]
    #[case("http:/queen", UrlError::Scheme)]
    #[case("http://", UrlError::Host)]
    #[case("http:///path", UrlError::Host)]
    #[case("http://queen:port", UrlError::Host)]
    #[case("http://que en", UrlError::Host)]
    #[case("http://queen/a b", UrlError::Host)]
    #[case("http://user:secret@queen", UrlError::Credentials)]
    #[case(&format!("http://queen/{}", "a".repeat(MAX_PATH_BYTES)), UrlError::Path)]
    #[case(&format!("http://{}/", "a".repeat(256)), UrlError::Host)]
    #[case("http://queen?x=1", UrlError::Query)]
    #[case("https://user:secret@queen", UrlError::Credentials)]
    fn is_refused(#[case] text: &str, #[case] error: UrlError) {
        assert_eq!(QueenUrl::parse(text), Err(error));
    }
}
