//! What a walk says when it refuses: which message, which byte, which field, what is wrong.

use std::fmt;

use super::MAX_DEPTH;
use crate::api::ApiKey;
use crate::cursor::Malformed;
use crate::schema::Message;

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
    #[error("{} v{version}, byte {at}{trail}: {what}", message.name)]
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

/// The names of the fields around a fault, outermost first: ` in Topics.Partitions.Records`.
#[derive(Clone, Copy, Default, PartialEq, Eq)]
pub struct Trail {
    /// Innermost first, as unwinding meets them.
    names: [&'static str; MAX_DEPTH],
    length: usize,
}

impl Trail {
    /// Notes the field around those noted so far.
    #[cold]
    pub(crate) fn push(&mut self, name: &'static str) {
        if let Some(slot) = self.names.get_mut(self.length) {
            *slot = name;
            self.length += 1;
        }
    }

    /// The names, outermost first.
    pub fn names(&self) -> impl Iterator<Item = &'static str> {
        self.names[..self.length].iter().rev().copied()
    }
}

impl fmt::Display for Trail {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut before = " in ";
        for name in self.names() {
            write!(f, "{before}{name}")?;
            before = ".";
        }
        Ok(())
    }
}

impl fmt::Debug for Trail {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_list().entries(self.names()).finish()
    }
}
