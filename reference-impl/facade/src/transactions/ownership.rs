//! Which transactional ids this node coordinates: the seam for several nodes.
//!
//! A cluster will answer by rendezvous hash (domain 3 of docs/queen-contract.md, section 9.5) and only
//! while its view is fresh. Two things must come with it: an id that this node owned before, and owns
//! again, is read anew (what it remembers is older than the marker), and a node that a partition leads
//! to stages a batch for the id's owner, its number taken from the marker at that moment. Until then
//! transactions are refused in cluster mode, as the known facade does.

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
