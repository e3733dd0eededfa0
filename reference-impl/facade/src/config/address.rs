//! `host:port` as operators write it.

use std::fmt;
use std::net::{IpAddr, Ipv6Addr};

use host::text::cut;

/// The longest host name there is (RFC 1035). Kafka's own clients resolve no longer one.
pub const MAX_HOST_CHARS: usize = 255;
/// Characters of what is no address that an error repeats.
const SHOWN_CHARS: usize = 64;

/// A host name or address (without brackets) and a TCP port.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct HostPort {
    /// Name or address.
    pub host: String,
    /// TCP port.
    pub port: u16,
}

/// Why a text is no `host:port`.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum AddressError {
    /// Nothing behind the host.
    #[error("has no port; write host:port")]
    NoPort,
    /// Nothing in front of the port.
    #[error("has an empty host")]
    NoHost,
    /// Not a TCP port number.
    #[error("has the port {0:?}, which is not a number from 1 to 65535")]
    Port(String),
    /// Colons without brackets.
    #[error("is an IPv6 address without brackets; write [{0}]:port")]
    BareIpv6(String),
    /// Brackets that hold something else.
    #[error("has {0:?} in brackets, which is not an IPv6 address")]
    NotIpv6(String),
    /// A character no host name holds.
    #[error("has the host {0:?}, which is neither a name nor an address")]
    Host(String),
    /// Longer than any name.
    #[error("has a host of {0} characters; no name has more than {MAX_HOST_CHARS}")]
    HostLength(usize),
    /// An address that everybody binds and nobody can connect to.
    #[error(
        "has the wildcard host {0}, which no client can connect to; the wildcard belongs in \
         QUEEN_KAFKA_ADDR, which is what gets bound"
    )]
    Wildcard(String),
}

/// Whether clients can be told `host`, whoever wrote it: 1 to [`MAX_HOST_CHARS`] characters, none of
/// them white space or a control character. One that is longer fits into no answer of the versions
/// of Kafka's protocol that count a string's length in 16 bits.
pub fn is_tellable(host: &str) -> bool {
    let length = host.chars().count();
    (1..=MAX_HOST_CHARS).contains(&length)
        && !host.chars().any(|c| c.is_whitespace() || c.is_control())
}

impl HostPort {
    /// `host` and `port`, as they are.
    pub fn new(host: &str, port: u16) -> Self {
        Self {
            host: host.to_owned(),
            port,
        }
    }

    /// Parses `host:port` or `[v6]:port`.
    ///
    /// # Errors
    ///
    /// [`AddressError`], a sentence without its subject.
    pub fn parse(text: &str) -> Result<Self, AddressError> {
        let shown = |text: &str| cut(text, SHOWN_CHARS).into_owned();
        let (host, port) = match text.strip_prefix('[') {
            Some(rest) => {
                let (v6, port) = rest.split_once(']').ok_or(AddressError::NoPort)?;
                if v6.parse::<Ipv6Addr>().is_err() {
                    return Err(AddressError::NotIpv6(shown(v6)));
                }
                (v6, port.strip_prefix(':').ok_or(AddressError::NoPort)?)
            }
            None => {
                if text.parse::<Ipv6Addr>().is_ok() {
                    return Err(AddressError::BareIpv6(shown(text)));
                }
                let (host, port) = text.rsplit_once(':').ok_or(AddressError::NoPort)?;
                if host.parse::<Ipv6Addr>().is_ok() {
                    return Err(AddressError::BareIpv6(shown(host)));
                }
                (host, port)
            }
        };
        if host.is_empty() {
            return Err(AddressError::NoHost);
        }
        let length = host.chars().count();
        if length > MAX_HOST_CHARS {
            return Err(AddressError::HostLength(length));
        }
        let in_names = |c: char| c.is_ascii_alphanumeric() || "-._".contains(c);
        if host.parse::<IpAddr>().is_err() && !host.chars().all(in_names) {
            return Err(AddressError::Host(shown(host)));
        }
        let bad_port = || AddressError::Port(shown(port));
        // `parse` takes a leading plus, which is no port.
        let digits = port.bytes().all(|digit| digit.is_ascii_digit());
        let number: u16 = port.parse().map_err(|_| bad_port())?;
        if number == 0 || !digits {
            return Err(bad_port());
        }
        Ok(Self::new(host, number))
    }

