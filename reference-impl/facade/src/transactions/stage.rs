//! The hidden queue in which open transactions wait: its rows, written and read back
//! (docs/decisions/transaction-stage.md).

use std::collections::{BTreeMap, BTreeSet};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use bytes::Bytes;
use coordinator::producer::Sequence;
use coordinator::transaction::{
    Admission, Partition, Producer, Recovered, Refusal, StagedOffset, Write,
};
use kafka_wire::records::Budget;
use serde::{Deserialize, Serialize};
use serde_json::json;

use super::entry::Entry;
use super::marker::StoredMarker;
use super::{Failure, Inner};
use crate::config::TransactionStage;
use crate::envelope::RecordParts;
use crate::offsets::Tenant;
use crate::produce::staged;
use crate::queen::kv::Version;
use crate::queen::{
    Credential, Error, FetchEntry, Fragment, FragmentWriter, LaneStatus, MAX_ENTRY_BYTES, Pushed,
    Record, Repeat, Scope,
};

/// The hidden queue. Kafka clients see no name that begins so.
pub const STAGE_QUEUE: &str = "__queen_kafka_stage";
/// The header that holds a row's head.
const HEAD: &[u8] = b"stage";
/// Bytes of a batch in one row.
const MAX_ROW_BYTES: usize = 256 << 10;
/// Offsets in one row: with the longest metadata some 2 MiB, usually 10 KiB.
const MAX_ROW_OFFSETS: usize = 500;
/// How long rows are kept: twice the longest timeout.
const RETENTION_SECONDS: u64 = 4 * 60 * 60;
/// How long a repeated row is recognised.
const DEDUP_SECONDS: u64 = 60 * 60;
/// Tenants whose queue is known to be made.
const MAX_SCOPES: usize = 1024;
/// Bytes that the batches of one transaction may expand to when they are read back.
const MAX_EXPANDED_BYTES: usize = 256 << 20;

/// Whose hidden queues this process has seen to.
#[derive(Debug, Default)]
pub(super) struct Queue {
    made: Mutex<BTreeSet<Scope>>,
}

/// A row's head.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
struct Head {
    kind: Kind,
    pid: i64,
    epoch: i16,
    /// Ordinal of the transaction.
    number: u64,
    /// When the row was written, milliseconds since the epoch.
    at: i64,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    topic: Option<String>,
    #[serde(default)]
    partition: i32,
    #[serde(default)]
    sequence: i32,
    #[serde(default)]
    records: usize,
    #[serde(default)]
    bytes: usize,
    #[serde(default)]
    part: usize,
    #[serde(default)]
    parts: usize,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    group: Option<String>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
enum Kind {
    Batch,
    Partitions,
    Offsets,
}

/// A batch on its way into the stage.
#[derive(Clone, Debug)]
pub struct StagedBatch<'a> {
    /// Its producer.
    pub producer: Producer,
    /// Where it goes.
    pub at: &'a Partition,
    /// Its first sequence number.
    pub sequence: Sequence,
    /// Its records.
    pub records: usize,
    /// Bytes of their keys, values and headers.
    pub payload_bytes: usize,
    /// As the client sent it.
    pub bytes: &'a Bytes,
}

/// Rows ready to be pushed.
#[derive(Clone, Debug)]
pub struct Rows {
    /// The lane of the transactional id.
    pub lane: i32,
    /// The rows.
    pub fragment: Fragment,
}

impl Rows {
    pub(super) fn batch(
        inner: &Inner,
        entry: &Entry,
        admission: Admission,
        batch: &StagedBatch<'_>,
    ) -> Option<Self> {
        let mut writer = inner.rows(entry)?;
        let parts = batch.bytes.len().div_ceil(MAX_ROW_BYTES);
        for (part, bytes) in batch.bytes.chunks(MAX_ROW_BYTES).enumerate() {
            let head = Head {
                topic: Some(batch.at.0.to_string()),
                partition: batch.at.1,
                sequence: batch.sequence.get(),
                records: batch.records,
                bytes: batch.payload_bytes,
                part,
                parts,
                ..inner.head(Kind::Batch, batch.producer, admission.number)
            };
            writer.row(&head, bytes);
        }
        Some(writer.finish())
    }

