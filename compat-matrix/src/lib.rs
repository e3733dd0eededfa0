//! Real clients and raw wire probes against any Kafka endpoint.
//!
//! A check starts as a [`spec::Spec`] (from [`probes`], [`bad_input`],
//! [`secure`], [`scenarios`], [`readme`] or [`aftermath`]), runs with a
//! [`cx::Cx`] against a [`target::Target`], is judged by the target's [`expectations`], and ends as a
//! `reports::Check`. Checks reach the facade over its port alone, like any other broker. It is linked
//! for its constants and to be the node that `main` turns this program into.

pub mod aftermath;
pub mod bad_input;
pub mod bench;
pub mod cli;
pub mod cx;
pub mod differential;
pub mod docs;
pub mod drivers;
pub mod expectations;
pub mod files;
mod ids;
pub mod probes;
pub mod progress;
pub mod publish;
pub mod readme;
pub mod relay;
pub mod runner;
pub mod scenarios;
pub mod secure;
pub mod sequences;
pub mod soak;
pub mod spec;
pub mod suite;
pub mod target;
#[cfg(test)]
mod testing;
pub mod waivers;
pub mod wire;
