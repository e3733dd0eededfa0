//! The raw client of the probes: frames over TCP, and nothing between the check and the bytes.

pub mod codec;
mod connection;
mod negotiate;
pub mod opinion;

pub use connection::{
    ANSWER_WITHIN, Connection, MAX_ANSWER_BYTES, ReadToEnd, Reader, Reply, Writer,
};
pub use negotiate::advertised;
