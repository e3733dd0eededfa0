//! Which transactional ids this node coordinates: the seam for several nodes
//! (docs/decisions/cluster-transactions.md).

use std::fmt::Debug;

use coordinator::cluster::rendezvous::Item;

use crate::cluster::{self, Cluster};

/// Whether this node coordinates an id.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Standing {
    /// It does.
    Ours,
    /// Another node does.
    Theirs,
    /// This node cannot say now.
    Unknown,
    /// Nobody does: transactions are not served.
    Unserved,
}

/// Tells the ids of this node from those of others.
pub trait Ownership: Debug + Send + Sync + 'static {
    /// Who coordinates `transactional_id` now.
    fn standing(&self, transactional_id: &str) -> Standing;

    /// Whether other nodes stage, and write markers, beside this one: what is remembered of an id
    /// may be old then.
    fn is_shared(&self) -> bool;
}

/// The only node.
#[derive(Clone, Copy, Debug, Default)]
pub struct Alone;

impl Ownership for Alone {
    fn standing(&self, _transactional_id: &str) -> Standing {
        Standing::Ours
    }

    fn is_shared(&self) -> bool {
        false
    }
}

/// One of several nodes.
#[derive(Clone, Debug)]
pub struct InCluster(pub Cluster);

impl Ownership for InCluster {
    fn standing(&self, transactional_id: &str) -> Standing {
        if !self.0.serves_transactions() {
            return Standing::Unserved;
        }
        match self.0.ownership(Item::Transaction(transactional_id)) {
            cluster::Ownership::Ours => Standing::Ours,
            cluster::Ownership::Theirs => Standing::Theirs,
            cluster::Ownership::Unknown => Standing::Unknown,
        }
    }

    fn is_shared(&self) -> bool {
        true
    }
}
