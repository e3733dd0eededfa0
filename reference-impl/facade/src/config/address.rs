//! `host:port` as operators write it.

use std::fmt;
use std::net::{IpAddr, Ipv6Addr};

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
    /// An address that everybody binds and nobody can connect to.
    #[error(
        "has the wildcard host {0}, which no client can connect to; the wildcard belongs in \
         QUEEN_KAFKA_ADDR, which is what gets bound"
    )]
    Wildcard(String),
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
        let (host, port) = match text.strip_prefix('[') {
            Some(rest) => {
                let (v6, port) = rest.split_once(']').ok_or(AddressError::NoPort)?;
                if v6.parse::<Ipv6Addr>().is_err() {
                    return Err(AddressError::NotIpv6(v6.to_owned()));
                }
                (v6, port.strip_prefix(':').ok_or(AddressError::NoPort)?)
            }
            None => {
                if text.parse::<Ipv6Addr>().is_ok() {
                    return Err(AddressError::BareIpv6(text.to_owned()));
                }
                let (host, port) = text.rsplit_once(':').ok_or(AddressError::NoPort)?;
                if host.parse::<Ipv6Addr>().is_ok() {
                    return Err(AddressError::BareIpv6(host.to_owned()));
                }
                (host, port)
            }
        };
        if host.is_empty() {
            return Err(AddressError::NoHost);
        }
        let in_names = |c: char| c.is_ascii_alphanumeric() || "-._".contains(c);
        if host.parse::<IpAddr>().is_err() && !host.chars().all(in_names) {
            return Err(AddressError::Host(host.to_owned()));
        }
        let bad_port = || AddressError::Port(port.to_owned());
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
