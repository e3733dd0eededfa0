//! The Kafka protocol in front of Queen MQ.
//!
//! The library holds everything; `queen-kafka`'s `main` only hands it the embedded Queen. Runs on
//! [`host::Host`], so several facades can live in one process (tests, the simulation).

pub mod boot;
pub mod catalogue;
pub mod cluster;
pub mod config;
pub mod context;
pub mod dispatch;
pub mod envelope;
pub mod fetch;
pub mod floors;
pub mod groups;
pub mod handlers;
pub mod http;
pub mod leader_epoch;
pub mod logging;
pub mod metrics;
pub mod offsets;
pub mod produce;
pub mod queen;
pub mod room;
#[cfg(test)]
mod scripted_queen;
pub mod security;
pub mod server;
pub mod time_index;
pub mod topics;
pub mod transactions;
pub mod upstream_errors;
pub mod windows;