    pub(super) fn partitions(
        inner: &Inner,
        entry: &Entry,
        producer: Producer,
        partitions: &[Partition],
    ) -> Option<Self> {
        let mut writer = inner.rows(entry)?;
        let mut by_topic: BTreeMap<&str, Vec<i32>> = BTreeMap::new();
        for (topic, partition) in partitions {
            by_topic.entry(topic).or_default().push(*partition);
        }
        let content: Vec<(&str, Vec<i32>)> = by_topic.into_iter().collect();
        let number = entry.lock().core.number() + 1;
        let head = inner.head(Kind::Partitions, producer, number);
        writer.row(&head, &serde_json::to_vec(&content).ok()?);
        Some(writer.finish())
    }

    pub(super) fn offsets(
        inner: &Inner,
        entry: &Entry,
        (producer, number): (Producer, u64),
        group: &Arc<str>,
        offsets: &[(Partition, StagedOffset)],
    ) -> Option<Self> {
        let mut writer = inner.rows(entry)?;
        let head = Head {
            group: Some(group.to_string()),
            ..inner.head(Kind::Offsets, producer, number)
        };
        if offsets.is_empty() {
            writer.row(&head, b"[]");
        }
        for chunk in offsets.chunks(MAX_ROW_OFFSETS) {
            let content: Vec<OffsetItem<'_>> = chunk
                .iter()
                .map(|((topic, partition), staged)| {
                    let metadata = staged.metadata.as_deref();
                    (
                        topic.as_ref().into(),
                        *partition,
                        staged.offset,
                        metadata.map(Into::into),
                    )
                })
                .collect();
            writer.row(&head, &serde_json::to_vec(&content).ok()?);
        }
        Some(writer.finish())
    }
}

type OffsetItem<'a> = (
    std::borrow::Cow<'a, str>,
    i32,
    i64,
    Option<std::borrow::Cow<'a, str>>,
);

struct RowWriter<'a> {
    id: &'a str,
    lane: i32,
    writer: FragmentWriter,
}

impl RowWriter<'_> {
    fn row(&mut self, head: &Head, value: &[u8]) {
        // A head has only what JSON can say.
        let text = serde_json::to_vec(head).unwrap_or_default();
        let name = self.name(head, value);
        let parts = RecordParts {
            key: Some(self.id.as_bytes()),
            value: Some(value),
            timestamp_ms: -1,
        };
        let written = self
            .writer
            .record(Some(&name), parts, [(HEAD, Some(text.as_slice()))]);
        debug_assert!(written.is_ok(), "the header's name is UTF-8");
    }

    /// What lets Queen recognise the row when it's pushed again, by whichever process.
    fn name(&self, head: &Head, value: &[u8]) -> String {
        let (pid, epoch, number) = (head.pid, head.epoch, head.number);
        let id = fnv(self.id.as_bytes());
        match head.kind {
            Kind::Batch => {
                let topic = fnv(head.topic.as_deref().unwrap_or_default().as_bytes());
                let (partition, sequence, part) = (head.partition, head.sequence, head.part);
                format!(
                    "{id:x}.{pid:x}.{epoch:x}.{number:x}.b{topic:x}.{partition:x}.{sequence:x}.{part:x}"
                )
            }
            // What is staged for a place last counts, so the same content again, behind another,
            // must not be taken for a repetition: the time tells them apart.
            Kind::Partitions | Kind::Offsets => {
                let (content, at) = (fnv(value), head.at);
                format!("{id:x}.{pid:x}.{epoch:x}.{number:x}.c{content:x}.{at:x}")
            }
        }
    }

    fn finish(self) -> Rows {
        Rows {
            lane: self.lane,
            fragment: self.writer.finish(),
        }
    }
}

/// FNV-1a, 64 bits.
fn fnv(bytes: &[u8]) -> u64 {
    bytes.iter().fold(0xcbf2_9ce4_8422_2325, |hash, byte| {
        (hash ^ u64::from(*byte)).wrapping_mul(0x0100_0000_01b3)
    })
}

