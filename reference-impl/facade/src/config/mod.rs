//! Every setting of the facade, as typed values.
//!
//! A variable that Queen's own facade has keeps its name and default, so this one can replace it.

mod address;
mod features;
mod parse;
mod reference;
mod url;
pub mod variables;

use std::path::PathBuf;
use std::time::Duration;

use coordinator::cluster::NodeId;
use coordinator::consumer::MigrationPolicy;
use coordinator::fetch_session::Limits as FetchSessionLimits;
use host::Secret;
use host::tls::Identity;

pub use address::{AddressError, HostPort, is_tellable};
pub use features::{FeatureCaps, FeatureError};
pub use parse::{ConfigErrors, Problem, Variables};
pub use reference::reference;
pub use url::UrlError;

pub use crate::security::tls_files::TlsFiles;

/// Where Queen is.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum QueenUrl {
    /// A broker or a proxy over HTTP.
    Http {
        /// Whether it is `https`: it must prove its name to an authority that the system trusts.
        tls: bool,
        /// Host name or address, without brackets.
        host: String,
        /// TCP port.
        port: u16,
        /// What stands before the routes, without a trailing slash; often empty.
        base_path: String,
    },
    /// A Queen in this process; `None` keeps everything in memory.
    Embedded {
        /// Where it stores its data.
        dir: Option<PathBuf>,
    },
}

/// A number of partitions, 1 to 100,000.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct PartitionCount(pub(crate) i32);

impl PartitionCount {
    /// The widest topic a Kafka client can address here.
    pub const MAX: Self = Self(100_000);

    /// The number, as Kafka's wire types carry it.
    pub const fn get(self) -> i32 {
        self.0
    }
}

/// The bounds of the Kafka listener.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ListenerConfig {
    /// Connections served at once.
    pub max_connections: usize,
    /// Connections from one address; `None` is no bound of its own.
    pub max_connections_per_ip: Option<usize>,
    /// Connections that have not authenticated yet (on a listener that authenticates).
    pub max_unauthenticated: usize,
    /// How long a connection may take to authenticate.
    pub auth_timeout: Duration,
    /// How long a peer may take to read what is written to it.
    pub write_timeout: Duration,
    /// Bytes of requests and responses that all connections together hold.
    pub max_in_flight_bytes: usize,
}

/// Kafka's settings of the group coordinator.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct GroupConfig {
    /// `group.initial.rebalance.delay.ms`.
    pub initial_rebalance_delay: Duration,
    /// `group.min.session.timeout.ms`.
    pub min_session_timeout: Duration,
    /// `group.max.session.timeout.ms`.
    pub max_session_timeout: Duration,
    /// `group.consumer.session.timeout.ms`.
    pub consumer_session_timeout: Duration,
    /// `group.consumer.heartbeat.interval.ms`.
    pub consumer_heartbeat_interval: Duration,
    /// `group.consumer.migration.policy`.
    pub migration_policy: MigrationPolicy,
}

/// A node of several.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ClusterConfig {
    /// `QUEEN_KAFKA_NODE_ID`.
    pub id: NodeId,
    /// `QUEEN_KAFKA_CLUSTER_HEARTBEAT_MS`.
    pub heartbeat: Duration,
    /// `QUEEN_KAFKA_CLUSTER_TTL_MS`, at least three heartbeats.
    pub ttl: Duration,
}

/// How SASL is spoken.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Mechanism {
    /// PLAIN: the password is a Queen bearer.
    Plain,
}

impl Mechanism {
    /// As the variable and the boot line spell it.
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Plain => "plain",
        }
    }
}

/// TLS of the Kafka listener.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TlsConfig {
    /// What the listener proves to be.
    pub identity: Identity,
    /// Where it was read from, to be read again when it changes.
    pub files: Option<TlsFiles>,
}

/// Who may connect, and how.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct SecurityConfig {
    /// `QUEEN_KAFKA_TLS_CERT` and `QUEEN_KAFKA_TLS_KEY`; `None` is plaintext.
    pub tls: Option<TlsConfig>,
    /// `QUEEN_KAFKA_SASL`; `None` authenticates nobody.
    pub sasl: Option<Mechanism>,
    /// `QUEEN_KAFKA_FORWARD_SNI_HOST`.
    pub forward_sni_host: bool,
    /// `QUEEN_KAFKA_REAUTH_MS`; `None` is for ever.
    pub reauth: Option<Duration>,
}

/// Where an open transaction waits.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum TransactionStage {
    /// In this process.
    Memory,
    /// In a hidden queue.
    Queen,
}

