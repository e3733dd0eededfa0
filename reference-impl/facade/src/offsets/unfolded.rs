//! Offsets that a transaction committed in more rows than its bundle could carry: they ride in a
//! few rows of their own, are merged by readers, and folded into the rows of their partitions
//! (docs/decisions/transaction-stage.md).

use std::collections::{BTreeMap, BTreeSet};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use serde::{Deserialize, Serialize};

use super::keys::OffsetKey;
use super::rows::OffsetRow;
use super::{Offsets, Store, Tenant};
use crate::queen::kv::{
    Batch, Expect, Expiry, OnLoss, OpResult, Outcome, Row, Version, escape, unescape,
};
use crate::queen::{Credential, Error, Scope};

/// What the keys of all such rows begin with.
pub(super) const PREFIX: &str = "qk:txnoff:";
/// A row's JSON stays below this: Queen keeps 64 KiB.
const MAX_ROW_BYTES: usize = 60 << 10;
/// Offsets folded in one call: one of them may be a deletion of the row.
const FOLD_CHUNK: usize = 200;
/// How often a chunk that met other writers is read again.
const FOLD_TRIES: usize = 4;
/// Pages of one group's rows.
pub(super) const MAX_PAGES: usize = 8;

#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct UnfoldedRow {
    /// When they were committed, milliseconds since the epoch.
    ts: i64,
    o: Vec<(String, Vec<Item>)>,
}

type Item = (i32, i64, Option<String>);

/// A row to be stored with a commit.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Unfolded {
    key: String,
    value: UnfoldedRow,
}

impl Unfolded {
    /// Its key.
    pub fn key(&self) -> &str {
        &self.key
    }

    /// Its value.
    pub fn value(&self) -> &(impl Serialize + use<>) {
        &self.value
    }

    /// The offsets of `group`, in order of topics, in as few rows as carry them. `tag` names the
    /// transaction.
    pub fn split(
        group: &str,
        tag: &str,
        ts: i64,
        offsets: impl IntoIterator<Item = ((Arc<str>, i32), OffsetRow)>,
    ) -> Vec<Self> {
        let mut rows: Vec<Self> = Vec::new();
        let mut bytes = usize::MAX;
        for ((topic, partition), offset) in offsets {
            // Escapes make of one byte at most six; a number has at most twenty digits.
            let metadata = offset
                .metadata
                .as_ref()
                .map_or(4, |text| 2 + json_len(text));
            let cost = metadata + 40;
            let begins = |row: &Self| row.value.o.last().is_none_or(|(last, _)| **last != *topic);
            let topic_cost = topic.len() + 8;
            if bytes.saturating_add(cost + topic_cost) > MAX_ROW_BYTES {
                let n = rows.len();
                rows.push(Self {
                    key: format!("{}{tag}-{n}", prefix(group)),
                    value: UnfoldedRow { ts, o: Vec::new() },
                });
                bytes = 64;
            }
            let Some(row) = rows.last_mut() else {
                continue;
            };
            if begins(row) {
                row.value.o.push((topic.to_string(), Vec::new()));
                bytes += topic_cost;
            }
            if let Some((_, items)) = row.value.o.last_mut() {
                items.push((partition, offset.offset, offset.metadata));
                bytes += cost;
            }
        }
        rows
    }
}

fn json_len(text: &str) -> usize {
    text.bytes()
        .map(|byte| match byte {
            b'"' | b'\\' => 2,
            0..0x20 => 6,
            _ => 1,
        })
        .sum()
}

/// What the keys of a group's rows begin with.
pub(super) fn prefix(group: &str) -> String {
    format!("{PREFIX}{}:", escape(group))
}

/// The group whose row has this key.
fn group_of(key: &str) -> Option<String> {
    let (group, _) = key.strip_prefix(PREFIX)?.rsplit_once(':')?;
    Some(unescape(group))
}

/// What was read of such rows.
#[derive(Clone, Debug, Default)]
pub(super) struct Merged {
    by_key: BTreeMap<String, OffsetRow>,
    /// The groups that have some.
    pub(super) groups: BTreeSet<String>,
}

