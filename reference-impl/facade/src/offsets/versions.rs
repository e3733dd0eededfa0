//! The version that each row had when this process last wrote or read it. A write is sent on
//! condition of it: Queen may apply a call long after its answer was given up, and what such a call
//! would put over a younger row, it then leaves alone. A version that is wrong or not known costs a
//! lost write, which tells the right one.

use indexmap::IndexMap;

use crate::queen::kv::{Expect, Version};

/// Rows whose version is remembered in one scope, about 100 bytes each.
const MAX_HELD: usize = 65_536;

/// The versions of one scope's rows.
#[derive(Debug, Default)]
pub(super) struct Versions {
    held: IndexMap<String, Version>,
}

impl Versions {
    /// What must hold for a write of `key`.
    pub(super) fn expect(&self, key: &str) -> Expect {
        self.held
            .get(key)
            .map_or(Expect::Absent, |version| Expect::Version(*version))
    }

    /// The row of `key` has this version now.
    pub(super) fn hold(&mut self, key: &str, version: Version) {
        if let Some(held) = self.held.get_mut(key) {
            *held = version;
            return;
        }
        if self.held.len() >= MAX_HELD {
            self.held.swap_remove_index(0);
        }
        self.held.insert(key.to_owned(), version);
    }

    /// The row of `key` was seen with this version, perhaps before it was last written.
    pub(super) fn seen(&mut self, key: &str, version: Version) {
        if !self.held.contains_key(key) {
            self.hold(key, version);
        }
    }

    /// There is no row of `key` now.
    pub(super) fn forget(&mut self, key: &str) {
        self.held.swap_remove(key);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_not_remembered_is_expected_to_be_absent() {
        let mut versions = Versions::default();
        assert_eq!(versions.expect("a"), Expect::Absent);
        versions.hold("a", Version::new(7));
        versions.seen("a", Version::new(3));
        versions.seen("b", Version::new(4));
        assert_eq!(versions.expect("a"), Expect::Version(Version::new(7)));
        assert_eq!(versions.expect("b"), Expect::Version(Version::new(4)));
        versions.forget("a");
        assert_eq!(versions.expect("a"), Expect::Absent);
    }

    #[test]
    fn no_more_than_so_many_are_remembered() {
        let mut versions = Versions::default();
        for n in 0..=MAX_HELD {
            versions.hold(&n.to_string(), Version::new(n as u64));
        }
        assert_eq!(versions.held.len(), MAX_HELD);
        let last = MAX_HELD.to_string();
        assert_ne!(versions.expect(&last), Expect::Absent);
    }
}