/// The lane of a transactional id.
fn lane_of(id: &str) -> i32 {
    let low = fnv(id.as_bytes()) & 0x7fff_ffff;
    i32::try_from(low).unwrap_or(0)
}

/// What the stage holds of one transaction.
#[derive(Debug, Default)]
struct Found {
    batches: Vec<FoundBatch>,
    partial: BTreeMap<(String, i32, i32), Vec<Option<Bytes>>>,
    seen: BTreeSet<(String, i32, i32)>,
    recovered: Recovered,
    /// The earliest row, milliseconds since the epoch.
    began: Option<i64>,
    /// Beyond the last row read.
    end: i64,
}

#[derive(Debug)]
struct FoundBatch {
    topic: String,
    partition: i32,
    sequence: i32,
    bytes: Bytes,
}

/// Puts the batches of each partition into the order of their sequences: several nodes may have
/// staged them.
fn in_order(batches: Vec<FoundBatch>) -> Vec<FoundBatch> {
    let mut first: BTreeMap<(String, i32), i32> = BTreeMap::new();
    let mut placed: Vec<(i32, FoundBatch)> = Vec::with_capacity(batches.len());
    for batch in batches {
        let place = (batch.topic.clone(), batch.partition);
        let first = *first.entry(place).or_insert(batch.sequence);
        // From the first on, or before it: sequences have 31 bits and wrap.
        let ahead = batch.sequence.wrapping_sub(first).wrapping_shl(1) >> 1;
        placed.push((ahead, batch));
    }
    placed.sort_by(|(a, one), (b, other)| {
        let partition = one.topic.cmp(&other.topic);
        partition
            .then(one.partition.cmp(&other.partition))
            .then(a.cmp(b))
    });
    placed.into_iter().map(|(_, batch)| batch).collect()
}

/// Whose rows count.
#[derive(Clone, Copy, Debug)]
struct Wanted<'a> {
    id: &'a str,
    producer: Producer,
    number: u64,
}

impl Found {
    /// Takes a row in; rows of other transactions are passed over.
    fn take(&mut self, wanted: Wanted<'_>, record: &Record<'_>) {
        if record.key() != Some(wanted.id.as_bytes()) {
            return;
        }
        let mut headers = record.headers();
        let head = headers.find_map(|(name, value)| (name == HEAD).then_some(value).flatten());
        let Some(head) = head.and_then(|text| serde_json::from_slice::<Head>(text).ok()) else {
            return;
        };
        let of = (head.pid, head.epoch, head.number);
        if of
            != (
                wanted.producer.id.0,
                wanted.producer.epoch.get(),
                wanted.number,
            )
        {
            return;
        }
        self.began = Some(self.began.map_or(head.at, |began| began.min(head.at)));
        let value = record.value().unwrap_or_default();
        match head.kind {
            Kind::Batch => self.batch(&head, value),
            Kind::Partitions => {
                let content: Vec<(String, Vec<i32>)> =
                    serde_json::from_slice(value).unwrap_or_default();
                for (topic, partitions) in content {
                    let topic: Arc<str> = topic.into();
                    let places = partitions.into_iter().map(|p| (Arc::clone(&topic), p));
                    self.recovered.partitions.extend(places);
                }
            }
            Kind::Offsets => {
                let group: Arc<str> = head.group.unwrap_or_default().into();
                self.recovered.groups.insert(Arc::clone(&group));
                let content: Vec<OffsetItem<'_>> =
                    serde_json::from_slice(value).unwrap_or_default();
                for (topic, partition, offset, metadata) in content {
                    let place = (Arc::clone(&group), Arc::from(topic.as_ref()), partition);
                    let metadata = metadata.map(std::borrow::Cow::into_owned);
                    self.recovered
                        .offsets
                        .insert(place, StagedOffset { offset, metadata });
                }
            }
        }
    }

