//! Kafka frames, the annotated schema, bounded walk, splice, record batches, error codes.
//!
//! The crate knows Kafka's wire and nothing else: no sockets, no clocks, no typed messages. Every
//! door reads untrusted bytes through it, in this order:
//!
//! 1. [`frame`] checks a size prefix before anything is allocated for it.
//! 2. [`header`] reads key, version, correlation id and client id.

pub mod api;
mod cursor;
pub mod error_code;
pub mod frame;
pub mod header;
pub mod names;
pub mod records;
pub mod schema;
pub mod splice;
pub mod walk;

pub use api::{ApiKey, VersionRange, Windows};
pub use error_code::ErrorCode;
