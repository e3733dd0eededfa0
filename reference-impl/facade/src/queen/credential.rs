//! Who a call to Queen is made as.

use std::sync::Arc;

use host::Secret;

/// What authenticates and routes one connection's calls to Queen.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Credential {
    /// The bearer token of the `Authorization` header; `None` sends none.
    pub bearer: Option<Secret<String>>,
    /// The `Host` header in place of the one of `QUEEN_URL` (TLS server name forwarding).
    pub host: Option<String>,
}

/// The key under which tenant state (topic lists, groups, offsets) is kept: credentials of one
/// tenant share one scope.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Scope(Arc<str>);

impl Scope {
    /// The scope named `name`.
    pub fn new(name: &str) -> Self {
        Self(name.into())
    }

    /// The name.
    pub fn as_str(&self) -> &str {
        &self.0
    }
}
