//! Sans-IO state machines: consumer groups, producer sequences, transactions, fetch sessions,
//! cluster membership.

pub mod classic;
pub mod cluster;
pub mod consumer;
pub mod fetch_session;
pub mod producer;
mod timers;
pub mod transaction;
