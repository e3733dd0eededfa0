//! What there is to list and describe: live entries, and markers of ids that nobody asked for yet.

use std::collections::BTreeMap;
use std::sync::Arc;

use coordinator::transaction::{Description, Ended, Phase, Producer};

use super::entry::Key;
use super::marker::{MARKER_PREFIX, StoredMarker, marked_id};
use super::{Failure, Standing, Transactions};
use crate::offsets::Tenant;

/// Pages of markers read: 10,000 ids.
const MAX_PAGES: usize = 10;

/// An id in a list.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Listed {
    /// The transactional id.
    pub id: Arc<str>,
    /// Its producer.
    pub producer: Producer,
    /// What goes on.
    pub phase: Phase,
    /// How long its transaction has been open, milliseconds.
    pub age_ms: Option<i64>,
}

/// A description.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Described {
    /// The core's.
    pub description: Description,
    /// When the open transaction began, milliseconds since the epoch.
    pub began_ms: Option<i64>,
}

impl Transactions {
    /// The ids of a tenant that this node coordinates, in order.
    ///
    /// # Errors
    ///
    /// The read's.
    pub async fn list(&self, tenant: &Tenant) -> Result<Vec<Listed>, Failure> {
        let inner = &self.inner;
        let scan = inner
            .client
            .kv_scan(&tenant.credential, MARKER_PREFIX, false, MAX_PAGES)
            .await?;
        if scan.cut {
            tracing::warn!("there are more transactional ids than are listed");
        }
        let mut listed = BTreeMap::new();
        for row in &scan.rows {
            let (Some(id), Ok(stored)) = (marked_id(&row.key), StoredMarker::of_row(row)) else {
                continue;
            };
            if inner.ownership.standing(&id) != Standing::Ours {
                continue;
            }
            let id: Arc<str> = id.into();
            let phase = match stored.marker.ended {
                // It waits in another process, or died with one.
                _ if stored.marker.open => Phase::Ongoing,
                Ended::Committed => Phase::CompleteCommit,
                Ended::Aborted if stored.marker.number == 0 => Phase::Empty,
                Ended::Aborted => Phase::CompleteAbort,
            };
            listed.insert(
                Arc::clone(&id),
                Listed {
                    id,
                    producer: stored.marker.producer,
                    phase,
                    age_ms: None,
                },
            );
        }
        // What lives here is newer than what was read.
        let from = Key {
            scope: tenant.scope.clone(),
            id: "".into(),
        };
        let now = inner.now();
        let entries: Vec<_> = inner
            .lock()
            .range(from..)
            .take_while(|(key, _)| key.scope == tenant.scope)
            .map(|(_, entry)| Arc::clone(entry))
            .collect();
        for entry in entries {
            let description = entry.lock().core.describe(now);
            if description.phase == Phase::Unloaded {
                continue;
            }
            let Some(producer) = description.producer else {
                continue;
            };
            let id = Arc::clone(&entry.key.id);
            let age = description.age.map(|age| age.as_millis());
            listed.insert(
                Arc::clone(&id),
                Listed {
                    id,
                    producer,
                    phase: description.phase,
                    age_ms: age.map(|age| i64::try_from(age).unwrap_or(i64::MAX)),
                },
            );
        }
        Ok(listed.into_values().collect())
    }

    /// What is known of `id`; `None` when it was never initialised.
    ///
    /// # Errors
    ///
    /// [`Failure`].
    pub async fn describe(&self, tenant: &Tenant, id: &str) -> Result<Option<Described>, Failure> {
        let entry = self.inner.entry(tenant, id).await?;
        let description = entry.lock().core.describe(self.inner.now());
        if description.producer.is_none() {
            return Ok(None);
        }
        let now_ms = self.inner.clock.wall().epoch_ms();
        let age = description.age.map(|age| age.as_millis());
        let began_ms = age.map(|age| now_ms - i64::try_from(age).unwrap_or(0));
        Ok(Some(Described {
            description,
            began_ms,
        }))
    }
}