/// The bounds of transactions.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TransactionConfig {
    /// Where they wait.
    pub stage: TransactionStage,
    /// Bytes of keys, values and headers of one.
    pub max_bytes: usize,
    /// Records of one.
    pub max_records: usize,
    /// Bytes of all that wait in this process.
    pub max_staged_bytes: usize,
    /// Open ones of this process.
    pub max_open: usize,
    /// `transaction.max.timeout.ms`.
    pub max_timeout: Duration,
}

/// What is logged, and how.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LogConfig {
    /// A filter in `EnvFilter` syntax.
    pub filter: String,
    /// JSON lines in place of text.
    pub json: bool,
}

/// Every setting, validated.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Config {
    /// `QUEEN_URL`.
    pub queen_url: QueenUrl,
    /// `QUEEN_TOKEN`.
    pub queen_token: Option<Secret<String>>,
    /// `QUEEN_KAFKA_ADDR`.
    pub listen: HostPort,
    /// `QUEEN_KAFKA_ADVERTISED_ADDR`; a port of 0 stands for the port that was bound, which tests
    /// need and the variable refuses.
    pub advertised: HostPort,
    /// `QUEEN_KAFKA_HTTP_ADDR`.
    pub http: Option<HostPort>,
    /// `QUEEN_KAFKA_DEFAULT_PARTITIONS`.
    pub default_partitions: PartitionCount,
    /// `QUEEN_KAFKA_TIMESTAMP_AFTER_MAX_MS`, at most `i64::MAX`.
    pub timestamp_after_max_ms: i64,
    /// `QUEEN_KAFKA_AUTO_CREATE`.
    pub auto_create: bool,
    /// `QUEEN_KAFKA_ADMIN`: `false` refuses topic and group deletion and config writes.
    pub admin: bool,
    /// `QUEEN_KAFKA_CLUSTER`: the cluster id that clients see, and the registry's name.
    pub cluster: String,
    /// Cluster mode; `None` is a single node.
    pub node: Option<ClusterConfig>,
    /// Listener bounds.
    pub listener: ListenerConfig,
    /// TLS and SASL.
    pub security: SecurityConfig,
    /// Group coordinator.
    pub groups: GroupConfig,
    /// How far finalized features go.
    pub features: FeatureCaps,
    /// Transactions.
    pub transactions: TransactionConfig,
    /// Fetch sessions; `QUEEN_KAFKA_FETCH_SESSION_SLOTS` of them.
    pub fetch_sessions: FetchSessionLimits,
    /// `QUEEN_KAFKA_DRAIN_MS`.
    pub drain: Duration,
    /// Logging.
    pub log: LogConfig,
}

impl Config {
    /// Every variable at its default, an embedded Queen in memory, and a listener on a free
    /// loopback port that advertises itself: what tests and the matrix start from.
    pub fn local() -> Self {
        let loopback = HostPort::new("127.0.0.1", 0);
        Self {
            queen_url: QueenUrl::Embedded { dir: None },
            queen_token: None,
            listen: loopback.clone(),
            advertised: loopback,
            http: None,
            default_partitions: PartitionCount(1024),
            timestamp_after_max_ms: 3_600_000,
            auto_create: true,
            admin: true,
            cluster: "queen".to_owned(),
            node: None,
            listener: ListenerConfig {
                max_connections: 4096,
                max_connections_per_ip: None,
                max_unauthenticated: 256,
                auth_timeout: Duration::from_secs(10),
                write_timeout: Duration::from_secs(30),
                max_in_flight_bytes: 512 * 1024 * 1024,
            },
            security: SecurityConfig::default(),
            groups: GroupConfig {
                initial_rebalance_delay: Duration::from_secs(3),
                min_session_timeout: Duration::from_secs(6),
                max_session_timeout: Duration::from_secs(300),
                consumer_session_timeout: Duration::from_secs(45),
                consumer_heartbeat_interval: Duration::from_secs(5),
                migration_policy: MigrationPolicy::Bidirectional,
            },
            features: FeatureCaps::default(),
            transactions: TransactionConfig {
                stage: TransactionStage::Memory,
                max_bytes: 8 << 20,
                max_records: 50_000,
                max_staged_bytes: 128 << 20,
                max_open: 1024,
                max_timeout: Duration::from_secs(15 * 60),
            },
            fetch_sessions: FetchSessionLimits::default(),
            drain: Duration::from_secs(2),
            log: LogConfig {
                filter: "info".to_owned(),
                json: false,
            },
        }
    }
}
