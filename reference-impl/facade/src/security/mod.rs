//! Who a connection is: SASL/PLAIN, whose password is a Queen bearer, and TLS files.
//!
//! The state of one connection is [`Authentication`], without any I/O; [`Identities`] asks Queen
//! about credentials. Handlers join the two. Seed heading "TLS and SASL".

mod authentication;
mod identities;
mod lifetime;
mod plain;
pub mod tls_files;

pub use authentication::{Authentication, PLAIN, Stage};
pub use identities::{Identities, Unproven};
pub use lifetime::expiry;
pub use plain::{Plain, PlainError};

pub use crate::handlers::sasl_authenticate::REFUSAL_DELAY;
