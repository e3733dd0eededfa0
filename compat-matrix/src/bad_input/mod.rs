//! Hostile clients.

use crate::spec::Spec;

/// Every check of bad input.
pub fn specs() -> Vec<Spec> {
    Vec::new()
}
