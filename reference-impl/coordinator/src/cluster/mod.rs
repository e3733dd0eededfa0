//! Several facades as one cluster: who is alive, and who owns what.
//!
//! [`rendezvous`] names the owner of a group, a partition or a transactional id among the live
//! nodes; [`Membership`] keeps this node's row in the registry and knows how old its view is. Both
//! are decided by the registry of Queen's own facade, so that nodes of both can stand in one.

mod membership;
pub mod rendezvous;
#[cfg(test)]
mod tests;

pub use membership::{
    Answer, Call, Claimed, DuplicateNode, Lost, Membership, NodeId, Row, Settings, Standing, Write,
};
