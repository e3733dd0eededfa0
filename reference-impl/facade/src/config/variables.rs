//! Every variable the facade reads, once: the parser works from these rows, and so does the
//! reference page.

use super::url;

/// One variable.
#[derive(Debug, PartialEq, Eq)]
pub struct Variable {
    /// Its name.
    pub name: &'static str,
    /// The text that stands for "unset"; `None` when unset means something else or is refused.
    pub default: Option<&'static str>,
    /// What it takes.
    pub kind: Kind,
    /// Which part of the reference it belongs to.
    pub group: Group,
    /// What it is, for the reference page.
    pub doc: &'static str,
}

/// What a variable takes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    /// `http://`, `https://` or `embedded:`.
    Url,
    /// A bearer token; never shown.
    Token,
    /// The `host:port` to bind.
    Bind,
    /// The `host:port` that others connect to.
    Advertised,
    /// A whole number.
    Integer {
        /// Lowest.
        min: u64,
        /// Highest.
        max: u64,
    },
    /// `true` or `false`.
    Switch,
    /// One of these words, in any case.
    Word(&'static [&'static str]),
    /// A file.
    Path,
    /// A cluster name.
    ClusterName,
    /// `name=level` pairs of finalized features.
    Features,
    /// A log filter.
    Filter,
    /// `true`; anything else is false.
    OnlyTrue,
}

/// Parts of the reference.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Group {
    /// Where Queen is, and what is bound.
    Addresses,
    /// Topics.
    Topics,
    /// The group coordinator.
    Groups,
    /// What the listener bears.
    Limits,
    /// Logging.
    Logging,
    /// TLS and SASL.
    Security,
    /// Transactions.
    Transactions,
    /// Cluster mode.
    Cluster,
}

impl Group {
    /// All, in the order of the reference.
    pub const ALL: [Self; 8] = [
        Self::Addresses,
        Self::Topics,
        Self::Groups,
        Self::Limits,
        Self::Logging,
        Self::Security,
        Self::Transactions,
        Self::Cluster,
    ];

    /// The heading.
    pub const fn title(self) -> &'static str {
        match self {
            Self::Addresses => "Queen and addresses",
            Self::Topics => "Topics and administration",
            Self::Groups => "Group coordinator",
            Self::Limits => "Limits of the listener",
            Self::Logging => "Logging",
            Self::Security => "TLS and SASL",
            Self::Transactions => "Transactions",
            Self::Cluster => "Cluster mode",
        }
    }
}

macro_rules! variables {
    ($($constant:ident = $name:literal, $default:expr, $kind:expr, $group:ident,
        $doc:literal;)*) => {
        $(
            #[doc = $doc]
            pub const $constant: Variable = Variable {
                name: $name,
                default: $default,
                kind: $kind,
                group: Group::$group,
                doc: $doc,
            };
        )*

        /// Every variable, in the order of the reference.
        pub const ALL: &[&Variable] = &[$(&$constant),*];
    };
}

const fn integer(min: u64, max: u64) -> Kind {
    Kind::Integer { min, max }
}

const HOUR_MS: u64 = 3_600_000;

