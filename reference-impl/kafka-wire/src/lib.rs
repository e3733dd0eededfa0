//! Kafka frames, the annotated schema, bounded walk, splice, record batches, error codes.
//!
//! The crate knows Kafka's wire and nothing else: no sockets, no clocks, no typed messages. Every
//! door reads untrusted bytes through it, in this order:
//!
//! 1. [`frame`] checks a size prefix before anything is allocated for it.
//! 2. [`header`] reads key, version, correlation id and client id. [`Windows`] says whether the
//!    version is served; the same constant fills the ApiVersions answer.
//! 3. [`walk`] proves that the body is what the schema says, without allocating. Nothing else may
//!    see the body before: the typed crate reserves memory from lengths on the wire.
//! 4. [`names`] lists what the request speaks of, for policy and audit; [`splice`] rewrites fields
//!    by role and forwards the rest as it came; a handler decodes the typed message.
//!
//! [`schema`] is the one table behind 2 to 4. It is generated (`ci/schema/generate`); each field
//! has a [`schema::Role`]. [`records`] is the record batch codec, which `walk` and `splice` never
//! need: record bytes are skipped.
//!
//! ```
//! use bytes::Bytes;
//! use kafka_wire::header::RequestHeader;
//! use kafka_wire::names::{self, Text};
//! use kafka_wire::schema::{Role, RoleSet};
//! use kafka_wire::splice::{self, Edit, Editor};
//! use kafka_wire::walk::{self, Datum, Limits, Place, Value};
//! # fn main() -> Result<(), Box<dyn std::error::Error>> {
//! // Metadata v1 for the topic "t", from client "c".
//! let frame = Bytes::from_static(&[0, 3, 0, 1, 0, 0, 0, 7, 0, 1, b'c', 0, 0, 0, 1, 0, 1, b't']);
//! let header = RequestHeader::parse(frame)?;
//! let (key, version, limits) = (header.api_key, header.api_version, Limits::DEFAULT);
//! walk::request(key, version, &header.body, &limits)?;
//!
//! let mut topics = Vec::new();
//! names::request(key, version, &header.body, &limits, |name| {
//!     if let Text::Name(text) = name.text {
//!         topics.push(text.to_owned());
//!     }
//! })?;
//! assert_eq!(topics, ["t"]);
//!
//! struct Tenant(&'static str);
//!
//! impl Editor for Tenant {
//!     type Refusal = std::convert::Infallible;
//!
//!     fn roles(&self) -> RoleSet {
//!         RoleSet::of(&[Role::Topic])
//!     }
//!
//!     fn edit<'e>(
//!         &'e mut self,
//!         _: &'e Place<'_>,
//!         value: &'e Value<'_>,
//!     ) -> Result<Edit<'e>, Self::Refusal> {
//!         Ok(match value.datum {
//!             Datum::Text(name) => Edit::Joined(self.0, name),
//!             _ => Edit::Keep,
//!         })
//!     }
//! }
//!
//! let spliced = splice::request(key, version, &header.body, &limits, &mut Tenant("a."))?;
//! assert_eq!(&spliced.to_bytes()[..], [0, 0, 0, 1, 0, 3, b'a', b'.', b't']);
//! # Ok(())
//! # }
//! ```

pub mod api;
mod cursor;
pub mod error_code;
pub mod frame;
#[doc(hidden)]
pub mod fuzz;
pub mod header;
pub mod names;
pub mod records;
pub mod schema;
pub mod splice;
pub mod walk;

pub use api::{ApiKey, VersionRange, Windows};
pub use error_code::ErrorCode;
