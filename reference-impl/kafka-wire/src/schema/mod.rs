//! The annotated schema: for every API key, request and response, every version Kafka 4.4 defines,
//! the layout of the fields and the role of each field that means something to a door. Constants
//! only. `walk`, `splice` and `names` interpret it; [`crate::header`] takes flexible versions from
//! it.
//!
//! The table under `generated/` is written by `ci/schema/generate` out of Kafka's own message
//! definitions (`entityType`) and `ci/schema/overlay.toml`. To add a role: add a variant to
//! [`Role`], name it in the overlay for the fields that carry it, say in `generate.py`
//! (`ROLE_TYPES`) which types it may stand on when that is not a string, run `ci/schema/generate`.

mod generated;
mod role;

use crate::api::{ApiKey, VersionRange};

pub use role::{Role, RoleSet};

/// The layout of one message (a request, a response or an embedded blob) in all its versions.
#[derive(Debug)]
pub struct Message {
    /// Kafka's name, such as `ProduceRequest`.
    pub name: &'static str,
    /// Versions the definition gives.
    pub versions: VersionRange,
    /// Versions with compact lengths and tagged fields (KIP-482).
    pub flexible: VersionRange,
    /// Fields in the order of the wire. Which are there depends on the version.
    pub fields: &'static [Field],
}

/// The layout of a structure inside a message.
#[derive(Debug)]
pub struct Struct {
    /// Kafka's name, such as `TopicProduceData`.
    pub name: &'static str,
    /// Fields in the order of the wire.
    pub fields: &'static [Field],
}

/// One field.
#[derive(Debug)]
pub struct Field {
    /// Kafka's name, such as `TransactionalId`.
    pub name: &'static str,
    /// Versions that have the field.
    pub versions: VersionRange,
    /// Versions in which it may be null.
    pub nullable: VersionRange,
    /// Its tag, and the versions in which it is a tagged field.
    pub tag: Option<(u32, VersionRange)>,
    /// The type of the field, or of the elements of its array.
    pub kind: Kind,
    /// Whether it is an array of `kind`.
    pub array: bool,
    /// Bytes of the field when they are the same in every message and it stands in line in every
    /// version that has it; else 0. The walk steps over runs of such fields at once.
    pub(crate) width: u8,
    /// What it means to a door.
    pub role: Role,
    /// The field beside it, or in a structure around it, that decides what kind of name it is.
    pub decided_by: Option<&'static str>,
}

/// The type of a field.
#[derive(Clone, Copy, Debug)]
pub enum Kind {
    /// One byte.
    Bool,
    /// One byte.
    Int8,
    /// Two bytes.
    Int16,
    /// Two bytes.
    Uint16,
    /// Four bytes.
    Int32,
    /// Four bytes.
    Uint32,
    /// Eight bytes.
    Int64,
    /// Eight bytes.
    Float64,
    /// Sixteen bytes.
    Uuid,
    /// A length (two bytes, or compact) and UTF-8.
    String,
    /// A length (four bytes, or compact) and bytes.
    Bytes,
    /// As [`Kind::Bytes`]; holds record batches.
    Records,
    /// A structure.
    Struct(&'static Struct),
}

impl Kind {
    /// Bytes of a value, for the types that have always the same.
    #[inline]
    pub const fn fixed_bytes(self) -> Option<usize> {
        match self {
            Kind::Bool | Kind::Int8 => Some(1),
            Kind::Int16 | Kind::Uint16 => Some(2),
            Kind::Int32 | Kind::Uint32 => Some(4),
            Kind::Int64 | Kind::Float64 => Some(8),
            Kind::Uuid => Some(16),
            Kind::String | Kind::Bytes | Kind::Records | Kind::Struct(_) => None,
        }
    }
}

impl Field {
    /// The tag of the field in `version`; `None` when it stands in line there.
    #[inline]
    pub fn tag_in(&self, version: i16) -> Option<u32> {
        match self.tag {
            Some((tag, versions)) if versions.contains(version) => Some(tag),
            _ => None,
        }
    }
}

/// The request of `key`; `None` for keys that Kafka 4.4 does not define.
pub fn request(key: ApiKey) -> Option<&'static Message> {
    *generated::REQUESTS.get(key.index()?)?
}

/// The response of `key`; `None` for keys that Kafka 4.4 does not define.
pub fn response(key: ApiKey) -> Option<&'static Message> {
    *generated::RESPONSES.get(key.index()?)?
}

/// What a consumer tells its group's leader: the metadata of a JoinGroup protocol, behind its
/// two-byte version.
pub static CONSUMER_PROTOCOL_SUBSCRIPTION: &Message = &generated::consumer_protocol::SUBSCRIPTION;

/// What the leader hands to a member: the assignment of SyncGroup, behind its two-byte version.
pub static CONSUMER_PROTOCOL_ASSIGNMENT: &Message = &generated::consumer_protocol::ASSIGNMENT;

/// What the generated files are written with.
mod build {
    pub(super) use super::Kind::*;
    pub(super) use super::{Field, Kind, Message, Role};
    // Beside `Kind::Struct`, which is a function: another namespace.
    pub(super) use super::Struct;
    use crate::api::VersionRange;

    pub(super) const NONE: VersionRange = VersionRange::NONE;

    pub(super) const fn from(min: i16) -> VersionRange {
        VersionRange::from(min)
    }

    pub(super) const fn to(min: i16, max: i16) -> VersionRange {
        VersionRange::new(min, max)
    }

    pub(super) const fn field(name: &'static str, versions: VersionRange, kind: Kind) -> Field {
        Field {
            name,
            versions,
            nullable: NONE,
            tag: None,
            kind,
            array: false,
            width: match kind.fixed_bytes() {
                // At most sixteen.
                Some(width) => width as u8,
                None => 0,
            },
            role: Role::Plain,
            decided_by: None,
        }
    }

    impl Field {
        pub(super) const fn array(mut self) -> Field {
            self.array = true;
            self.width = 0;
            self
        }

        pub(super) const fn nullable(mut self, versions: VersionRange) -> Field {
            self.nullable = versions;
            self
        }

        pub(super) const fn tagged(mut self, tag: u32, versions: VersionRange) -> Field {
            self.tag = Some((tag, versions));
            self.width = 0;
            self
        }

        pub(super) const fn role(mut self, role: Role) -> Field {
            self.role = role;
            self
        }

        pub(super) const fn decided_by(mut self, sibling: &'static str) -> Field {
            self.decided_by = Some(sibling);
            self
        }
    }
}
