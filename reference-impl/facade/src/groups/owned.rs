//! Which groups this node may answer for.

use coordinator::cluster::rendezvous::Item;
use kafka_wire::ErrorCode;

use super::name::{GroupName, InvalidGroupId};
use crate::cluster::{Cluster, Ownership};
use crate::queen::Scope;

/// Why a request about a group is refused before any state is touched.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Refused {
    /// The id is none.
    #[error(transparent)]
    Invalid(#[from] InvalidGroupId),
    /// Another node of the cluster owns it; clients look the coordinator up again.
    #[error("This is not the correct coordinator.")]
    NotCoordinator,
    /// This node cannot say who owns it: clients try again.
    #[error("The coordinator is not available.")]
    NotAvailable,
}

impl Refused {
    /// The code of every answer about the group.
    pub const fn error_code(&self) -> ErrorCode {
        match self {
            Self::Invalid(_) => ErrorCode::InvalidGroupId,
            Self::NotCoordinator => ErrorCode::NotCoordinator,
            Self::NotAvailable => ErrorCode::CoordinatorNotAvailable,
        }
    }
}

/// The group `id` of `scope`, if this node coordinates it. Alone, a node coordinates all.
///
/// # Errors
///
/// [`Refused`].
pub fn owned(cluster: Option<&Cluster>, scope: &Scope, id: &str) -> Result<GroupName, Refused> {
    let name = GroupName::new(scope, id)?;
    match cluster.map_or(Ownership::Ours, |it| it.ownership(Item::Group(id))) {
        Ownership::Ours => Ok(name),
        Ownership::Theirs => Err(Refused::NotCoordinator),
        Ownership::Unknown => Err(Refused::NotAvailable),
    }
}
