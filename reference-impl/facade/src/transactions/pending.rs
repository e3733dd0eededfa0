//! Offsets that wait in open transactions (KIP-447): who takes a partition over mustn't begin at
//! the offset that one of them is about to move.

use std::collections::BTreeSet;
use std::sync::Arc;
use std::sync::atomic::Ordering;

use coordinator::transaction::Partition;

use super::Transactions;
use super::entry::Key;
use crate::offsets::Tenant;

impl Transactions {
    /// The partitions of `group` whose offset an open transaction of this process may move.
    pub fn pending_offsets(&self, tenant: &Tenant, group: &str) -> BTreeSet<Partition> {
        let inner = &self.inner;
        let mut pending = BTreeSet::new();
        if inner.open.load(Ordering::Relaxed) == 0 {
            return pending;
        }
        let from = Key {
            scope: tenant.scope.clone(),
            id: "".into(),
        };
        let entries: Vec<_> = inner
            .lock()
            .range(from..)
            .take_while(|(key, _)| key.scope == tenant.scope)
            .map(|(_, entry)| Arc::clone(entry))
            .collect();
        for entry in entries {
            let state = entry.lock();
            let Some(content) = state.core.content() else {
                continue;
            };
            let of_group = content.offsets().filter(|((of, _, _), _)| **of == *group);
            pending.extend(of_group.map(|((_, topic, index), _)| (Arc::clone(topic), *index)));
        }
        pending
    }
}