impl Merged {
    pub(super) fn of(rows: &[Row]) -> Self {
        let mut merged = Self::default();
        for row in rows {
            let (Some(group), Some(parsed)) = (group_of(&row.key), parse(row)) else {
                continue;
            };
            for (topic, partition, offset) in parsed.offsets() {
                let Some(key) = OffsetKey::new(&group, topic, partition) else {
                    continue;
                };
                let newer = |old: &OffsetRow| old.ts <= offset.ts;
                if merged.by_key.get(key.as_str()).is_none_or(newer) {
                    merged.by_key.insert(key.into_string(), offset);
                }
            }
            merged.groups.insert(group);
        }
        merged
    }

    /// The younger of the row of a key and what waits to be folded into it.
    pub(super) fn over(&self, key: &str, row: Option<OffsetRow>) -> Option<OffsetRow> {
        match (self.by_key.get(key), row) {
            (Some(waiting), Some(row)) if row.ts > waiting.ts => Some(row),
            (Some(waiting), _) => Some(waiting.clone()),
            (None, row) => row,
        }
    }

    /// Every offset that waits, with its key.
    pub(super) fn iter(&self) -> impl Iterator<Item = (&str, &OffsetRow)> {
        self.by_key.iter().map(|(key, row)| (key.as_str(), row))
    }
}

impl UnfoldedRow {
    fn offsets(&self) -> impl Iterator<Item = (&str, i32, OffsetRow)> {
        self.o.iter().flat_map(move |(topic, items)| {
            items.iter().map(move |(partition, offset, metadata)| {
                let row = OffsetRow {
                    offset: *offset,
                    metadata: metadata.clone(),
                    ts: self.ts,
                };
                (topic.as_str(), *partition, row)
            })
        })
    }
}

fn parse(row: &Row) -> Option<UnfoldedRow> {
    row.value()
        .inspect_err(|error| {
            tracing::error!(key = ?row.key, %error, "offsets of a transaction are not readable");
        })
        .ok()
}

/// The groups that this process knows to have rows to fold.
#[derive(Debug, Default)]
pub(super) struct Folds {
    waiting: Mutex<BTreeSet<(Scope, String)>>,
    /// One at a time: two would only meet each other's writes.
    folding: tokio::sync::Mutex<()>,
}

impl Folds {
    fn lock(&self) -> MutexGuard<'_, BTreeSet<(Scope, String)>> {
        self.waiting.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Notes that `group` has rows to fold; `false` when that was known.
    pub(super) fn mark(&self, scope: &Scope, group: &str) -> bool {
        self.lock().insert((scope.clone(), group.to_owned()))
    }

    fn has(&self, scope: &Scope, group: &str) -> bool {
        self.lock().contains(&(scope.clone(), group.to_owned()))
    }

    fn clear(&self, scope: &Scope, group: &str) {
        self.lock().remove(&(scope.clone(), group.to_owned()));
    }

    /// Folds the rows of a group known to have some.
    pub(super) async fn fold(
        &self,
        store: &dyn Store,
        tenant: &Tenant,
        group: &str,
    ) -> Result<(), Error> {
        if !self.has(&tenant.scope, group) {
            return Ok(());
        }
        let _one = self.folding.lock().await;
        if !self.has(&tenant.scope, group) {
            return Ok(());
        }
        let credential = &tenant.credential;
        let scan = store
            .scan(credential, &prefix(group), false, MAX_PAGES)
            .await?;
        let mut rows: Vec<(&Row, UnfoldedRow)> = scan
            .rows
            .iter()
            .filter_map(|row| Some((row, parse(row)?)))
            .collect();
        rows.sort_by_key(|(_, parsed)| parsed.ts);
        for (row, parsed) in rows {
            fold_row(store, credential, group, row, &parsed).await?;
        }
        if !scan.cut {
            self.clear(&tenant.scope, group);
        }
        Ok(())
    }
}

async fn fold_row(
    store: &dyn Store,
    credential: &Credential,
    group: &str,
    row: &Row,
    parsed: &UnfoldedRow,
) -> Result<(), Error> {
    let offsets: Vec<(String, OffsetRow)> = parsed
        .offsets()
        .filter_map(|(topic, partition, offset)| {
            let key = OffsetKey::new(group, topic, partition)?;
            Some((key.into_string(), offset))
        })
        .collect();
    for chunk in offsets.chunks(FOLD_CHUNK) {
        let mut left = chunk.to_vec();
        for _ in 0..FOLD_TRIES {
            if left.is_empty() {
                break;
            }
            left = fold_chunk(store, credential, left).await?;
        }
        if !left.is_empty() {
            return Err(Error::Busy);
        }
    }
    let mut batch = Batch::new();
    batch
        .delete(&row.key, Expect::Version(row.version), OnLoss::Skip)
        .map_err(|_| UNSENDABLE)?;
    store.run(credential, &batch).await?;
    Ok(())
}

