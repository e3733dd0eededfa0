//! Wire probes.

use reports::Window;

use crate::spec::Spec;

/// Every probe of what a server advertises.
pub fn specs(_advertised: &[Window]) -> Vec<Spec> {
    Vec::new()
}
