//! Messages as JSON: written from it, read into it, compared with it, all by the annotated schema.
//!
//! Names are Kafka's own, as its message definitions spell them (`ThrottleTimeMs`). A probe writes
//! one JSON object for all versions of an API: a name that a version lacks is left out there, and a
//! name that no version has is an error, so a spelling mistake cannot pass unseen.

mod decode;
mod encode;
mod expect;
mod value;

#[cfg(test)]
mod tests;

pub use decode::{DecodeError, decode};
pub use encode::{EncodeError, Encoded, Mark, encode, encode_with_tag};
pub use expect::compare;
pub(crate) use value::code_name;
pub use value::{Value, decode_uuid, encode_uuid};
