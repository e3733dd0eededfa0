//! Fills a fetch response: batches encoded once, in reading order, within the client's bounds.

use std::sync::Arc;

use bytes::{Bytes, BytesMut};
use coordinator::fetch_session::PartitionOutcome;
use kafka_protocol::messages::fetch_response::PartitionData;
use kafka_wire::ErrorCode;
use kafka_wire::records::{
    BATCH_OVERHEAD_BYTES, BatchBuilder, BatchOptions, BuildError, Compression, Compressor, Header,
    Headers, Record,
};

use super::plan::Planned;
use super::poll::Read;
use super::surplus::Rest;
use crate::floors;
use crate::queen::{Lane, LaneStatus};
use crate::time_index::{Block, PartitionKey, TimeIndex};

/// The soft limit on record bytes of one response.
pub const MAX_RESPONSE_BYTES: usize = 32 << 20;
/// Watermarks of a partition about which nothing is said.
const UNKNOWN: i64 = -1;

/// A filled response, and what's left.
#[derive(Debug, Default)]
pub struct Assembled {
    /// One for each planned partition, in order.
    pub partitions: Vec<PartitionData>,
    /// The same, for the fetch session.
    pub outcomes: Vec<PartitionOutcome>,
    /// Records that were read and don't fit: by partition and first offset.
    pub surplus: Vec<(PartitionKey, i64, Rest)>,
    /// Records delivered.
    pub records: u64,
    /// Bytes of record batches delivered.
    pub bytes: usize,
}

/// The bounds of a response.
#[derive(Clone, Copy, Debug)]
pub struct Bounds {
    /// The most record bytes, softly: the first record is delivered whatever its size.
    pub max_bytes: usize,
    /// Whether the client asked for committed records only, and so for the aborted transactions.
    pub read_committed: bool,
}

/// Assembles the response for `planned`, of which reading gave `reads`.
#[must_use]
pub fn assemble(
    planned: &[Planned],
    reads: &[Read],
    bounds: Bounds,
    floors: &floors::Table,
    time_index: &TimeIndex,
) -> Assembled {
    let mut assembled = Assembled {
        partitions: Vec::with_capacity(planned.len()),
        outcomes: Vec::with_capacity(planned.len()),
        ..Assembled::default()
    };
    let mut compressor = Compressor::new();
    for (planned, read) in planned.iter().zip(reads) {
        let room = bounds.max_bytes.saturating_sub(assembled.bytes);
        let mut filling = Filling {
            planned,
            floors,
            time_index,
            compressor: &mut compressor,
            room,
            is_first: assembled.bytes == 0,
        };
        let partition = filling.partition(read, &mut assembled);
        let aborted = bounds.read_committed.then(Vec::new);
        assembled
            .partitions
            .push(partition.with_aborted_transactions(aborted));
    }
    assembled
}

struct Filling<'f> {
    planned: &'f Planned,
    floors: &'f floors::Table,
    time_index: &'f TimeIndex,
    compressor: &'f mut Compressor,
    room: usize,
    /// Whether nothing was delivered yet: then one record is, whatever its size.
    is_first: bool,
}

/// The bounds of a lane's log.
#[derive(Clone, Copy)]
struct Watermarks {
    high: i64,
    log_start: i64,
}

