//! The Queen over HTTP, through the same pipe that embeds it, on a clock of the tests' own.

#![expect(clippy::unwrap_used, reason = "a test fails by panicking")]

mod abuse;
mod client;
mod conformance;
mod console;
mod crash;
mod disk;
mod durable;
mod embedded;
mod faults;
mod fetch;
mod groups;
mod kv;
mod model;
mod native;
mod proxy;
mod push;
mod python;
mod queues;
mod retention;
mod server;
mod smoke;
mod transaction;
mod versions;
mod world;
