//! What can be chosen when a Queen is made: its version, its limits, its storage. Plain data.

use std::fmt;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use crate::auth::Key;
use crate::faults::Faults;
use crate::store::Backend;

/// The release whose behaviour is shown (contract section 11).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub enum Version {
    /// Before the facade shipped: no `offset` in push answers, unknown lanes are an error.
    V1_3,
    /// 1.4: `offset` in push answers, empty log for lanes never pushed to.
    V1_4,
    /// 1.5: adds `partitions/changed`.
    V1_5,
    /// 1.6: `configure` merges, queue detail shows its options, console reads of the KV store.
    #[default]
    V1_6,
}

impl Version {
    /// As `GET /health` prints it.
    pub const fn text(self) -> &'static str {
        match self {
            Self::V1_3 => "1.3.0",
            Self::V1_4 => "1.4.2",
            Self::V1_5 => "1.5.3",
            Self::V1_6 => "1.6.0",
        }
    }
}

/// Rates of KV calls per tenant (contract section 7.6). One token per call.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct KvRates {
    /// Read calls per second.
    pub reads_per_second: u32,
    /// Read calls that may come at once.
    pub read_burst: u32,
    /// Write calls per second; a call with any write is one.
    pub writes_per_second: u32,
    /// Write calls that may come at once.
    pub write_burst: u32,
    /// Calls per second of all tenants together.
    pub cell_per_second: u32,
}

impl Default for KvRates {
    /// The defaults of a self-hosted broker.
    fn default() -> Self {
        Self {
            reads_per_second: 200,
            read_burst: 400,
            writes_per_second: 100,
            write_burst: 200,
            cell_per_second: 2000,
        }
    }
}

/// Where acknowledged data lives.
#[derive(Debug, Default)]
pub enum Storage {
    /// In this process; gone when it ends.
    #[default]
    Memory,
    /// In one database file of a directory, which is made when it is absent.
    Directory(PathBuf),
    /// In the engine over file access of the caller's making: the simulation loses unsynced
    /// writes here.
    Backend(Box<dyn Backend>),
}

/// Tells how the facade is that this Queen's process embeds, as `GET /status` shows it.
#[derive(Clone)]
pub struct KafkaStatus(pub Arc<dyn Fn() -> serde_json::Value + Send + Sync>);

impl fmt::Debug for KafkaStatus {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("KafkaStatus")
    }
}

/// Everything that can be chosen. [`Options::default`] is a self-hosted 1.6 in memory.
#[derive(Debug)]
pub struct Options {
    /// Which release is imitated.
    pub version: Version,
    /// Where acknowledged data lives.
    pub storage: Storage,
    /// KV rate limits; `None` for none.
    pub kv_rates: Option<KvRates>,
    /// Tenants need a grant to write KV rows (`QUEEN_KV_REQUIRE_GRANT`).
    pub kv_require_grant: bool,
    /// `x-queen-tenant` is read (`QUEEN_TENANCY_HEADER`).
    pub tenancy_header: bool,
    /// `POST fetch/offsets` exists, as on the 2.x line. Without it the path is 404, as in 1.x.
    pub fetch_offsets: bool,
    /// Calls need a token signed with this (`JWT_ENABLED`, `JWT_SECRET`); `None` asks nobody.
    pub jwt: Option<Key>,
    /// Largest request body (`QUEEN_MAX_BODY_BYTES`).
    pub max_body_bytes: usize,
    /// Request bodies held at once; a request waits until its body fits.
    pub max_inflight_body_bytes: usize,
    /// How often retention runs (`RETENTION_INTERVAL`).
    pub retention_interval: Duration,
    /// How long an empty lane may be idle before it is removed (`PARTITION_CLEANUP_DAYS`).
    pub lane_cleanup_after: Duration,
    /// Compressed bytes of recent segments that a durable store keeps in memory.
    pub segment_cache_bytes: usize,
    /// Page cache of the storage engine.
    pub store_cache_bytes: usize,
    /// `GET /status` has a `kafka` block.
    pub kafka_status: Option<KafkaStatus>,
    /// `POST /fake/faults` is served.
    pub faults_route: bool,
    /// The rules in force. A clone kept by the caller outlives this Queen, and its counts with it.
    pub faults: Faults,
}

impl Default for Options {
    fn default() -> Self {
        Self {
            version: Version::default(),
            storage: Storage::default(),
            kv_rates: Some(KvRates::default()),
            kv_require_grant: false,
            tenancy_header: false,
            fetch_offsets: false,
            jwt: None,
            max_body_bytes: 64 << 20,
            max_inflight_body_bytes: 256 << 20,
            retention_interval: Duration::from_secs(5),
            lane_cleanup_after: Duration::from_secs(30 * 24 * 3600),
            segment_cache_bytes: 16 << 20,
            store_cache_bytes: 8 << 20,
            kafka_status: None,
            faults_route: false,
            faults: Faults::default(),
        }
    }
}
