//! Integration tests of `kafka-wire`, one binary.

mod records;
mod wire;
