//! What the broker's environment says about its facade, judged before anything starts. Pure.
//!
//! A variable that is there and blank counts as unset: a template that resolved to nothing.

use std::ffi::OsString;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};
use std::path::{Path, PathBuf};
use std::time::Duration;

use host::Secret;
use host::text::cut;

/// Turns the facade on.
pub const EMBEDDED: &str = "QUEEN_KAFKA_EMBEDDED";
/// Where its executable is.
pub const BIN: &str = "QUEEN_KAFKA_BIN";
/// Milliseconds between SIGTERM and SIGKILL.
pub const GRACE_MS: &str = "QUEEN_KAFKA_SHUTDOWN_GRACE_MS";
/// What its clients dial.
pub const ADVERTISED: &str = "QUEEN_KAFKA_ADVERTISED_ADDR";
const QUEEN_URL: &str = "QUEEN_URL";
const QUEEN_TOKEN: &str = "QUEEN_TOKEN";
const SASL: &str = "QUEEN_KAFKA_SASL";

/// The broker's own secrets; the facade reads none of them.
pub const STRIPPED: [&str; 4] = [
    "PG_PASSWORD",
    "JWT_SECRET",
    "QUEEN_ENCRYPTION_KEY",
    "QUEEN_SYNC_SECRET",
];

/// The executable beside the broker's.
const BIN_NAME: &str = "queen-kafka";
const DEFAULT_GRACE: Duration = Duration::from_millis(5000);
/// A grace of zero would be a SIGKILL with extra steps.
const SHORTEST_GRACE: Duration = Duration::from_millis(100);

/// Why the broker doesn't boot.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Refused {
    /// Neither `true` nor `false`.
    #[error("{EMBEDDED} must be true or false")]
    Embedded,
    /// No number of milliseconds.
    #[error("{GRACE_MS} must be a number of milliseconds")]
    Grace,
    /// Clients would be sent nowhere.
    #[error("{EMBEDDED}=true needs {ADVERTISED}: the address that Kafka clients dial")]
    Advertised,
    /// There is no such file.
    #[error("{BIN}: {} is not a file", cut(&.0.to_string_lossy(), 256))]
    Bin(PathBuf),
}

/// What a facade is started with.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Settings {
    /// Its executable.
    pub bin: PathBuf,
    /// Between SIGTERM and SIGKILL.
    pub grace: Duration,
    /// Where it finds Queen; `None` is the broker's own listener. Somebody may have written a password
    /// into it.
    pub queen_url: Option<Secret<String>>,
    /// Whether it brings a credential, or its clients do.
    pub has_credential: bool,
}

impl Settings {
    /// Reads the environment; `None` when no facade is asked for, and then nothing else is looked
    /// at. `executable` is the broker's own.
    ///
    /// # Errors
    /// [`Refused`].
    pub fn read(
        env: impl Fn(&str) -> Option<OsString>,
        executable: &Path,
    ) -> Result<Option<Self>, Refused> {
        let set = |name: &str| {
            let value = env(name)?;
            let blank = value.to_str().is_some_and(|text| text.trim().is_empty());
            (!blank).then_some(value)
        };
        let text = |name: &str| set(name).map(|value| value.to_string_lossy().trim().to_owned());
        match text(EMBEDDED).as_deref() {
            None | Some("false") => return Ok(None),
            Some("true") => {}
            Some(_) => return Err(Refused::Embedded),
        }
        let grace = match text(GRACE_MS) {
            None => DEFAULT_GRACE,
            Some(ms) => Duration::from_millis(ms.parse().map_err(|_| Refused::Grace)?),
        };
        if set(ADVERTISED).is_none() {
            return Err(Refused::Advertised);
        }
        let bin = match set(BIN) {
            Some(path) => PathBuf::from(path),
            None => executable.with_file_name(BIN_NAME),
        };
        if !bin.is_file() {
            return Err(Refused::Bin(bin));
        }
        Ok(Some(Self {
            bin,
            grace: grace.max(SHORTEST_GRACE),
            queen_url: text(QUEEN_URL).map(Secret::new),
            has_credential: set(QUEEN_TOKEN).is_some()
                || text(SASL).is_some_and(|mechanism| mechanism.eq_ignore_ascii_case("plain")),
        }))
    }

    /// What every produce and fetch would meet, in words for the log.
    pub fn warning(&self, broker_asks_for_tokens: bool) -> Option<&'static str> {
        (broker_asks_for_tokens && !self.has_credential).then_some(
            "the broker asks for tokens, and the embedded facade has neither QUEEN_TOKEN nor \
             QUEEN_KAFKA_SASL=plain: every call it makes will be answered 401",
        )
    }

    /// Where the child finds Queen, and which setting said so. `bound` is the address that the
    /// broker's listener has.
    pub fn child_url(&self, bound: SocketAddr) -> (String, &'static str) {
        match &self.queen_url {
            Some(url) => (url.expose().clone(), "QUEEN_URL (explicit)"),
            None => (
                format!("http://{}", reachable(bound)),
                "loopback (bound listener)",
            ),
        }
    }
}

/// A wildcard is no address to dial.
fn reachable(bound: SocketAddr) -> SocketAddr {
    let ip = match bound.ip() {
        IpAddr::V4(ip) if ip.is_unspecified() => Ipv4Addr::LOCALHOST.into(),
        IpAddr::V6(ip) if ip.is_unspecified() => Ipv6Addr::LOCALHOST.into(),
        ip => ip,
    };
    SocketAddr::new(ip, bound.port())
}

