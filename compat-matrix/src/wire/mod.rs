//! The raw client of the probes: frames over TCP or TLS, and nothing between the check
//! and the bytes.

mod access;
mod authenticate;
pub mod codec;
mod connection;
mod negotiate;
pub mod opinion;
pub(crate) mod tcp;

pub use access::{Access, Credentials, Security, Trust, TrustError};
pub use authenticate::{AuthenticateError, handshake_frame, plain_frame};
pub use connection::{
    ANSWER_WITHIN, Connection, MAX_ANSWER_BYTES, ReadToEnd, Reader, Reply, Writer,
};
pub use negotiate::advertised;
