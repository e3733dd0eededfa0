//! What a cluster has paid for. Plain data.

use std::collections::BTreeSet;

use serde::Deserialize;

use super::class::Feature;

/// A cluster's limits. [`Plan::default`] has no feature and no limit but the number of items.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct Plan {
    /// What it includes.
    pub features: BTreeSet<Feature>,
    /// Requests per second.
    pub requests: Option<Rate>,
    /// Pushed items per second.
    pub messages: Option<Rate>,
    /// Largest pushed item, in bytes of its payload's JSON.
    pub max_payload_bytes: Option<usize>,
    /// Items of one push or transaction.
    pub max_batch_items: usize,
    /// Queues.
    pub max_queues: Option<usize>,
    /// Partitions of one queue.
    pub max_partitions_per_queue: Option<usize>,
    /// Longest retention that may be configured.
    pub max_retention_seconds: Option<u64>,
    /// Pops that may wait at once.
    pub max_parked: Option<usize>,
}

/// Tokens per second, and how many may be taken at once.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Rate {
    /// Per second.
    pub per_second: u32,
    /// At once.
    pub burst: u32,
}

impl Plan {
    /// Whether it bounds what the names of queues and partitions are kept for.
    pub const fn counts_names(&self) -> bool {
        self.max_queues.is_some() || self.max_partitions_per_queue.is_some()
    }
}

impl Default for Plan {
    fn default() -> Self {
        Self {
            features: BTreeSet::new(),
            requests: None,
            messages: None,
            max_payload_bytes: None,
            max_batch_items: 10_000,
            max_queues: None,
            max_partitions_per_queue: None,
            max_retention_seconds: None,
            max_parked: None,
        }
    }
}
