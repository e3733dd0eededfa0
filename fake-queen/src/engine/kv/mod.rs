//! The KV store (contract section 7): calls of several operations, all or nothing, with conditions
//! and expiry.

pub mod call;
pub mod parse;
pub mod rules;
pub mod run;
pub mod view;
