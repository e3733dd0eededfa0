//! Each cluster's share of the memory for bodies: one that fills its own leaves the others theirs.

use std::collections::BTreeMap;
use std::sync::{Mutex, PoisonError};

use host::budget::Budget;

use super::cell::Slug;
use crate::http::body::room;

/// Which part of all the memory one cluster may fill.
const PART: usize = 4;

/// The shares of a cell. There is one for each cluster that has called, and no stranger is one.
#[derive(Debug)]
pub(super) struct Shares {
    bytes: usize,
    of: Mutex<BTreeMap<Slug, Budget>>,
}

impl Shares {
    /// Shares of `all_bytes`, none smaller than one body.
    pub(super) fn new(all_bytes: usize, max_body_bytes: usize) -> Self {
        Self {
            bytes: (all_bytes / PART).max(max_body_bytes),
            of: Mutex::default(),
        }
    }

    /// The share of a cluster.
    pub(super) fn of(&self, cluster: &Slug) -> Budget {
        let mut shares = self.of.lock().unwrap_or_else(PoisonError::into_inner);
        let share = shares.entry(cluster.clone());
        share.or_insert_with(|| room(self.bytes)).clone()
    }
}
