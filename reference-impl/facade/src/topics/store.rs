//! The calls behind topic records: read, write and delete rows, and clear what a deleted topic
//! leaves behind in the key/value store.

use std::collections::{BTreeMap, BTreeSet};

use super::record::{RECORD_PREFIX, TopicRecord, record_key};
use crate::queen::kv::{
    self, Batch, BatchError, Expect, MAX_KEY_BYTES, MAX_OPERATIONS, OnLoss, OpResult, Outcome,
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

/// Deletes the records of `topics`, and the rows of committed offsets and of deleted records that
/// name them, within bounds.
///
/// # Errors
///
/// As [`Client::kv`]. What was deleted before the error stays deleted; doing it again is safe.
pub async fn sweep(
    client: &Client,
    credential: &Credential,
    topics: &[&str],
) -> Result<Swept, Error> {
    let escaped: Vec<String> = topics.iter().map(|topic| kv::escape(topic)).collect();
    let mut swept = Swept::default();
    let mut keys: Vec<String> = topics.iter().map(|topic| record_key(topic)).collect();
    let floors = escaped.iter().map(|topic| format!("qk:floor:{topic}:"));
    swept.cut |= keys_under(client, credential, floors.collect(), &mut keys).await?;
    let groups = client
        .kv_scan(credential, GROUP_INDEX, true, MAX_GROUP_PAGES)
        .await?;
    swept.cut |= groups.cut;
    for some in groups.rows.chunks(GROUPS_AT_ONCE) {
        let mut offsets = Vec::with_capacity(some.len() * escaped.len());
        for group in some {
            let group = group.key.strip_prefix(GROUP_INDEX).unwrap_or_default();
            for topic in &escaped {
                offsets.push(format!("qk:group:{group}:{topic}:"));
            }
        }
        swept.cut |= keys_under(client, credential, offsets, &mut keys).await?;
    }
    swept.rows = delete_keys(client, credential, &keys).await?;
    Ok(swept)
}

/// Appends the keys of all rows under `prefixes`, most of which are expected to have none or few;
/// returns whether some may be left out.
async fn keys_under(
    client: &Client,
    credential: &Credential,
    mut prefixes: Vec<String>,
    keys: &mut Vec<String>,
) -> Result<bool, Error> {
    let mut cut = false;
    // No row has a key as long as that.
    prefixes.retain(|prefix| prefix.len() < MAX_KEY_BYTES);
    for chunk in prefixes.chunks(MAX_OPERATIONS) {
        let mut batch = Batch::new();
        for prefix in chunk {
            batch
                .get_prefix(prefix, None, PROBE_ROWS, true)
                .map_err(|_| Error::Unsendable("a prefix can't be asked for"))?;
        }
        let Outcome::Done(results) = client.kv(credential, &batch, Repeat::Safe).await? else {
            return Err(Error::unreadable("a read lost a precondition"));
        };
        for (prefix, result) in chunk.iter().zip(results) {
            match result {
                OpResult::Page {
                    rows,
                    next_after: None,
                } => keys.extend(rows.into_iter().map(|row| row.key)),
                _ => {
                    let all = client
                        .kv_scan(credential, prefix, true, MAX_TOPIC_PAGES)
                        .await?;
                    cut |= all.cut;
                    keys.extend(all.rows.into_iter().map(|row| row.key));
                }
            }
        }
    }
    Ok(cut)
}

/// Deletes the rows of `keys` and returns how many there were.
async fn delete_keys(
    client: &Client,
    credential: &Credential,
    keys: &[String],
) -> Result<usize, Error> {
    let mut deleted = 0;
    for chunk in keys.chunks(MAX_OPERATIONS) {
        let mut batch = Batch::new();
        for key in chunk {
            batch
                .delete(key, Expect::Any, OnLoss::Skip)
                .map_err(|_| Error::Unsendable("a key can't be deleted"))?;
        }
        if let Outcome::Done(results) = client.kv(credential, &batch, Repeat::Safe).await? {
            deleted += results
                .iter()
                .filter(|result| matches!(result, OpResult::Applied(_)))
                .count();
        }
    }
    Ok(deleted)
}
