//! KV rows as one call sees them: what is committed, over it what the batch has planned, over that
//! what the call wrote itself.

use std::cmp::Ordering;
use std::collections::BTreeMap;
use std::ops::Bound;
use std::sync::Arc;

use super::call::KeyRow;
use crate::engine::change::{KvKey, KvRow};
use crate::engine::state::State;
use crate::ids::TenantId;

type Layer = BTreeMap<KvKey, Option<KvRow>>;

/// The view of one call.
pub struct View<'a> {
    tenant: TenantId,
    state: &'a State,
    batch: Option<&'a Layer>,
    own: Layer,
}

impl<'a> View<'a> {
    /// A view over `state`, seen through `batch` when the call writes.
    pub fn new(tenant: TenantId, state: &'a State, batch: Option<&'a Layer>) -> Self {
        Self {
            tenant,
            state,
            batch,
            own: Layer::new(),
        }
    }

    /// The address of a row.
    pub fn key(&self, namespace: &Arc<str>, key: &Arc<str>) -> KvKey {
        KvKey {
            tenant: self.tenant,
            namespace: namespace.clone(),
            key: key.clone(),
        }
    }

    /// A row, live at `now_ms`.
    pub fn live(&self, key: &KvKey, now_ms: i64) -> Option<&KvRow> {
        let staged = self
            .own
            .get(key)
            .or_else(|| self.batch.and_then(|batch| batch.get(key)));
        match staged {
            Some(row) => row.as_ref(),
            None => self.state.kv(key.tenant, &key.namespace, &key.key),
        }
        .filter(|row| row.is_live(now_ms))
    }

    /// Writes or removes a row, for the rest of this call.
    pub fn put(&mut self, key: KvKey, row: Option<KvRow>) {
        self.own.insert(key, row);
    }

    /// What the call wrote.
    pub fn into_writes(self) -> Layer {
        self.own
    }

    /// Rows whose keys start with `prefix` and lie behind `after`, in byte order.
    pub fn range(
        &self,
        namespace: &Arc<str>,
        prefix: &str,
        after: Option<&str>,
    ) -> impl Iterator<Item = KeyRow> + '_ {
        // `after` bounds the scan from below only when it lies at or behind the prefix.
        let lower: Bound<&str> = match after {
            Some(after) if after >= prefix => Bound::Excluded(after),
            _ => Bound::Included(prefix),
        };
        let staged = self.staged(namespace, prefix, lower);
        let owned_prefix: Arc<str> = prefix.into();
        let mut committed = self
            .state
            .tenant(self.tenant)
            .and_then(|tenant| tenant.kv.get(namespace))
            .map(|rows| rows.range::<str, _>((lower, Bound::Unbounded)))
            .into_iter()
            .flatten()
            .take_while(move |(key, _)| key.starts_with(&*owned_prefix))
            .peekable();
        let mut staged = staged.into_iter().peekable();
        std::iter::from_fn(move || {
            loop {
                let order = match (staged.peek(), committed.peek()) {
                    (None, None) => return None,
                    (Some(_), None) => Ordering::Less,
                    (None, Some(_)) => Ordering::Greater,
                    (Some((staged, _)), Some((committed, _))) => staged.cmp(committed),
                };
                if order == Ordering::Greater {
                    return committed
                        .next()
                        .map(|(key, row)| (key.clone(), row.clone()));
                }
                if order == Ordering::Equal {
                    // What is staged covers what is committed.
                    committed.next();
                }
                // A row staged for removal shows nothing.
                if let Some((key, Some(row))) = staged.next() {
                    return Some((key, row));
                }
            }
        })
    }

    fn staged(
        &self,
        namespace: &Arc<str>,
        prefix: &str,
        lower: Bound<&str>,
    ) -> BTreeMap<Arc<str>, Option<KvRow>> {
        let start = |key: &str| KvKey {
            tenant: self.tenant,
            namespace: namespace.clone(),
            key: key.into(),
        };
        let lower = match lower {
            Bound::Excluded(key) => Bound::Excluded(start(key)),
            Bound::Included(key) => Bound::Included(start(key)),
            Bound::Unbounded => Bound::Unbounded,
        };
        self.batch
            .into_iter()
            .chain([&self.own])
            .flat_map(|layer| {
                layer
                    .range((lower.clone(), Bound::Unbounded))
                    .take_while(|(key, _)| {
                        key.tenant == self.tenant
                            && key.namespace == *namespace
                            && key.key.starts_with(prefix)
                    })
            })
            .map(|(key, row)| (key.key.clone(), row.clone()))
            .collect()
    }
}