    fn batch(&mut self, head: &Head, value: &[u8]) {
        let topic = head.topic.clone().unwrap_or_default();
        let place = (topic, head.partition, head.sequence);
        if self.seen.contains(&place) {
            return;
        }
        let parts = self
            .partial
            .entry(place.clone())
            .or_insert_with(|| vec![None; head.parts.clamp(1, 1024)]);
        if let Some(slot) = parts.get_mut(head.part) {
            *slot = Some(Bytes::copy_from_slice(value));
        }
        if !parts.iter().all(Option::is_some) {
            return;
        }
        let parts = self.partial.remove(&place).unwrap_or_default();
        let bytes = match <[Option<Bytes>; 1]>::try_from(parts) {
            Ok([only]) => only.unwrap_or_default(),
            Err(parts) => parts.into_iter().flatten().flatten().collect(),
        };
        let (topic, partition, sequence) = place.clone();
        self.seen.insert(place);
        let recovered = &mut self.recovered;
        recovered
            .partitions
            .insert((topic.as_str().into(), partition));
        recovered.records += head.records;
        recovered.bytes += head.bytes;
        recovered.batches += 1;
        self.batches.push(FoundBatch {
            topic,
            partition,
            sequence,
            bytes,
        });
    }

    fn is_empty(&self) -> bool {
        self.began.is_none()
    }
}

impl Inner {
    pub(super) fn is_stored(&self) -> bool {
        self.config.stage == TransactionStage::Queen
    }

