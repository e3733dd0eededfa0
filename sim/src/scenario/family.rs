//! The families that scenarios belong to.

use std::fmt;

use serde::{Deserialize, Serialize};

/// A family of scenarios.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Family {
    /// Consumer groups change while things go wrong.
    Rebalance,
    /// Machines, links and calls fail under readers and writers.
    Failover,
    /// Clients that mean no good, beside honest ones.
    Hostile,
    /// Transactions and their fences.
    Transaction,
    /// Quotas, and clients that are told to wait.
    QuotaThrottle,
    /// Credentials that end while they are used.
    Revocation,
    /// Faults planted to see that they are caught.
    Planted,
}

impl Family {
    /// All of them.
    pub const ALL: [Self; 7] = [
        Self::Rebalance,
        Self::Failover,
        Self::Hostile,
        Self::Transaction,
        Self::QuotaThrottle,
        Self::Revocation,
        Self::Planted,
    ];

    /// Its name.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Rebalance => "rebalance",
            Self::Failover => "failover",
            Self::Hostile => "hostile",
            Self::Transaction => "transaction",
            Self::QuotaThrottle => "quota-throttle",
            Self::Revocation => "revocation",
            Self::Planted => "planted",
        }
    }

    /// The family called `name`.
    pub fn named(name: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|family| family.name() == name)
    }

    /// Why it holds no scenario, where it holds none.
    pub const fn why_empty(self) -> Option<&'static str> {
        match self {
            Self::Rebalance
            | Self::Failover
            | Self::Hostile
            | Self::Transaction
            | Self::QuotaThrottle
            | Self::Revocation
            | Self::Planted => None,
        }
    }
}

impl fmt::Display for Family {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(self.name())
    }
}
