//! Rebalance: consumer groups change while things go wrong.

use super::Scenario;

/// All of them.
pub const ALL: &[Scenario] = &[];