    /// Parses an address that others connect to.
    ///
    /// # Errors
    ///
    /// As [`HostPort::parse`], and for a wildcard.
    pub fn parse_advertised(text: &str) -> Result<Self, AddressError> {
        let parsed = Self::parse(text)?;
        let ip = parsed.host.parse::<IpAddr>();
        if ip.is_ok_and(|ip| ip.to_canonical().is_unspecified()) {
            return Err(AddressError::Wildcard(parsed.host));
        }
        Ok(parsed)
    }
}

impl fmt::Display for HostPort {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if self.host.parse::<Ipv6Addr>().is_ok() {
            write!(f, "[{}]:{}", self.host, self.port)
        } else {
            write!(f, "{}:{}", self.host, self.port)
        }
    }
}

#[cfg(test)]
mod tests {
    use rstest::rstest;

    use super::*;

    #[rstest]
    #[case("kafka.example.com:9092", "kafka.example.com", 9092)]
    #[case("0.0.0.0:1", "0.0.0.0", 1)]
    #[case("[::1]:65535", "::1", 65535)]
    #[case("[::]:9092", "::", 9092)]
    #[case("pod_0.svc:9092", "pod_0.svc", 9092)]
    fn what_can_be_bound(#[case] text: &str, #[case] host: &str, #[case] port: u16) {
        let parsed = HostPort::parse(text).unwrap();
        assert_eq!(parsed, HostPort::new(host, port));
        assert_eq!(parsed.to_string(), text);
    }

    #[rstest]
    #[case("kafka", AddressError::NoPort)]
    #[case("[::1]", AddressError::NoPort)]
    #[case("[::1", AddressError::NoPort)]
    #[case(":9092", AddressError::NoHost)]
    #[case("kafka:", AddressError::Port("".into()))]
    #[case("kafka:0", AddressError::Port("0".into()))]
    #[case("kafka:+80", AddressError::Port("+80".into()))]
    #[case("kafka:65536", AddressError::Port("65536".into()))]
    #[case("kafka:https", AddressError::Port("https".into()))]
    #[case("2001:db8::1", AddressError::BareIpv6("2001:db8::1".into()))]
    #[case("[kafka]:9092", AddressError::NotIpv6("kafka".into()))]
    #[case("ka fka:9092", AddressError::Host("ka fka".into()))]
    #[case("http://kafka:9092", AddressError::Host("http://kafka".into()))]
    #[case("user@kafka:9092", AddressError::Host("user@kafka".into()))]
    fn what_is_no_address(#[case] text: &str, #[case] error: AddressError) {
        assert_eq!(HostPort::parse(text), Err(error));
    }

    #[test]
    fn nothing_long_is_taken_or_repeated() {
        let long = "a".repeat(40_000);
        let refused = HostPort::parse(&format!("{long}:9092"));
        assert_eq!(refused, Err(AddressError::HostLength(40_000)));
        for text in [
            format!("kafka:{long}"),
            format!("[{long}]:9092"),
            format!("{}:9092", "a b".repeat(80)),
        ] {
            let error = HostPort::parse(&text).unwrap_err().to_string();
            assert!(error.len() < 256, "{error}");
        }
        let longest = "a".repeat(MAX_HOST_CHARS);
        assert!(HostPort::parse(&format!("{longest}:9092")).is_ok() && is_tellable(&longest));
    }

    #[rstest]
    #[case::empty("")]
    #[case::line("kafka\nexample")]
    #[case::space("kafka example")]
    #[case::control("kafka\u{0}")]
    #[case::long(&"k".repeat(MAX_HOST_CHARS + 1))]
    fn clients_are_told_of_no_such_host(#[case] host: &str) {
        assert!(!is_tellable(host));
    }

    #[rstest]
    #[case("0.0.0.0:9092")]
    #[case("[::]:9092")]
    #[case("[::ffff:0.0.0.0]:9092")]
    fn a_wildcard_is_not_advertised(#[case] text: &str) {
        let error = HostPort::parse_advertised(text).unwrap_err();
        assert!(matches!(error, AddressError::Wildcard(_)));
        assert!(error.to_string().contains("QUEEN_KAFKA_ADDR"));
    }
}
