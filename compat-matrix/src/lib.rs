//! Real clients and raw wire probes against any Kafka endpoint.
//!
//! A check starts as a [`spec::Spec`] (from [`probes`], [`bad_input`] or [`scenarios`]), runs with a
//! [`cx::Cx`] against a [`target::Target`], is judged by the target's [`expectations`], and ends as a
//! `reports::Check`. The facade is reached over its port alone, like any other broker; only the
//! hidden `node` command links it.

pub mod bad_input;
pub mod cli;
pub mod cx;
pub mod drivers;
pub mod expectations;
pub mod probes;
pub mod progress;
pub mod runner;
pub mod scenarios;
pub mod spec;
pub mod target;
pub mod wire;
