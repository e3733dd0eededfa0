//! The series of one facade.
//!
//! `registry` takes more series from any module, as `kastellan_...`; label values come from closed
//! sets only.

use host::metrics::Registry;

/// All series of one facade.
#[derive(Debug, Default)]
pub struct Metrics {
    /// Where every series is registered and rendered.
    pub registry: Registry,
}
