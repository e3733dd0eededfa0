//! From variables to [`Config`]: everything is looked at, and everything that is wrong is said at
//! once.

use std::collections::BTreeMap;
use std::ffi::OsString;
use std::fmt;
use std::time::Duration;

use coordinator::cluster::NodeId;
use coordinator::consumer::MigrationPolicy;
use coordinator::fetch_session::Limits as FetchSessionLimits;
use host::Secret;
use host::text::cut;
use tracing_subscriber::EnvFilter;

use super::variables::{self as var, Kind, Variable};
use super::{
    ClusterConfig, Config, FeatureCaps, GroupConfig, HostPort, ListenerConfig, LogConfig,
    Mechanism, PartitionCount, QueenUrl, SecurityConfig, TlsConfig, TlsFiles, TransactionConfig,
    TransactionStage,
};

/// Variables by name, as the process got them.
pub type Variables = BTreeMap<OsString, OsString>;

/// What is wrong with one variable.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Problem {
    /// Which.
    pub variable: &'static str,
    /// What is wrong, and what would be right. Follows the name in a sentence.
    pub message: String,
}

/// Everything that is wrong, at least one problem.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub struct ConfigErrors(pub Vec<Problem>);

impl fmt::Display for ConfigErrors {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (n, Problem { variable, message }) in self.0.iter().enumerate() {
            let end = if n == 0 { "" } else { "\n" };
            write!(f, "{end}{variable} {message}")?;
        }
        Ok(())
    }
}

impl Config {
    /// Reads every variable. One that is blank counts as unset.
    ///
    /// # Errors
    ///
    /// [`ConfigErrors`]: every problem of every variable.
    pub fn from_variables(variables: &Variables) -> Result<Self, ConfigErrors> {
        let mut reader = Reader {
            variables,
            problems: Vec::new(),
        };
        let config = reader.config();
        reader.pairs();
        if reader.problems.is_empty() {
            Ok(config)
        } else {
            Err(ConfigErrors(reader.problems))
        }
    }
}

/// Characters of a value that does not parse that are shown.
const SHOWN_CHARS: usize = 128;
/// The longest log filter: each of its directives costs every line of the log.
const MAX_FILTER_BYTES: usize = 1024;

/// A value that does not parse, in quotes, as far as it may be shown: a user name or a password
/// before an `@`, and what follows a `?`, are left out, and what is long is cut.
fn quoted(text: &str) -> String {
    format!("{:?}", cut(&quotable(text), SHOWN_CHARS))
}

fn quotable(text: &str) -> String {
    let from = text.find("://").map_or(0, |at| at + 3);
    let shown = match text.rfind('@') {
        Some(at) if at >= from => format!("{}[hidden]{}", &text[..from], &text[at..]),
        _ => text.to_owned(),
    };
    match shown.find('?') {
        Some(at) => format!("{}?[hidden]", &shown[..at]),
        None => shown,
    }
}

/// Why a text is no log filter, a sentence without its subject.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
enum FilterError {
    #[error(
        "is no log filter; write a level such as info, or target=level pairs with commas between"
    )]
    Syntax,
    #[error("is longer than {MAX_FILTER_BYTES} bytes")]
    Long,
}

struct Reader<'a> {
    variables: &'a Variables,
    problems: Vec<Problem>,
}

