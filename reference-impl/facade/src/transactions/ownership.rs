//! Which transactional ids this node coordinates: the seam for several nodes.
//!
//! A cluster serves no transactions: a view that is fresh names the owner of an id, and what clients
//! send to other nodes still has no home (docs/decisions/cluster-transactions.md).

use std::fmt::Debug;

/// Whether this node coordinates an id.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Standing {
    /// It does.
    Ours,
    /// Another node does, or nobody can say now.
    Theirs,
    /// Nobody does: transactions are not served.
    Unserved,
}

/// Tells the ids of this node from those of others.
pub trait Ownership: Debug + Send + Sync + 'static {
    /// Who coordinates `transactional_id` now.
    fn standing(&self, transactional_id: &str) -> Standing;
}

/// The only node.
#[derive(Clone, Copy, Debug, Default)]
pub struct Alone;

impl Ownership for Alone {
    fn standing(&self, _transactional_id: &str) -> Standing {
        Standing::Ours
    }
}

/// One of several nodes.
#[derive(Clone, Copy, Debug, Default)]
pub struct InCluster;

impl Ownership for InCluster {
    fn standing(&self, _transactional_id: &str) -> Standing {
        Standing::Unserved
    }
}