impl Filling<'_> {
    fn partition(&mut self, read: &Read, assembled: &mut Assembled) -> PartitionData {
        match read {
            Read::Failed(code) => self.failed(*code, assembled),
            Read::Unread => {
                assembled.outcomes.push(PartitionOutcome::Unread);
                self.data(Watermarks {
                    high: UNKNOWN,
                    log_start: UNKNOWN,
                })
            }
            Read::Lane(rest) => match rest.lane() {
                Some(lane) => self.lane(lane, rest, assembled),
                None => self.failed(ErrorCode::UnknownServerError, assembled),
            },
        }
    }

    fn failed(&self, code: ErrorCode, assembled: &mut Assembled) -> PartitionData {
        assembled.outcomes.push(PartitionOutcome::Failed);
        self.data(Watermarks {
            high: UNKNOWN,
            log_start: UNKNOWN,
        })
        .with_error_code(code.code())
    }

    fn data(&self, watermarks: Watermarks) -> PartitionData {
        PartitionData::default()
            .with_partition_index(self.planned.partition)
            .with_high_watermark(watermarks.high)
            // Nothing uncommitted is ever in the log.
            .with_last_stable_offset(watermarks.high)
            .with_log_start_offset(watermarks.log_start)
            .with_records(Some(Bytes::new()))
    }

    fn lane(&mut self, lane: Lane<'_>, rest: &Rest, assembled: &mut Assembled) -> PartitionData {
        match lane.status() {
            LaneStatus::Ok | LaneStatus::Unknown => {}
            LaneStatus::OffsetOutOfRange => {
                return self.failed(ErrorCode::OffsetOutOfRange, assembled);
            }
            LaneStatus::Failed => return self.failed(ErrorCode::UnknownServerError, assembled),
        }
        let high = lane.high_watermark();
        let log_start = match &self.planned.topic {
            Some(topic) => {
                self.floors
                    .log_start(topic, self.planned.partition, lane.log_start_offset(), high)
            }
            None => lane.log_start_offset(),
        };
        if self.planned.offset < log_start || self.planned.offset > high {
            return self.failed(ErrorCode::OffsetOutOfRange, assembled);
        }
        let records = match self.fill(lane, rest, assembled) {
            Ok(records) => records,
            // Nothing would be a lie that the client asks about again for ever.
            Err(Unservable) => return self.failed(ErrorCode::CorruptMessage, assembled),
        };
        assembled.outcomes.push(PartitionOutcome::Read {
            has_records: !records.is_empty(),
            high_watermark: high,
            log_start_offset: log_start,
        });
        self.data(Watermarks { high, log_start })
            .with_records(Some(records))
    }

    /// One batch of as many records as fit.
    fn fill(
        &mut self,
        lane: Lane<'_>,
        rest: &Rest,
        assembled: &mut Assembled,
    ) -> Result<Bytes, Unservable> {
        let mut records = lane.records().skip(rest.from).peekable();
        let Some(first) = records.peek().map(|record| record.offset()) else {
            return Ok(Bytes::new());
        };
        let limit = self.planned.max_bytes.min(self.room);
        // Growing would copy what is there again and again.
        let mut out = BytesMut::with_capacity(limit.min(expected_bytes(lane, rest.from)));
        let mut builder = BatchBuilder::new(
            &mut out,
            self.compressor,
            BatchOptions {
                base_offset: first,
                compression: self.planned.codec,
                ..BatchOptions::default()
            },
        );
        let mut headers: Vec<Header<'_>> = Vec::new();
        let mut learnt: Option<Block> = None;
        let mut taken = rest.from;
        let mut next = first;
        for stored in records {
            headers.clear();
            headers.extend(stored.headers().map(|(key, value)| Header { key, value }));
            let record = Record {
                offset: stored.offset(),
                timestamp: stored.timestamp_ms(),
                key: stored.key(),
                value: stored.value(),
                headers: Headers::new(&headers),
            };
            next = record.offset;
            let must = self.is_first && builder.count() == 0;
            if !must && builder.len_upper_bound_with(&record) > limit {
                break;
            }
            if let Err(error) = builder.append(&record) {
                if builder.count() == 0 {
                    return Err(unservable(self.planned, &error, next));
                }
                // The next request begins with it.
                break;
            }
            learn(&mut learnt, &record);
            taken += 1;
            next = record.offset + 1;
        }
        let count = builder.count();
        let finished = if count > 0 {
            builder.finish().map(|summary| summary.len_bytes)
        } else {
            drop(builder);
            Ok(0)
        };
        let delivered = match finished {
            Ok(bytes) => {
                assembled.bytes += bytes;
                assembled.records += u64::try_from(count).unwrap_or_default();
                out.freeze()
            }
            Err(error) => return Err(unservable(self.planned, &error, first)),
        };
        if let Some(key) = self.planned.key() {
            if let Some(block) = learnt {
                self.time_index.learn(key, block);
            }
            if taken < lane.records().len() {
                let rest = Rest {
                    answer: Arc::clone(&rest.answer),
                    lane: rest.lane,
                    from: taken,
                    len_bytes: left_bytes(lane, taken),
                };
                assembled.surplus.push((key, next, rest));
            }
        }
        Ok(delivered)
    }
}

fn unservable(planned: &Planned, error: &BuildError, offset: i64) -> Unservable {
    tracing::debug!(
        %error, queue = %planned.queue, partition = planned.partition, offset,
        "a stored record fits no record batch"
    );
    Unservable
}

/// The record at the offset asked for can't be put into a record batch.
struct Unservable;

/// About what a batch of the records `from` on takes without a codec.
fn expected_bytes(lane: Lane<'_>, from: usize) -> usize {
    const RECORD_OVERHEAD_BYTES: usize = 32;
    let records = lane.records().len().saturating_sub(from);
    BATCH_OVERHEAD_BYTES + records * RECORD_OVERHEAD_BYTES + left_bytes(lane, from)
}

fn left_bytes(lane: Lane<'_>, from: usize) -> usize {
    let len = |part: Option<&[u8]>| part.map_or(0, <[u8]>::len);
    let records = lane.records().skip(from);
    records.map(|r| len(r.key()) + len(r.value())).sum()
}

fn learn(learnt: &mut Option<Block>, record: &Record<'_>) {
    let block = learnt.get_or_insert(Block {
        first: record.offset,
        end: record.offset + 1,
        max_timestamp: record.timestamp,
        max_timestamp_at: record.offset,
    });
    block.end = record.offset + 1;
    if record.timestamp > block.max_timestamp {
        block.max_timestamp = record.timestamp;
        block.max_timestamp_at = record.offset;
    }
}

/// About what building the response takes: its batches, and once more as its frame.
#[must_use]
pub fn expected_response_bytes(planned: &[Planned], reads: &[Read], bounds: Bounds) -> usize {
    const PARTITION_BYTES: usize = 256;
    let lanes = planned.iter().zip(reads).map(|(planned, read)| match read {
        Read::Lane(rest) => rest.lane().map_or(0, |lane| {
            expected_bytes(lane, rest.from).min(planned.max_bytes)
        }),
        Read::Failed(_) | Read::Unread => 0,
    });
    let records = lanes.fold(0, usize::saturating_add).min(bounds.max_bytes);
    2 * records + planned.len() * PARTITION_BYTES
}

/// Whether assembling is enough work to be done where blocking work runs.
#[must_use]
pub fn is_heavy(planned: &[Planned], reads: &[Read]) -> bool {
    const LIGHT_BYTES: usize = 256 << 10;
    let mut bytes = 0;
    let mut last: Option<&Arc<super::surplus::Answer>> = None;
    for (planned, read) in planned.iter().zip(reads) {
        if let Read::Lane(rest) = read
            && !last.is_some_and(|last| Arc::ptr_eq(last, &rest.answer))
        {
            bytes += rest.answer.fetched().len_bytes();
            last = Some(&rest.answer);
        }
        if planned.codec != Compression::None && bytes > LIGHT_BYTES / 4 {
            return true;
        }
    }
    bytes > LIGHT_BYTES
}
