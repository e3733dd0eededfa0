//! What real clients must be able to do, written once and run with every driver.
//!
//! [`specs`] is the only way in: it crosses each scenario with each driver.

use crate::spec::Spec;

/// Every scenario with every driver.
pub fn specs() -> Vec<Spec> {
    Vec::new()
}
