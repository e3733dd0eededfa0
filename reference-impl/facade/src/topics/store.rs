//! The calls behind topic records: read, write and delete rows, and clear what a deleted topic
//! leaves behind in the key/value store.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use super::record::{RECORD_PREFIX, TopicRecord, record_key};
use crate::queen::kv::{
    self, Batch, BatchError, Expect, MAX_KEY_BYTES, MAX_OPERATIONS, OnLoss, OpResult, Outcome,
    Version,
};
use crate::queen::{Client, Credential, Error, Repeat};

/// Pages of a scan of all records: a million topics.
const MAX_RECORD_PAGES: usize = 1000;
/// Pages of the group index that a sweep reads: more groups than a facade coordinates.
const MAX_GROUP_PAGES: usize = 16;
/// Pages of rows of one topic that a sweep reads: one per partition, at most 100,000.
const MAX_TOPIC_PAGES: usize = 100;
/// What the keys of the group index begin with.
const GROUP_INDEX: &str = "qk:groups:";
/// Groups whose prefixes are put together at once.
const GROUPS_AT_ONCE: usize = 256;
/// Rows of a first look whether a group has offsets of a topic: 256 looks share 1024 keys.
const PROBE_ROWS: usize = 4;

/// Records by topic name, and the names whose row could not be read.
#[derive(Clone, Debug, Default)]
pub struct Records {
    /// Rows that are records; every other topic that was asked for has none.
    pub found: BTreeMap<String, TopicRecord>,
    /// Unknown, not absent.
    pub unread: BTreeSet<String>,
}

/// What a sweep did.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Swept {
    /// Rows deleted.
    pub rows: usize,
    /// Whether rows beyond the sweep's bounds may be left.
    pub cut: bool,
}

/// Reads the records of `topics`.
///
/// # Errors
///
/// As [`Client::kv_read`].
pub async fn read(
    client: &Client,
    credential: &Credential,
    topics: &[&str],
) -> Result<Records, Error> {
    let keys: Vec<String> = topics.iter().map(|topic| record_key(topic)).collect();
    let readout = client.kv_read(credential, &keys).await?;
    Ok(Records {
        found: records(readout.rows),
        unread: readout
            .unread
            .iter()
            .filter_map(|key| topic_of(key))
            .map(str::to_owned)
            .collect(),
    })
}

/// Reads the records of all topics.
///
/// # Errors
///
/// As [`Client::kv_scan`]; a scan that is cut short is [`Error::Unsendable`], because a topic
/// missing from it would count as one without a record.
pub async fn read_all(
    client: &Client,
    credential: &Credential,
) -> Result<BTreeMap<String, TopicRecord>, Error> {
    let scan = client
        .kv_scan(credential, RECORD_PREFIX, false, MAX_RECORD_PAGES)
        .await?;
    if scan.cut {
        return Err(Error::Unsendable("more topic records than a scan may read"));
    }
    Ok(records(scan.rows))
}

fn records(rows: Vec<kv::Row>) -> BTreeMap<String, TopicRecord> {
    rows.into_iter()
        .filter_map(|row| {
            let record = TopicRecord::parse(row.json()).ok()?;
            Some((topic_of(&row.key)?.to_owned(), record))
        })
        .collect()
}

fn topic_of(key: &str) -> Option<&str> {
    key.strip_prefix(RECORD_PREFIX)
}

/// Writes `records`, replacing what is there: the last writer wins, as between existing facades.
///
/// # Errors
///
/// As [`Client::kv`]; [`Error::Unsendable`] for a record too large for a row.
pub async fn write(
    client: &Client,
    credential: &Credential,
    records: &[(&str, &TopicRecord)],
) -> Result<(), Error> {
    let mut batch = Batch::new();
    for (topic, record) in records.iter().copied() {
        if !batch.has_room() {
            client
                .kv(credential, &std::mem::take(&mut batch), Repeat::Safe)
                .await?;
        }
        batch
            .put_forever(&record_key(topic), record)
            .map_err(|error| {
                Error::Unsendable(match error {
                    BatchError::BadValue => "the topic's record is too large",
                    _ => "the topic's record can't be written",
                })
            })?;
    }
    client.kv(credential, &batch, Repeat::Safe).await?;
    Ok(())
}

/// The rows that topics leave in the key/value store, as they were when they were found.
#[derive(Debug, Default)]
pub struct Leftovers {
    rows: Vec<Left>,
    cut: bool,
}

#[derive(Debug)]
struct Left {
    topic: Arc<str>,
    key: String,
    version: Version,
}

