//! Sans-IO state machines: consumer groups, producer sequences, transactions, fetch sessions.

pub mod classic;
pub mod fetch_session;
pub mod producer;
pub mod transaction;
