//! Roles, and what they reach. Pure.

use http::Method;
use serde::{Deserialize, Serialize};

use crate::http::target::Target;

/// What a token says its bearer is.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Role {
    /// Everything.
    Admin,
    /// Everything but administration.
    ReadWrite,
    /// Looks.
    ReadOnly,
    /// Pushes.
    WriteOnly,
}

/// What a route needs. A set of roles each, not a ladder.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Level {
    /// Nobody is asked.
    Public,
    /// Pushing.
    Write,
    /// Looking.
    Read,
    /// Both.
    ReadWrite,
    /// Deleting and switching.
    Admin,
}

impl Level {
    /// Whether `role` reaches it.
    pub const fn admits(self, role: Role) -> bool {
        match (self, role) {
            (Self::Public, _) | (_, Role::Admin) => true,
            (Self::Admin, _) => false,
            (_, Role::ReadWrite) => true,
            (Self::Write, Role::WriteOnly) | (Self::Read, Role::ReadOnly) => true,
            _ => false,
        }
    }

    /// What `target` needs.
    pub fn of(target: &Target) -> Self {
        match target {
            Target::Health | Target::AuthMe | Target::Console | Target::FakeFaults(_) => {
                Self::Public
            }
            Target::Push => Self::Write,
            Target::Status
            | Target::QueueList
            | Target::QueueDetail(_)
            | Target::QueueDepth(_)
            | Target::StatusQueues
            | Target::StatusQueue(_)
            | Target::Fetch
            | Target::FetchOffsets
            | Target::PartitionsChanged
            | Target::KvNamespaces
            | Target::KvList
            | Target::Groups
            | Target::GroupsLagging
            | Target::Group(_) => Self::Read,
            Target::DeadLetters(method) | Target::KvPath { method, .. }
                if *method == Method::GET =>
            {
                Self::Read
            }
            Target::DeadLetters(_)
            | Target::QueueDelete(_)
            | Target::GroupDelete(..)
            | Target::KvSwitch => Self::Admin,
            // Not listed is read-write, in the contract too.
            _ => Self::ReadWrite,
        }
    }
}

#[cfg(test)]
mod tests {
    use rstest::rstest;

    use super::*;

    #[rstest]
    #[case("POST", "/api/v1/push", "awW")]
    #[case("POST", "/api/v1/fetch", "awR")]
    #[case("GET", "/api/v1/resources/queues", "awR")]
    #[case("GET", "/api/v1/kv/ns/key", "awR")]
    #[case("PUT", "/api/v1/kv/ns/key", "aw")]
    #[case("POST", "/api/v1/kv", "aw")]
    #[case("POST", "/api/v1/transaction", "aw")]
    #[case("POST", "/api/v1/configure", "aw")]
    #[case("GET", "/api/v1/pop", "aw")]
    #[case("DELETE", "/api/v1/resources/queues/q", "a")]
    #[case("DELETE", "/api/v1/consumer-groups/g", "a")]
    #[case("GET", "/health", "awRW")]
    #[case("GET", "/auth/me", "awRW")]
    fn routes_need_roles(#[case] method: Method, #[case] path: &str, #[case] expected: &str) {
        let level = Level::of(&Target::of(&method, path));
        let roles = [
            ('a', Role::Admin),
            ('w', Role::ReadWrite),
            ('R', Role::ReadOnly),
            ('W', Role::WriteOnly),
        ];
        let admitted = roles.iter().filter(|(_, role)| level.admits(*role));
        assert_eq!(
            admitted.map(|(letter, _)| letter).collect::<String>(),
            expected
        );
    }
}