/// Finds the records of `topics`, and the rows of committed offsets and of deleted records that name
/// them, within bounds.
///
/// # Errors
///
/// As [`Client::kv`].
pub async fn leftovers(
    client: &Client,
    credential: &Credential,
    topics: &[&str],
) -> Result<Leftovers, Error> {
    let topics: Vec<Arc<str>> = topics.iter().map(|&topic| topic.into()).collect();
    let mut left = Leftovers::default();
    let records: Vec<String> = topics.iter().map(|topic| record_key(topic)).collect();
    let read = client.kv_read(credential, &records).await?;
    left.cut |= !read.unread.is_empty();
    left.rows.extend(read.rows.into_iter().filter_map(|row| {
        Some(Left {
            topic: topic_of(&row.key)?.into(),
            version: row.version,
            key: row.key,
        })
    }));
    let escaped: Vec<(Arc<str>, String)> = topics
        .into_iter()
        .map(|topic| (Arc::clone(&topic), kv::escape(&topic)))
        .collect();
    let floors = escaped
        .iter()
        .map(|(topic, name)| (Arc::clone(topic), format!("qk:floor:{name}:")));
    left.look_under(client, credential, floors.collect())
        .await?;
    let groups = client
        .kv_scan(credential, GROUP_INDEX, true, MAX_GROUP_PAGES)
        .await?;
    left.cut |= groups.cut;
    for some in groups.rows.chunks(GROUPS_AT_ONCE) {
        let mut offsets = Vec::with_capacity(some.len() * escaped.len());
        for group in some {
            let group = group.key.strip_prefix(GROUP_INDEX).unwrap_or_default();
            for (topic, name) in &escaped {
                offsets.push((Arc::clone(topic), format!("qk:group:{group}:{name}:")));
            }
        }
        left.look_under(client, credential, offsets).await?;
    }
    Ok(left)
}

impl Leftovers {
    /// Adds all rows under `prefixes`, each of a topic; most are expected to have none or few.
    async fn look_under(
        &mut self,
        client: &Client,
        credential: &Credential,
        mut prefixes: Vec<(Arc<str>, String)>,
    ) -> Result<(), Error> {
        // No row has a key as long as that.
        prefixes.retain(|(_, prefix)| prefix.len() < MAX_KEY_BYTES);
        for chunk in prefixes.chunks(MAX_OPERATIONS) {
            let mut batch = Batch::new();
            for (_, prefix) in chunk {
                batch
                    .get_prefix(prefix, None, PROBE_ROWS, true)
                    .map_err(|_| Error::Unsendable("a prefix can't be asked for"))?;
            }
            let Outcome::Done(results) = client.kv(credential, &batch, Repeat::Safe).await? else {
                return Err(Error::unreadable("a read lost a precondition"));
            };
            for ((topic, prefix), result) in chunk.iter().zip(results) {
                let rows = match result {
                    OpResult::Page {
                        rows,
                        next_after: None,
                    } => rows,
                    _ => {
                        let all = client
                            .kv_scan(credential, prefix, true, MAX_TOPIC_PAGES)
                            .await?;
                        self.cut |= all.cut;
                        all.rows
                    }
                };
                self.rows.extend(rows.into_iter().map(|row| Left {
                    topic: Arc::clone(topic),
                    version: row.version,
                    key: row.key,
                }));
            }
        }
        Ok(())
    }

    /// Deletes the rows of the topics for which `of` says so, except those that were written since
    /// they were found.
    ///
    /// # Errors
    ///
    /// As [`Client::kv`]. What was deleted before the error stays deleted; doing it again is safe.
    pub async fn delete(
        &self,
        client: &Client,
        credential: &Credential,
        of: impl Fn(&str) -> bool,
    ) -> Result<Swept, Error> {
        let mut swept = Swept {
            rows: 0,
            cut: self.cut,
        };
        let rows: Vec<&Left> = self.rows.iter().filter(|row| of(&row.topic)).collect();
        for chunk in rows.chunks(MAX_OPERATIONS) {
            let mut batch = Batch::new();
            for row in chunk {
                batch
                    .delete(&row.key, Expect::Version(row.version), OnLoss::Skip)
                    .map_err(|_| Error::Unsendable("a key can't be deleted"))?;
            }
            if let Outcome::Done(results) = client.kv(credential, &batch, Repeat::Safe).await? {
                swept.rows += results
                    .iter()
                    .filter(|result| matches!(result, OpResult::Applied(_)))
                    .count();
            }
        }
        Ok(swept)
    }
}
