//! What a walk says when it refuses: which message, which byte, which field, what is wrong.

use std::fmt;

use super::MAX_DEPTH;
use crate::api::ApiKey;
use crate::cursor::Malformed;
use crate::schema::{Kind, Message};

/// Why a body is refused.
#[derive(Clone, Debug, thiserror::Error)]
pub enum WalkError {
    /// Kafka 4.4 defines no such API.
    #[error("{key:?} is not an API of Kafka 4.4")]
    UnknownApi {
        /// The key.
        key: ApiKey,
    },
    /// Kafka 4.4 does not define this version.
    #[error("{} has no version {version}: {}", message.name, message.versions)]
    UnknownVersion {
        /// The message.
        message: &'static Message,
        /// The version asked for.
        version: i16,
    },
    /// The bytes are not the message.
    #[error("{} v{version}, byte {at}{}: {what}", message.name, In(message, *trail))]
    Malformed {
        /// The message.
        message: &'static Message,
        /// Its version.
        version: i16,
        /// Offset of the fault in the body.
        at: usize,
        /// The field it is in.
        trail: Trail,
        /// The fault.
        what: Malformed,
    },
}

impl WalkError {
    #[cold]
    pub(crate) fn blob_version(message: &'static Message, at: usize, what: Malformed) -> Self {
        WalkError::Malformed {
            message,
            version: 0,
            at,
            trail: Trail::default(),
            what,
        }
    }

    /// The names of the fields a fault is in, outermost first; empty for a fault in none.
    pub fn fields(&self) -> impl Iterator<Item = &'static str> {
        let inside = match self {
            WalkError::Malformed { message, trail, .. } => Some(trail.names(message)),
            _ => None,
        };
        inside.into_iter().flatten()
    }

    /// What is wrong with the bytes; `None` for an unknown API or version.
    pub fn malformed(&self) -> Option<Malformed> {
        match self {
            WalkError::Malformed { what, .. } => Some(*what),
            _ => None,
        }
    }
}

impl PartialEq for WalkError {
    fn eq(&self, other: &Self) -> bool {
        match (self, other) {
            (Self::UnknownApi { key: a }, Self::UnknownApi { key: b }) => a == b,
            (
                Self::UnknownVersion {
                    message: a,
                    version: va,
                },
                Self::UnknownVersion {
                    message: b,
                    version: vb,
                },
            ) => a.name == b.name && va == vb,
            (
                Self::Malformed {
                    message: a,
                    version: va,
                    at: xa,
                    what: wa,
                    ..
                },
                Self::Malformed {
                    message: b,
                    version: vb,
                    at: xb,
                    what: wb,
                    ..
                },
            ) => a.name == b.name && va == vb && xa == xb && wa == wb,
            _ => false,
        }
    }
}

impl Eq for WalkError {}

/// Which field a fault is in: positions in the schema, so that an error stays small.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Trail {
    /// Innermost first, as unwinding meets them.
    positions: [u8; MAX_DEPTH],
    length: u8,
}

impl Trail {
    /// Notes the position of the field around those noted so far, in its structure.
    #[cold]
    pub(crate) fn push(&mut self, position: usize) {
        if let Some(slot) = self.positions.get_mut(usize::from(self.length)) {
            // No structure of Kafka has more than a few dozen fields.
            *slot = position as u8;
            self.length += 1;
        }
    }

    /// The names of the fields, outermost first.
    fn names(self, message: &'static Message) -> impl Iterator<Item = &'static str> {
        let positions = (0..self.length)
            .rev()
            .map(move |at| self.positions[usize::from(at)]);
        positions.scan(message.fields, |fields, position| {
            let field = fields.get(usize::from(position))?;
            if let Kind::Struct(nested) = field.kind {
                *fields = nested.fields;
            }
            Some(field.name)
        })
    }
}

/// ` in Topics.Partitions.Records`, or nothing.
struct In(&'static Message, Trail);

impl fmt::Display for In {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut before = " in ";
        for name in self.1.names(self.0) {
            write!(f, "{before}{name}")?;
            before = ".";
        }
        Ok(())
    }
}
