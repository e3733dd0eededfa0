//! What names a group.

use std::sync::Arc;

use crate::queen::Scope;

/// Longest group id: the bound Queen puts on a queue's name.
pub const MAX_GROUP_ID_CHARS: usize = 255;

/// A group of a tenant.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct GroupName {
    /// The tenant.
    pub scope: Scope,
    /// The group id.
    pub id: Arc<str>,
}

/// Not a group id: empty, or longer than [`MAX_GROUP_ID_CHARS`].
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("a group id has 1 to 255 characters")]
pub struct InvalidGroupId;

impl GroupName {
    /// The name of group `id`.
    ///
    /// # Errors
    ///
    /// [`InvalidGroupId`].
    pub fn new(scope: &Scope, id: &str) -> Result<Self, InvalidGroupId> {
        if id.is_empty() || id.chars().nth(MAX_GROUP_ID_CHARS).is_some() {
            return Err(InvalidGroupId);
        }
        Ok(Self {
            scope: scope.clone(),
            id: id.into(),
        })
    }
}
