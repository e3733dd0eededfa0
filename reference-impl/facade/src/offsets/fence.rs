//! The fence of a group's offsets in a cluster (contract section 9.2): every call that writes them
//! also writes the group's fence, on condition that nobody else has. A node whose view is stale loses
//! there, and writes nothing.

use std::fmt::Debug;
use std::sync::Arc;

use indexmap::IndexMap;
use serde::{Deserialize, Serialize};
use serde_json::Value;

use crate::queen::kv::{Expect, Version, Winner, escape};

/// Fences whose version is remembered; one that is not costs a lost call.
const MAX_HELD: usize = 10_000;

/// Who writes, and what it owns. A cluster, or a test.
pub(crate) trait Fencing: Debug + Send + Sync + 'static {
    /// This node's number.
    fn node(&self) -> i32;
    /// Which life of it.
    fn incarnation(&self) -> &str;
    /// Whether this node owns `group`, as far as it knows now.
    fn owns(&self, group: &str) -> bool;
}

/// The row of a group's fence. Others write fields of their own beside these.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub(super) struct FenceRow {
    node: i32,
    incarnation: Value,
    #[serde(default)]
    generation: i64,
    #[serde(default)]
    ts: i64,
}

/// The key of a group's fence. Shorter than the key of any offset of the group.
pub(super) fn fence_key(group: &str) -> String {
    format!("qk:fence:{}", escape(group))
}

/// The fences of one scope.
#[derive(Debug)]
pub(super) struct Fences {
    fencing: Arc<dyn Fencing>,
    held: IndexMap<Arc<str>, Version>,
}

/// What a lost fence means.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Lost {
    /// Try once more, over the row that won: it is ours, or an owner's that we have followed.
    Again,
    /// Another node owns the group.
    Theirs,
    /// We own it and lost again: the client may try later.
    Contended,
}

impl Fences {
    pub(super) fn new(fencing: Arc<dyn Fencing>) -> Self {
        Self {
            fencing,
            held: IndexMap::new(),
        }
    }

    /// The row to write now.
    pub(super) fn row(&self, now_ms: i64) -> FenceRow {
        FenceRow {
            node: self.fencing.node(),
            incarnation: Value::String(self.fencing.incarnation().to_owned()),
            generation: 0,
            ts: now_ms,
        }
    }

    /// What must hold for it.
    pub(super) fn expect(&self, group: &str) -> Expect {
        match self.held.get(group) {
            Some(version) => Expect::Version(*version),
            None => Expect::Absent,
        }
    }

    /// The row of `group` was written.
    pub(super) fn hold(&mut self, group: &Arc<str>, version: Version) {
        if self.held.len() >= MAX_HELD && !self.held.contains_key(group) {
            self.held.swap_remove_index(0);
        }
        self.held.insert(Arc::clone(group), version);
    }

    /// The row of `group` was not written because of `winner`; `again` after one try more.
    pub(super) fn lost(&mut self, group: &Arc<str>, winner: &Winner, again: bool) -> Lost {
        let ours = winner.value::<FenceRow>().is_some_and(|row| {
            row.node == self.fencing.node()
                && row.incarnation.as_str() == Some(self.fencing.incarnation())
        });
        let owned = self.fencing.owns(group);
        match winner.version {
            Some(version) => self.hold(group, version),
            None => {
                self.held.swap_remove(group);
            }
        }
        match (ours || owned, again) {
            (true, false) => Lost::Again,
            (true, true) => Lost::Contended,
            (false, _) => Lost::Theirs,
        }
    }
}