/// A URL without what may be a credential in it: user, password, query and fragment.
pub fn shown_url(url: &str) -> String {
    match url.split_once("://") {
        Some((scheme, rest)) => {
            let rest = rest.split(['?', '#']).next().unwrap_or_default();
            let (authority, path) = rest.split_at(rest.find('/').unwrap_or(rest.len()));
            let host = authority
                .rsplit_once('@')
                .map_or(authority, |(_, host)| host);
            format!("{scheme}://{host}{path}")
        }
        None => "?".to_owned(),
    }
}

#[cfg(test)]
mod tests {
    use rstest::rstest;

    use super::*;

    fn read(variables: &[(&str, &str)], executable: &Path) -> Result<Option<Settings>, Refused> {
        let env = |name: &str| {
            let found = variables.iter().find(|(variable, _)| *variable == name);
            found.map(|(_, value)| OsString::from(value))
        };
        Settings::read(env, executable)
    }

    /// An executable that has itself beside it.
    fn here() -> PathBuf {
        std::env::current_exe().unwrap()
    }

    const ON: (&str, &str) = (EMBEDDED, "true");
    const AT: (&str, &str) = (ADVERTISED, "kafka.example:9092");

    #[rstest]
    #[case::unset(&[])]
    #[case::off(&[(EMBEDDED, "false"), (GRACE_MS, "soon")])]
    #[case::blank(&[(EMBEDDED, " ")])]
    fn off_nothing_is_read(#[case] variables: &[(&str, &str)]) {
        assert_eq!(read(variables, &here()), Ok(None));
    }

    #[rstest]
    #[case::word(&[(EMBEDDED, "yes")], Refused::Embedded)]
    #[case::grace(&[ON, AT, (GRACE_MS, "5s")], Refused::Grace)]
    #[case::no_address(&[ON], Refused::Advertised)]
    #[case::blank_address(&[ON, (ADVERTISED, "")], Refused::Advertised)]
    #[case::no_file(&[ON, AT, (BIN, "/nowhere/queen-kafka")],
        Refused::Bin("/nowhere/queen-kafka".into()))]
    #[case::a_folder(&[ON, AT, (BIN, "/")], Refused::Bin("/".into()))]
    #[case::not_beside(&[ON, AT], Refused::Bin(here().with_file_name("queen-kafka")))]
    fn mistakes_are_refused_at_boot(#[case] variables: &[(&str, &str)], #[case] why: Refused) {
        assert_eq!(read(variables, &here()), Err(why));
    }

    #[rstest]
    #[case("", 5000)]
    #[case("250", 250)]
    #[case("0", 100)]
    fn the_grace_has_a_floor(#[case] ms: &str, #[case] expected: u64) {
        let bin = here();
        let bin = (BIN, bin.to_str().unwrap());
        let settings = read(&[ON, AT, bin, (GRACE_MS, ms)], &here())
            .unwrap()
            .unwrap();
        assert_eq!(settings.grace, Duration::from_millis(expected));
    }

    #[rstest]
    #[case(&[], "0.0.0.0:6632", "http://127.0.0.1:6632", "loopback (bound listener)")]
    #[case(&[], "[::]:7", "http://[::1]:7", "loopback (bound listener)")]
    #[case(&[], "10.0.0.7:6632", "http://10.0.0.7:6632", "loopback (bound listener)")]
    #[case(&[("QUEEN_URL", " ")], "127.0.0.1:6632", "http://127.0.0.1:6632",
        "loopback (bound listener)")]
    #[case(&[("QUEEN_URL", "http://proxy:6711")], "0.0.0.0:6632", "http://proxy:6711",
        "QUEEN_URL (explicit)")]
    fn the_child_finds_queen(
        #[case] more: &[(&str, &str)],
        #[case] bound: SocketAddr,
        #[case] url: &str,
        #[case] from: &str,
    ) {
        let bin = here();
        let mut variables = vec![ON, AT, (BIN, bin.to_str().unwrap())];
        variables.extend(more);
        let settings = read(&variables, &here()).unwrap().unwrap();
        assert_eq!(settings.child_url(bound), (url.to_owned(), from));
    }

    #[rstest]
    #[case(&[], true, true)]
    #[case(&[], false, false)]
    #[case(&[("QUEEN_TOKEN", "x")], true, false)]
    #[case(&[("QUEEN_TOKEN", "")], true, true)]
    #[case(&[("QUEEN_KAFKA_SASL", "Plain")], true, false)]
    fn a_child_without_a_credential_is_warned_of(
        #[case] more: &[(&str, &str)],
        #[case] asks: bool,
        #[case] warned: bool,
    ) {
        let bin = here();
        let mut variables = vec![ON, AT, (BIN, bin.to_str().unwrap())];
        variables.extend(more);
        let settings = read(&variables, &here()).unwrap().unwrap();
        assert_eq!(settings.warning(asks).is_some(), warned);
    }

    #[test]
    fn a_shown_url_has_no_credentials() {
        assert_eq!(shown_url("http://u:p@h:1/x@y"), "http://h:1/x@y");
        assert_eq!(shown_url("http://h:1"), "http://h:1");
        assert_eq!(shown_url("http://h:1/x?token=s#s"), "http://h:1/x");
        let url = ("QUEEN_URL", "http://u:hunter2@h");
        let bin = here();
        let settings = read(&[ON, AT, url, (BIN, bin.to_str().unwrap())], &here());
        assert!(!format!("{settings:?}").contains("hunter2"));
    }
}