impl Reader<'_> {
    fn config(&mut self) -> Config {
        let fallback = Config::local();
        let groups = self.groups();
        Config {
            queen_url: self
                .parsed(&var::QUEEN_URL, QueenUrl::parse)
                .unwrap_or(fallback.queen_url),
            queen_token: self.token(),
            listen: self
                .parsed(&var::ADDR, HostPort::parse)
                .unwrap_or(fallback.listen),
            advertised: self.advertised().unwrap_or(fallback.advertised),
            http: self.parsed(&var::HTTP_ADDR, HostPort::parse),
            // The row's range is inside `i32`.
            default_partitions: PartitionCount(self.integer(&var::DEFAULT_PARTITIONS) as i32),
            timestamp_after_max_ms: self.integer(&var::TIMESTAMP_AFTER_MAX_MS) as i64,
            auto_create: self.switch(&var::AUTO_CREATE),
            admin: self.switch(&var::ADMIN),
            node: self.node(),
            cluster: self.text(&var::CLUSTER).unwrap_or(fallback.cluster),
            listener: self.listener(),
            security: self.security(),
            groups,
            features: self.features(),
            transactions: self.transactions(),
            fetch_sessions: FetchSessionLimits {
                slots: self.size(&var::FETCH_SESSION_SLOTS),
                ..fallback.fetch_sessions
            },
            drain: self.millis(&var::DRAIN_MS),
            log: self.log(),
        }
    }

    fn listener(&mut self) -> ListenerConfig {
        let per_ip = self.size(&var::MAX_CONNECTIONS_PER_IP);
        ListenerConfig {
            max_connections: self.size(&var::MAX_CONNECTIONS),
            max_connections_per_ip: Some(per_ip).filter(|max| *max > 0),
            max_unauthenticated: self.size(&var::MAX_UNAUTHENTICATED),
            auth_timeout: self.millis(&var::AUTH_TIMEOUT_MS),
            write_timeout: self.millis(&var::WRITE_TIMEOUT_MS),
            max_in_flight_bytes: self.size(&var::MAX_IN_FLIGHT_BYTES),
        }
    }

    fn node(&mut self) -> Option<ClusterConfig> {
        self.text(&var::NODE_ID)?;
        Some(ClusterConfig {
            // The row's range is inside `i32`.
            id: NodeId(self.integer(&var::NODE_ID) as i32),
            heartbeat: self.millis(&var::CLUSTER_HEARTBEAT_MS),
            ttl: self.millis(&var::CLUSTER_TTL_MS),
        })
    }

    fn security(&mut self) -> SecurityConfig {
        let reauth = self.millis(&var::REAUTH_MS);
        SecurityConfig {
            tls: self.tls(),
            sasl: self.word(&var::SASL).map(|_| Mechanism::Plain),
            forward_sni_host: self.switch(&var::FORWARD_SNI_HOST),
            reauth: Some(reauth).filter(|reauth| !reauth.is_zero()),
        }
    }

    fn tls(&mut self) -> Option<TlsConfig> {
        let (cert, key) = (self.text(&var::TLS_CERT), self.text(&var::TLS_KEY));
        let (cert, key) = match (cert, key) {
            (Some(cert), Some(key)) => (cert, key),
            (None, None) => {
                if self.text(&var::FORWARD_SNI_HOST).as_deref() == Some("true") {
                    let message = "requires TLS: a plaintext connection carries no server name";
                    self.problem(&var::FORWARD_SNI_HOST, message);
                }
                return None;
            }
            (cert, _) => {
                let (set, missing) = match cert {
                    Some(_) => (&var::TLS_CERT, &var::TLS_KEY),
                    None => (&var::TLS_KEY, &var::TLS_CERT),
                };
                let message = format!("is set without {}: TLS needs both files", missing.name);
                self.problem(set, &message);
                return None;
            }
        };
        let files = TlsFiles {
            cert: cert.into(),
            key: key.into(),
        };
        match files.load() {
            Ok(identity) => Some(TlsConfig {
                identity,
                files: Some(files),
            }),
            Err(error) => {
                let (variable, path) = match error.is_of_key() {
                    true => (&var::TLS_KEY, &files.key),
                    false => (&var::TLS_CERT, &files.cert),
                };
                self.problem(
                    variable,
                    &format!("is {}: {error}", quoted(&path.to_string_lossy())),
                );
                None
            }
        }
    }

    /// A word of a variable that takes some.
    fn word(&mut self, variable: &'static Variable) -> Option<String> {
        let text = self.text(variable)?;
        self.check(variable, &text);
        Some(text).filter(|_| !self.has_problem(variable))
    }

    fn groups(&mut self) -> GroupConfig {
        let groups = GroupConfig {
            initial_rebalance_delay: self.millis(&var::GROUP_JOIN_DELAY_MS),
            min_session_timeout: self.millis(&var::GROUP_MIN_SESSION_TIMEOUT_MS),
            max_session_timeout: self.millis(&var::GROUP_MAX_SESSION_TIMEOUT_MS),
            consumer_session_timeout: self.millis(&var::GROUP_CONSUMER_SESSION_TIMEOUT_MS),
            consumer_heartbeat_interval: self.millis(&var::GROUP_CONSUMER_HEARTBEAT_INTERVAL_MS),
            migration_policy: self.migration_policy(),
        };
        if groups.consumer_heartbeat_interval > groups.consumer_session_timeout {
            self.above(
                &var::GROUP_CONSUMER_HEARTBEAT_INTERVAL_MS,
                &var::GROUP_CONSUMER_SESSION_TIMEOUT_MS,
            );
        }
        if groups.min_session_timeout > groups.max_session_timeout {
            self.above(
                &var::GROUP_MIN_SESSION_TIMEOUT_MS,
                &var::GROUP_MAX_SESSION_TIMEOUT_MS,
            );
        }
        groups
    }

    fn migration_policy(&mut self) -> MigrationPolicy {
        let variable = &var::GROUP_CONSUMER_MIGRATION_POLICY;
        let text = self.text(variable).unwrap_or_default();
        if !text.is_empty() {
            self.check(variable, &text);
        }
        match text.to_ascii_lowercase().as_str() {
            "upgrade" => MigrationPolicy::Upgrade,
            "downgrade" => MigrationPolicy::Downgrade,
            "disabled" => MigrationPolicy::Disabled,
            _ => MigrationPolicy::Bidirectional,
        }
    }

    fn features(&mut self) -> FeatureCaps {
        let variable = &var::FEATURES;
        let text = self.text(variable);
        match text.as_deref().map(FeatureCaps::parse) {
            None => FeatureCaps::default(),
            Some(Ok(caps)) => caps,
            Some(Err(error)) => {
                self.problem(variable, &error.to_string());
                FeatureCaps::default()
            }
        }
    }

    fn transactions(&mut self) -> TransactionConfig {
        let stage = self.text(&var::TXN_STAGE);
        if let Some(text) = &stage {
            self.check(&var::TXN_STAGE, text);
        }
        if self.integer(&var::TXN_MAX_BYTES) > self.integer(&var::TXN_MAX_STAGED_BYTES) {
            self.above(&var::TXN_MAX_BYTES, &var::TXN_MAX_STAGED_BYTES);
        }
        TransactionConfig {
            stage: match stage {
                Some(text) if text.eq_ignore_ascii_case("queen") => TransactionStage::Queen,
                // Several nodes can only share what waits in Queen.
                None if self.text(&var::NODE_ID).is_some() => TransactionStage::Queen,
                _ => TransactionStage::Memory,
            },
            max_bytes: self.size(&var::TXN_MAX_BYTES),
            max_records: self.size(&var::TXN_MAX_RECORDS),
            max_staged_bytes: self.size(&var::TXN_MAX_STAGED_BYTES),
            max_open: self.size(&var::TXN_MAX_OPEN),
            max_timeout: self.millis(&var::TXN_MAX_TIMEOUT_MS),
        }
    }

    fn log(&mut self) -> LogConfig {
        let level = self.filter(&var::LOG_LEVEL);
        let rust_log = self.filter(&var::RUST_LOG);
        LogConfig {
            filter: rust_log.or(level).unwrap_or_else(|| "info".to_owned()),
            json: self.text(&var::LOG_JSON).as_deref() == Some("true"),
        }
    }

    fn filter(&mut self, variable: &'static Variable) -> Option<String> {
        self.parsed(variable, |text| {
            if text.len() > MAX_FILTER_BYTES {
                return Err(FilterError::Long);
            }
            EnvFilter::try_new(text)
                .map(|_| text.to_owned())
                .map_err(|_| FilterError::Syntax)
        })
    }

    fn token(&mut self) -> Option<Secret<String>> {
        let token = self.text(&var::QUEEN_TOKEN)?;
        if token.bytes().any(|byte| !byte.is_ascii_graphic()) {
            self.problem(
                &var::QUEEN_TOKEN,
                "holds characters that no HTTP header can carry",
            );
        }
        Some(Secret::new(token))
    }

    fn advertised(&mut self) -> Option<HostPort> {
        let variable = &var::ADVERTISED_ADDR;
        if self.text(variable).is_none() && !self.has_problem(variable) {
            self.problem(
                variable,
                "is required: the host:port that other machines use to reach this process, and \
                 what every client is told to connect to. QUEEN_KAFKA_ADDR is not it: that is only \
                 what gets bound",
            );
        }
        self.parsed(variable, HostPort::parse_advertised)
    }

    /// The rules between the variables of a cluster.
    fn pairs(&mut self) {
        if let Some(name) = self.text(&var::CLUSTER) {
            self.check(&var::CLUSTER, &name);
        }
        if self.text(&var::NODE_ID).is_none() {
            let clustered = [
                &var::CLUSTER,
                &var::CLUSTER_HEARTBEAT_MS,
                &var::CLUSTER_TTL_MS,
            ];
            if self.text(clustered[0]).is_some() {
                let message = "is set without QUEEN_KAFKA_NODE_ID, which switches cluster mode on";
                self.problem(clustered[0], message);
            }
        } else if self.text(&var::QUEEN_TOKEN).is_none() {
            let message = "is required in cluster mode (QUEEN_KAFKA_NODE_ID is set)";
            self.problem(&var::QUEEN_TOKEN, message);
        }
        let heartbeat = self.integer(&var::CLUSTER_HEARTBEAT_MS);
        if self.integer(&var::CLUSTER_TTL_MS) < 3 * heartbeat {
            let message = format!("must be at least three times the heartbeat ({heartbeat} ms)");
            self.problem(&var::CLUSTER_TTL_MS, &message);
        }
    }

    fn check(&mut self, variable: &'static Variable, text: &str) {
        match variable.kind {
            Kind::Integer { .. } => {
                self.integer(variable);
            }
            Kind::Switch => {
                self.switch(variable);
            }
            Kind::Word(words) => {
                if !words.iter().any(|word| word.eq_ignore_ascii_case(text)) {
                    let known = words.join(" or ");
                    self.problem(variable, &format!("is {}; it takes {known}", quoted(text)));
                }
            }
            Kind::ClusterName => {
                let in_names = |c: char| c.is_ascii_alphanumeric() || "._-".contains(c);
                if text.len() > 64 || !text.chars().all(in_names) {
                    let message = "takes 1 to 64 characters of A-Z, a-z, 0-9, '.', '_' and '-'";
                    self.problem(variable, message);
                }
            }
            // These hold any text, or are parsed by their own rules.
            Kind::Url
            | Kind::Token
            | Kind::Bind
            | Kind::Advertised
            | Kind::Path
            | Kind::Features
            | Kind::Filter
            | Kind::OnlyTrue => {}
        }
    }

    fn text(&mut self, variable: &'static Variable) -> Option<String> {
        let value = self.variables.get(std::ffi::OsStr::new(variable.name))?;
        let Some(text) = value.to_str() else {
            self.problem(variable, "is not UTF-8");
            return None;
        };
        let text = text.trim();
        (!text.is_empty()).then(|| text.to_owned())
    }

    /// The parsed value, or that of the default; `None` when there is neither or it is wrong.
    fn parsed<T, E: fmt::Display>(
        &mut self,
        variable: &'static Variable,
        parse: impl Fn(&str) -> Result<T, E>,
    ) -> Option<T> {
        let text = self.text(variable);
        let text = text.as_deref().or(variable.default)?;
        match parse(text) {
            Ok(value) => Some(value),
            Err(error) => {
                self.problem(variable, &format!("is {}: it {error}", quoted(text)));
                None
            }
        }
    }

    fn integer(&mut self, variable: &'static Variable) -> u64 {
        let Kind::Integer { min, max } = variable.kind else {
            return 0;
        };
        let fallback = variable.default.and_then(|text| text.parse().ok());
        let fallback = fallback.unwrap_or(min);
        let Some(text) = self.text(variable) else {
            return fallback;
        };
        match text.parse::<u64>() {
            Ok(value) if (min..=max).contains(&value) && !text.starts_with('+') => value,
            _ => {
                let text = quoted(&text);
                let message = format!("is {text}; it takes a whole number from {min} to {max}");
                self.problem(variable, &message);
                fallback
            }
        }
    }

    fn size(&mut self, variable: &'static Variable) -> usize {
        usize::try_from(self.integer(variable)).unwrap_or(usize::MAX)
    }

    fn millis(&mut self, variable: &'static Variable) -> Duration {
        Duration::from_millis(self.integer(variable))
    }

    fn switch(&mut self, variable: &'static Variable) -> bool {
        let text = self.text(variable);
        match text.as_deref().or(variable.default) {
            Some("true") => true,
            Some("false") | None => false,
            Some(other) => {
                self.problem(
                    variable,
                    &format!("is {}; it takes true or false", quoted(other)),
                );
                variable.default == Some("true")
            }
        }
    }

    fn above(&mut self, low: &'static Variable, high: &'static Variable) {
        let (low_value, high_value) = (self.integer(low), self.integer(high));
        let message = format!(
            "({low_value}) must not be above {} ({high_value})",
            high.name
        );
        self.problem(low, &message);
    }

    fn has_problem(&self, variable: &Variable) -> bool {
        let name = variable.name;
        self.problems.iter().any(|problem| problem.variable == name)
    }

    /// One problem per variable: the first is the cause of those behind it.
    fn problem(&mut self, variable: &'static Variable, message: &str) {
        if !self.has_problem(variable) {
            self.problems.push(Problem {
                variable: variable.name,
                message: message.to_owned(),
            });
        }
    }
}

#[cfg(test)]
mod tests;
