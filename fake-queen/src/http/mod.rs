//! HTTP/1.1 in front of the routes: connections, bodies, answers, errors.

pub mod body;
pub mod error;
pub mod query;
pub mod reply;
pub mod server;
pub mod target;
