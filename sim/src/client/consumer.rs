//! A consumer.

pub mod assignor;
