//! Whether a Queen keeps the contract that Kafka facades ride on: the checks of contract section
//! 12.4 over HTTP, against any base URL, this crate's fake or a real broker. They make queues with
//! names of their own and remove them, and rows that expire.

mod checks;
mod client;

use std::sync::Arc;
use std::time::Duration;

use host::{Connect, Host, Remote, Secret};

pub use self::client::Failure;
use self::client::{Client, Probe};

/// A Queen to be checked.
#[derive(Clone, Debug)]
pub struct Target {
    /// How it is reached.
    pub connect: Arc<dyn Connect>,
    /// What `Host` says.
    pub authority: String,
    /// In front of every path; empty or `/something`.
    pub prefix: String,
    /// Sent with every call. The checks need the admin level: they delete queues.
    pub bearer: Option<Secret<String>>,
}

/// Why an address is none.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum BadUrl {
    /// Only plain HTTP is spoken.
    #[error("only http:// addresses can be checked")]
    Scheme,
    /// There is no host, or the port is no number.
    #[error("{0:?} is no host, or host and port")]
    Authority(String),
}

impl Target {
    /// Reads `http://host[:port][/prefix]`.
    ///
    /// # Errors
    /// See [`BadUrl`].
    pub fn of_url(host: &Host, url: &str) -> Result<Self, BadUrl> {
        const DEFAULT_PORT: u16 = 6632;
        let rest = url.strip_prefix("http://").ok_or(BadUrl::Scheme)?;
        let (authority, prefix) = rest.split_at(rest.find('/').unwrap_or(rest.len()));
        let bad = || BadUrl::Authority(authority.to_owned());
        // What a port follows: a colon behind the bracket of an IPv6 address, or any colon.
        let port_at = match authority.rfind(']') {
            Some(bracket) => authority[bracket..].find(':').map(|at| bracket + at),
            None => authority.rfind(':'),
        };
        let (name, port) = match port_at {
            Some(at) => (
                &authority[..at],
                authority[at + 1..].parse().map_err(|_| bad())?,
            ),
            None => (authority, DEFAULT_PORT),
        };
        let name = name.trim_start_matches('[').trim_end_matches(']');
        if name.is_empty() {
            return Err(bad());
        }
        Ok(Self {
            connect: Arc::new(Remote {
                net: Arc::clone(&host.net),
                host: name.to_owned(),
                port,
            }),
            authority: authority.to_owned(),
            prefix: prefix.trim_end_matches('/').to_owned(),
            bearer: None,
        })
    }
}

/// What came of one check.
#[derive(Debug)]
pub struct Outcome {
    /// Its group: 1 to 11 as in the contract, 12 for native consumers.
    pub group: u8,
    /// What it proves.
    pub title: &'static str,
    /// How it ended.
    pub result: Result<(), Failure>,
    /// How long it took.
    pub took: Duration,
}

/// Runs every check, one after the other, telling each outcome as it comes.
pub async fn run(target: &Target, host: &Host, mut tell: impl FnMut(&Outcome)) -> Vec<Outcome> {
    let probe = Probe::new(Client::new(target.clone()), host);
    let mut outcomes = Vec::new();
    for check in checks::all() {
        let started = tokio::time::Instant::now();
        let result = (check.run)(&probe).await;
        let outcome = Outcome {
            group: check.group,
            title: check.title,
            result,
            took: started.elapsed(),
        };
        tell(&outcome);
        outcomes.push(outcome);
    }
    probe.clean_up().await;
    outcomes
}

#[cfg(test)]
mod tests {
    use rstest::rstest;

    use super::*;

    #[rstest]
    #[case("http://queen", "queen", "queen", 6632, "")]
    #[case("http://queen:80/", "queen:80", "queen", 80, "")]
    #[case("http://[::1]:7/a/b/", "[::1]:7", "::1", 7, "/a/b")]
    #[case("http://[::1]", "[::1]", "::1", 6632, "")]
    #[tokio::test]
    async fn addresses_are_read(
        #[case] url: &str,
        #[case] authority: &str,
        #[case] name: &str,
        #[case] port: u16,
        #[case] prefix: &str,
    ) {
        let target = Target::of_url(&host::os::host(), url).unwrap();
        assert_eq!(
            (target.authority.as_str(), target.prefix.as_str()),
            (authority, prefix)
        );
        let shown = format!("{:?}", target.connect);
        assert!(
            shown.contains(&format!("host: {name:?}, port: {port}")),
            "{shown}"
        );
    }

    #[rstest]
    #[case("https://queen", BadUrl::Scheme)]
    #[case("http://", BadUrl::Authority(String::new()))]
    #[case("http://q:x", BadUrl::Authority("q:x".into()))]
    #[tokio::test]
    async fn what_is_no_address_is_refused(#[case] url: &str, #[case] why: BadUrl) {
        assert_eq!(Target::of_url(&host::os::host(), url).err(), Some(why));
    }
}
