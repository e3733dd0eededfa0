//! The names a group goes by: members, static instances, generations, parked calls.

use std::fmt;
use std::sync::Arc;

use uuid::Uuid;

/// Longest client id kept in front of a member id. The wire's strings end at 32,767 bytes and every
/// roster repeats every member id, so a client must not choose its length freely.
pub const MEMBER_ID_PREFIX_BYTES: usize = 255;

/// A member id. Empty on the wire means "give me one" ([`MemberId::is_unknown`]).
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct MemberId(Arc<str>);

impl MemberId {
    /// The id as it came over the wire.
    pub fn new(id: &str) -> Self {
        Self(id.into())
    }

    /// The id of a member that has none yet.
    pub fn unknown() -> Self {
        Self::new("")
    }

    /// Kafka's form, `prefix-uuid`: the prefix is the client id, or the instance id of a static
    /// member. `random` comes from `host::Entropy::uuid_v4`.
    pub fn mint(prefix: &str, random: [u8; 16]) -> Self {
        let mut end = prefix.len().min(MEMBER_ID_PREFIX_BYTES);
        while !prefix.is_char_boundary(end) {
            end -= 1;
        }
        let prefix = &prefix[..end];
        Self(format!("{prefix}-{}", Uuid::from_bytes(random)).into())
    }

    /// Whether the client has no id yet.
    pub fn is_unknown(&self) -> bool {
        self.0.is_empty()
    }

    /// The text.
    pub fn as_str(&self) -> &str {
        &self.0
    }
}

impl fmt::Debug for MemberId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Debug::fmt(self.as_str(), f)
    }
}

impl fmt::Display for MemberId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.as_str())
    }
}

/// `group.instance.id` of a static member (KIP-345).
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct InstanceId(Arc<str>);

impl InstanceId {
    /// The id as it came over the wire.
    pub fn new(id: &str) -> Self {
        Self(id.into())
    }

    /// The text.
    pub fn as_str(&self) -> &str {
        &self.0
    }
}

impl fmt::Debug for InstanceId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Debug::fmt(self.as_str(), f)
    }
}

impl fmt::Display for InstanceId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.as_str())
    }
}

/// The number of a generation. 0 before the first; negative from a client that is in no generation.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct GenerationId(pub i32);

impl GenerationId {
    /// What a client sends, and an error answers, outside any generation.
    pub const NONE: Self = Self(-1);

    /// The generation after this one. The last one is followed by 1: 0 and below mean "none yet".
    pub(super) const fn next(self) -> Self {
        match self.0.checked_add(1) {
            Some(next) => Self(next),
            None => Self(1),
        }
    }
}

impl fmt::Display for GenerationId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(&self.0, f)
    }
}

/// Names a call the caller waits on. Never used twice for one group: every token is answered once,
/// or abandoned by the caller.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct CallToken(pub u64);

/// A member's place in the order of joining. Survives the replacement of a static member.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(super) struct Seat(pub(super) u64);

#[cfg(test)]
mod tests {
    use super::{GenerationId, MEMBER_ID_PREFIX_BYTES, MemberId};

    #[test]
    fn a_minted_id_is_the_client_id_a_dash_and_a_uuid() {
        let id = MemberId::mint("rdkafka", [0xab; 16]);
        assert_eq!(id.as_str(), "rdkafka-abababab-abab-abab-abab-abababababab");
    }

    #[test]
    fn a_long_client_id_is_cut_between_characters() {
        let id = MemberId::mint(&"é".repeat(4000), [0; 16]);
        assert_eq!(id.as_str().len(), MEMBER_ID_PREFIX_BYTES - 1 + 1 + 36);
    }

    #[test]
    fn the_generation_after_the_last_is_one() {
        assert_eq!(GenerationId(i32::MAX).next(), GenerationId(1));
        assert_eq!(GenerationId(0).next(), GenerationId(1));
    }
}
