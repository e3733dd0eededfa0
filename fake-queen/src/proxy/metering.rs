//! What is counted of a cluster. Plain data.

use std::collections::BTreeMap;

/// Counts since the start.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Metering {
    /// Requests passed on. A fetch is one, and no message.
    pub requests: u64,
    /// Items of pushes and transactions that the broker took.
    pub messages: u64,
    /// Bytes of their bodies.
    pub bytes: u64,
    /// Pops with `wait=true` that wait now. Long fetches don't count.
    pub parked: usize,
    /// Refusals by their code.
    pub refused: BTreeMap<&'static str, u64>,
}