const UNSENDABLE: Error = Error::Unsendable("an offset row that Queen would refuse");

/// Puts offsets over older rows; returns those that met another writer.
async fn fold_chunk(
    store: &dyn Store,
    credential: &Credential,
    offsets: Vec<(String, OffsetRow)>,
) -> Result<Vec<(String, OffsetRow)>, Error> {
    let keys: Vec<String> = offsets.iter().map(|(key, _)| key.clone()).collect();
    let readout = store.read(credential, &keys).await?;
    if !readout.unread.is_empty() {
        return Err(Error::unreadable("offsets were not read"));
    }
    let now: BTreeMap<&str, (Version, Option<OffsetRow>)> = readout
        .rows
        .iter()
        .map(|row| (row.key.as_str(), (row.version, row.value().ok())))
        .collect();
    let mut batch = Batch::new();
    let mut written = Vec::new();
    for (key, offset) in offsets {
        let expect = match now.get(key.as_str()) {
            // Somebody committed since.
            Some((_, Some(row))) if row.ts > offset.ts => continue,
            Some((version, _)) => Expect::Version(*version),
            None => Expect::Absent,
        };
        batch
            .put(&key, &offset, Expiry::Forever, expect, OnLoss::Skip)
            .map_err(|_| UNSENDABLE)?;
        written.push((key, offset));
    }
    if batch.is_empty() {
        return Ok(Vec::new());
    }
    let Outcome::Done(results) = store.run(credential, &batch).await? else {
        return Err(Error::unreadable("a fold lost a precondition"));
    };
    let lost = written.into_iter().zip(results);
    Ok(lost
        .filter(|(_, result)| !matches!(result, OpResult::Applied(_)))
        .map(|(offset, _)| offset)
        .collect())
}

impl Offsets {
    /// Notes that a transaction stored offsets of `group` that are to be folded.
    pub fn mark_unfolded(&self, scope: &Scope, group: &str) {
        self.folds.mark(scope, group);
    }

    /// Folds what waits for `group`, if this process knows of anything: before its offsets are
    /// written by others.
    ///
    /// # Errors
    ///
    /// The first call's that failed; asking again carries on.
    pub async fn fold(&self, tenant: &Tenant, group: &str) -> Result<(), Error> {
        self.folds.fold(&*self.store, tenant, group).await
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    proptest! {
        #[test]
        fn rows_stay_below_their_bound_and_hold_everything_once(
            metadata in prop::collection::vec(prop::option::of("[\u{1}-\u{ff}]{0,600}"), 1..300),
        ) {
            let place = |n: usize| (Arc::<str>::from(format!("topic-{}", n / 40)), (n % 40) as i32);
            let offsets = metadata.iter().enumerate().map(|(n, metadata)| {
                let row = OffsetRow { offset: i64::MAX - n as i64, metadata: metadata.clone(), ts: 5 };
                (place(n), row)
            });
            let rows = Unfolded::split("my group", "7-0-1", 5, offsets);
            let mut found = Vec::new();
            for (n, row) in rows.iter().enumerate() {
                prop_assert_eq!(row.key(), format!("qk:txnoff:my%20group:7-0-1-{n}"));
                prop_assert_eq!(group_of(row.key()), Some("my group".to_owned()));
                prop_assert!(serde_json::to_vec(row.value()).unwrap().len() < 64 << 10);
                for (topic, partition, offset) in row.value.offsets() {
                    found.push(((Arc::<str>::from(topic), partition), offset.metadata));
                }
            }
            let expected: Vec<_> = metadata.into_iter().enumerate().map(|(n, m)| (place(n), m)).collect();
            prop_assert_eq!(found, expected);
        }
    }

    #[test]
    fn ten_thousand_usual_offsets_take_a_handful_of_rows() {
        let offsets = (0..10_000).map(|n| {
            let row = OffsetRow {
                offset: 1 << 40,
                metadata: None,
                ts: 5,
            };
            ((Arc::<str>::from("orders"), n), row)
        });
        assert!(Unfolded::split("g", "7-0-1", 5, offsets).len() <= 10);
    }
}
