//! The raw client of the probes: frames over TCP, and nothing between the check and the bytes.

mod connection;
mod negotiate;

pub use connection::{Connection, Reply};
pub use negotiate::advertised;