variables! {
    QUEEN_URL = "QUEEN_URL", Some(url::DEFAULT), Kind::Url, Addresses,
        "The broker or proxy the facade calls: an `http` or `https` URL, a trailing slash is dropped. An `https` one must prove its name to an authority the system trusts (`SSL_CERT_FILE` names others). `embedded:DIR` runs a durable Queen in this process that stores in DIR, `embedded:` one in memory.";
    QUEEN_TOKEN = "QUEEN_TOKEN", None, Kind::Token, Addresses,
        "Bearer token for that broker. Optional, and never logged: the boot line says whether there is one.";
    ADDR = "QUEEN_KAFKA_ADDR", Some("0.0.0.0:9092"), Kind::Bind, Addresses,
        "The address the Kafka listener binds: `host:port`, or `[v6]:port`. `[::]:9092` serves IPv4 too where the system allows it.";
    ADVERTISED_ADDR = "QUEEN_KAFKA_ADVERTISED_ADDR", None, Kind::Advertised, Addresses,
        "**Required.** The `host:port` that other machines use to reach this process: what clients are told to connect to after bootstrap. A wildcard is refused.";
    HTTP_ADDR = "QUEEN_KAFKA_HTTP_ADDR", None, Kind::Bind, Addresses,
        "Where `/livez`, `/readyz` and Prometheus `/metrics` are served, and the console of the embedded Queen. Unset serves none of them.";
    DRAIN_MS = "QUEEN_KAFKA_DRAIN_MS", Some("2000"), integer(0, 60_000), Addresses,
        "How long a stop (SIGTERM, SIGINT) waits for what is in flight. Keep it inside the grace of whatever supervises the process.";
    DEFAULT_PARTITIONS = "QUEEN_KAFKA_DEFAULT_PARTITIONS", Some("1024"), integer(1, 100_000), Topics,
        "Partitions of a topic the facade creates by itself, and the floor for the width it advertises to topics that declared none of their own.";
    TIMESTAMP_AFTER_MAX_MS = "QUEEN_KAFKA_TIMESTAMP_AFTER_MAX_MS", Some("3600000"), integer(0, i64::MAX as u64), Topics,
        "Kafka's `log.message.timestamp.after.max.ms`: how far ahead of this machine's clock the timestamp of a record may be. A batch with one beyond it is refused (`INVALID_TIMESTAMP`). For topics that set no `message.timestamp.after.max.ms`; `9223372036854775807` takes every record.";
    AUTO_CREATE = "QUEEN_KAFKA_AUTO_CREATE", Some("true"), Kind::Switch, Topics,
        "Whether topics are created when a client that allows it asks for them.";
    ADMIN = "QUEEN_KAFKA_ADMIN", Some("true"), Kind::Switch, Topics,
        "`false` refuses topic and group deletion and config writes at the door.";
    GROUP_JOIN_DELAY_MS = "QUEEN_KAFKA_GROUP_JOIN_DELAY_MS", Some("3000"), integer(0, HOUR_MS), Groups,
        "Kafka's `group.initial.rebalance.delay.ms`: how long the first join of an empty group waits for company.";
    GROUP_MIN_SESSION_TIMEOUT_MS = "QUEEN_KAFKA_GROUP_MIN_SESSION_TIMEOUT_MS", Some("6000"), integer(1, HOUR_MS), Groups,
        "Kafka's `group.min.session.timeout.ms`. Not above the maximum.";
    GROUP_MAX_SESSION_TIMEOUT_MS = "QUEEN_KAFKA_GROUP_MAX_SESSION_TIMEOUT_MS", Some("300000"), integer(1, HOUR_MS), Groups,
        "Kafka's `group.max.session.timeout.ms`.";
    GROUP_CONSUMER_SESSION_TIMEOUT_MS = "QUEEN_KAFKA_GROUP_CONSUMER_SESSION_TIMEOUT_MS", Some("45000"), integer(5_000, HOUR_MS), Groups,
        "Kafka's `group.consumer.session.timeout.ms`: how long a member of the consumer protocol (KIP-848) may be silent.";
    GROUP_CONSUMER_HEARTBEAT_INTERVAL_MS = "QUEEN_KAFKA_GROUP_CONSUMER_HEARTBEAT_INTERVAL_MS", Some("5000"), integer(100, 45_000), Groups,
        "Kafka's `group.consumer.heartbeat.interval.ms`: how often members of the consumer protocol are told to send a heartbeat. Not above the session timeout.";
    GROUP_CONSUMER_MIGRATION_POLICY = "QUEEN_KAFKA_GROUP_CONSUMER_MIGRATION_POLICY", Some("bidirectional"), Kind::Word(&["bidirectional", "upgrade", "downgrade", "disabled"]), Groups,
        "Kafka's `group.consumer.migration.policy`: which way a live group may change between the classic and the consumer protocol.";
    FEATURES = "QUEEN_KAFKA_FEATURES", None, Kind::Features, Groups,
        "Caps the features that ApiVersions finalizes, for instance `group.version=0`: then none is, and the consumer protocol (KIP-848) is `UNSUPPORTED_VERSION`. Unset, each goes as far as this version serves it: `group.version=1`.";
    MAX_CONNECTIONS = "QUEEN_KAFKA_MAX_CONNECTIONS", Some("4096"), integer(16, 1_000_000), Limits,
        "Connections served at once. Past it a new connection is closed immediately.";
    MAX_CONNECTIONS_PER_IP = "QUEEN_KAFKA_MAX_CONNECTIONS_PER_IP", Some("0"), integer(0, 1_000_000), Limits,
        "Connections from one address (one /64 of IPv6) at once; 0 is no such bound.";
    MAX_IN_FLIGHT_BYTES = "QUEEN_KAFKA_MAX_IN_FLIGHT_BYTES", Some("536870912"), integer(16 << 20, 1 << 40), Limits,
        "Bytes of requests, of answers and of what is read from Queen for them that all connections together hold. When a part of it is spent, who wants more of it waits, and connections that leave answers unread or requests half sent are closed, the longest overdue first; small requests and answers always pass.";
    FETCH_SESSION_SLOTS = "QUEEN_KAFKA_FETCH_SESSION_SLOTS", Some("1000"), integer(0, 1_000_000), Limits,
        "Kafka's `max.incremental.fetch.session.cache.slots`: consumers whose fetch session is kept at once. Those beyond it name all their partitions in every request.";
    WRITE_TIMEOUT_MS = "QUEEN_KAFKA_WRITE_TIMEOUT_MS", Some("30000"), integer(1_000, HOUR_MS), Limits,
        "How far a client may fall behind 64 KiB/s in reading what is written to it; then its connection closes. Sooner when others wait for the memory.";
    MAX_UNAUTHENTICATED = "QUEEN_KAFKA_MAX_UNAUTHENTICATED", Some("256"), integer(1, 1_000_000), Limits,
        "Connections at once that have not authenticated. Bounds nothing on a listener that authenticates nobody.";
    AUTH_TIMEOUT_MS = "QUEEN_KAFKA_AUTH_TIMEOUT_MS", Some("10000"), integer(1_000, 600_000), Limits,
        "How long a connection may take to authenticate. Bounds nothing on a listener that authenticates nobody.";
    LOG_LEVEL = "LOG_LEVEL", Some("info"), Kind::Filter, Logging,
        "What is logged: a level, or `target=level` pairs (`EnvFilter` syntax).";
    RUST_LOG = "RUST_LOG", None, Kind::Filter, Logging,
        "The same, and it wins over `LOG_LEVEL`.";
    LOG_JSON = "QUEEN_LOG_JSON", Some("false"), Kind::OnlyTrue, Logging,
        "`true` logs JSON lines. Any other value is read as false.";
    TLS_CERT = "QUEEN_KAFKA_TLS_CERT", None, Kind::Path, Security,
        "PEM certificate chain, the listener's own first. Both this and the key, or neither.";
    TLS_KEY = "QUEEN_KAFKA_TLS_KEY", None, Kind::Path, Security,
        "PEM private key (PKCS#8, PKCS#1 or SEC1). Read and parsed at boot: one that does not match the certificate refuses to start. Both files are looked at every ten seconds and on SIGHUP, and new ones serve new connections.";
    SASL = "QUEEN_KAFKA_SASL", None, Kind::Word(&["plain"]), Security,
        "The mechanism clients authenticate with: the password is a Queen bearer token, the username a label for the log. Unset authenticates nobody and reaches Queen with `QUEEN_TOKEN`.";
    FORWARD_SNI_HOST = "QUEEN_KAFKA_FORWARD_SNI_HOST", Some("false"), Kind::Switch, Security,
        "Forwards the TLS server name as the `Host` header of a connection's calls to Queen. Requires TLS.";
    REAUTH_MS = "QUEEN_KAFKA_REAUTH_MS", Some("0"), integer(0, 604_800_000), Security,
        "How long an authentication lasts when the token does not say (the `exp` of a JWT); 0 is for ever. Clients authenticate again before (KIP-368); the connection of one that does not closes.";
    TXN_STAGE = "QUEEN_KAFKA_TXN_STAGE", None, Kind::Word(&["memory", "queen"]), Transactions,
        "Where the records of an open transaction wait: in this process (`memory`, the default: 200 partitions and 62 offsets in one, lost with the process), or in a hidden queue (`queen`, the default in cluster mode, where `memory` refuses transactions: 10,000 of each, and another process can finish it).";
    TXN_MAX_BYTES = "QUEEN_KAFKA_TXN_MAX_BYTES", Some("8388608"), integer(64 << 10, 64 << 20), Transactions,
        "Staged record bytes one transaction may hold. Not above the process budget.";
    TXN_MAX_RECORDS = "QUEEN_KAFKA_TXN_MAX_RECORDS", Some("50000"), integer(1, 5_000_000), Transactions,
        "Staged records in one transaction.";
    TXN_MAX_STAGED_BYTES = "QUEEN_KAFKA_TXN_MAX_STAGED_BYTES", Some("134217728"), integer(1 << 20, 8 << 30), Transactions,
        "Staged bytes across every open transaction of this process.";
    TXN_MAX_OPEN = "QUEEN_KAFKA_TXN_MAX_OPEN", Some("1024"), integer(1, 1_000_000), Transactions,
        "Open transactions this process holds at once.";
    TXN_MAX_TIMEOUT_MS = "QUEEN_KAFKA_TXN_MAX_TIMEOUT_MS", Some("900000"), integer(1_000, 7_200_000), Transactions,
        "The ceiling on a producer's transaction timeout.";
    NODE_ID = "QUEEN_KAFKA_NODE_ID", None, integer(1, 64), Cluster,
        "The one switch of cluster mode: the id of this node. Unset is single mode, node id 0.";
    CLUSTER = "QUEEN_KAFKA_CLUSTER", Some("queen"), Kind::ClusterName, Cluster,
        "The cluster name: the prefix of its registry, and the cluster id that clients see. Only with a node id.";
    CLUSTER_HEARTBEAT_MS = "QUEEN_KAFKA_CLUSTER_HEARTBEAT_MS", Some("2000"), integer(500, 30_000), Cluster,
        "How often a node refreshes its registry row.";
    CLUSTER_TTL_MS = "QUEEN_KAFKA_CLUSTER_TTL_MS", Some("10000"), integer(3_000, 120_000), Cluster,
        "How long a node stays live after its last write. Never below three times the heartbeat.";
}

/// Variables of the same family that the broker reads, not the facade.
pub const BROKERS: &[&str] = &[
    "QUEEN_KAFKA_EMBEDDED",
    "QUEEN_KAFKA_BIN",
    "QUEEN_KAFKA_SHUTDOWN_GRACE_MS",
];

/// The names that begin like the facade's and are nobody's: misspelt, or of another product.
pub fn unknown<'a>(names: impl IntoIterator<Item = &'a str>) -> Vec<&'a str> {
    let known = |name: &str| ALL.iter().any(|v| v.name == name) || BROKERS.contains(&name);
    let ours = |name: &&str| name.starts_with("QUEEN_KAFKA_") && !known(name);
    names.into_iter().filter(ours).collect()
}