    fn rows<'a>(&self, entry: &'a Entry) -> Option<RowWriter<'a>> {
        let lane = lane_of(&entry.key.id);
        self.is_stored().then(|| RowWriter {
            id: &entry.key.id,
            lane,
            writer: FragmentWriter::new(STAGE_QUEUE, lane, 512),
        })
    }

    fn head(&self, kind: Kind, producer: Producer, number: u64) -> Head {
        Head {
            kind,
            pid: producer.id.0,
            epoch: producer.epoch.get(),
            number,
            at: self.clock.wall().epoch_ms(),
            topic: None,
            partition: 0,
            sequence: 0,
            records: 0,
            bytes: 0,
            part: 0,
            parts: 0,
            group: None,
        }
    }

    /// Makes the hidden queue of a tenant, once.
    pub(super) async fn make_queue(&self, tenant: &Tenant) {
        let made = |scope: &Scope| {
            let made = self.stage.made.lock();
            made.unwrap_or_else(PoisonError::into_inner).contains(scope)
        };
        if made(&tenant.scope) {
            return;
        }
        let options = json!({
            "retentionEnabled": true,
            "retentionSeconds": RETENTION_SECONDS,
            "dedupWindowSeconds": DEDUP_SECONDS,
        });
        let options = options.as_object().cloned().unwrap_or_default();
        let configured = self
            .client
            .configure(&tenant.credential, STAGE_QUEUE, &options)
            .await;
        match configured {
            Ok(_) => {}
            Err(error) if error.is_transient() => return,
            Err(error) => {
                tracing::warn!(%error, queue = STAGE_QUEUE, "the queue in which transactions wait could not be configured: without retention it grows for ever");
            }
        }
        let mut made = self
            .stage
            .made
            .lock()
            .unwrap_or_else(PoisonError::into_inner);
        if made.len() >= MAX_SCOPES {
            made.clear();
        }
        made.insert(tenant.scope.clone());
    }

    /// Pushes rows that aren't batches.
    pub(super) async fn put(
        &self,
        entry: &Entry,
        tenant: &Tenant,
        rows: Rows,
    ) -> Result<(), Failure> {
        self.make_queue(tenant).await;
        let rows = [rows.fragment];
        let verdicts = self
            .client
            .push(&tenant.credential, &rows, Repeat::Safe)
            .await?;
        for verdict in verdicts {
            match verdict {
                Pushed::Queued(Some(offset)) | Pushed::Duplicate(Some(offset)) => {
                    entry.lock().staged_at(offset, 1);
                }
                _ => return Err(Error::unreadable("a row was not staged").into()),
            }
        }
        Ok(())
    }

    /// Reads the rows of one transaction, from `from` to the end of the lane.
    async fn find_staged(
        &self,
        credential: &Credential,
        wanted: Wanted<'_>,
        from: i64,
    ) -> Result<Found, Failure> {
        let mut found = Found {
            end: from,
            ..Found::default()
        };
        let mut until = None;
        while until.is_none_or(|until| found.end < until) {
            let entry = FetchEntry {
                queue: STAGE_QUEUE,
                partition: lane_of(wanted.id),
                offset: found.end,
                max_bytes: MAX_ENTRY_BYTES,
            };
            let fetched = self
                .client
                .fetch(credential, &[entry], Duration::ZERO, 0)
                .await?;
            let Some(lane) = fetched.lane(0) else {
                return Err(Error::unreadable("a fetch without its lane").into());
            };
            match lane.status() {
                LaneStatus::Ok => {}
                // Nobody staged anything yet.
                LaneStatus::Unknown => return Ok(found),
                LaneStatus::OffsetOutOfRange if lane.log_start_offset() > found.end => {
                    found.end = lane.log_start_offset();
                    continue;
                }
                // The lane began anew, after it had been idle for long.
                LaneStatus::OffsetOutOfRange if found.end > 0 => {
                    found.end = 0;
                    continue;
                }
                LaneStatus::OffsetOutOfRange | LaneStatus::Failed => {
                    return Err(Error::unreadable("the stage could not be read").into());
                }
            }
            let until = *until.get_or_insert(lane.high_watermark());
            let before = found.end;
            for record in lane.records() {
                found.take(wanted, &record);
                found.end = record.offset() + 1;
            }
            if found.end == before && before < until {
                return Err(Error::unreadable("the stage stopped short of its end").into());
            }
        }
        Ok(found)
    }

    /// The open transaction that the stage holds beyond a marker, and where the lane ends.
    pub(super) async fn recover(
        &self,
        tenant: &Tenant,
        id: &str,
        stored: &StoredMarker,
    ) -> Result<Option<(i64, Recovered)>, Failure> {
        if !self.is_stored() {
            return Ok(None);
        }
        let wanted = Wanted {
            id,
            producer: stored.marker.producer,
            number: stored.marker.number + 1,
        };
        let from = stored.stage.unwrap_or(0);
        let found = self.find_staged(&tenant.credential, wanted, from).await?;
        if found.is_empty() {
            return Ok(None);
        }
        let began = found.began.unwrap_or_default();
        let age = self.clock.wall().epoch_ms().saturating_sub(began);
        let recovered = Recovered {
            age: Duration::from_millis(u64::try_from(age).unwrap_or(0)),
            ..found.recovered
        };
        Ok(Some((found.end, recovered)))
    }

    /// The records of the transaction that `write` commits, and where the lane ends.
    pub(super) async fn read_stage(
        &self,
        entry: &Entry,
        write: &Write<Version>,
        credential: &Credential,
    ) -> Result<(Vec<Fragment>, i64), Failure> {
        let (from, acknowledged, producer) = {
            let state = entry.lock();
            // The producer of the records, not the one that a bump makes of it.
            let producer = state.core.producer().unwrap_or(write.marker.producer);
            (state.stage_from, state.stage_end, producer)
        };
        let wanted = Wanted {
            id: &entry.key.id,
            producer,
            number: write.marker.number,
        };
        let found = self.find_staged(credential, wanted, from).await?;
        if found.end < acknowledged || !found.partial.is_empty() {
            tracing::error!(
                transactional_id = ?entry.key.id, read = found.end, acknowledged,
                "the stage holds less of a transaction than was acknowledged"
            );
            return Err(Failure::StageIncomplete);
        }
        let mut budget = Budget::new(MAX_EXPANDED_BYTES, self.config.max_records);
        let limits = self.limits();
        if found.recovered.records > limits.records || found.recovered.bytes > limits.bytes {
            // Each node saw its own part only.
            return Err(Refusal::InvalidTxnState.into());
        }
        let mut fragments = Vec::with_capacity(found.batches.len());
        let batches = match self.ownership.is_shared() {
            true => in_order(found.batches),
            false => found.batches,
        };
        for batch in batches {
            let fragment =
                staged::fragment(batch.bytes, &batch.topic, batch.partition, &mut budget);
            fragments.push(fragment.map_err(|error| {
                tracing::error!(transactional_id = ?entry.key.id, ?error, "a staged batch is not readable");
                Failure::StageIncomplete
            })?);
        }
        Ok((fragments, found.end))
    }
}
