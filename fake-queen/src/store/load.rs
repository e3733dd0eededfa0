//! What a start reads: every row but the records.

use std::collections::BTreeMap;

use redb::{ReadableDatabase, ReadableTable};

use super::native;
use super::rows::{self, SegmentHeader, StoredIds};
use super::tables::{BODIES, COUNTERS, HEADERS, KV, LANES, QUEUES};
use super::{Store, StoreError};
use crate::engine::change::{Change, Counters, LaneKey, QueueRow};
use crate::engine::dedup::{Appended, Dedup};
use crate::engine::id_run::{IdRun, IdRuns};
use crate::engine::segment::records;
use crate::ids::LaneUid;

/// What a start reads.
#[derive(Debug, Default)]
pub struct Loaded {
    /// To be applied to an empty state, in order.
    pub state_changes: Vec<Change>,
    /// Numbers drawn so far.
    pub counters: Counters,
}

impl Store {
    /// Everything but the records, and the deduplication windows as of `now_ms`.
    ///
    /// # Errors
    /// The disk, or a damaged row.
    pub fn load(&self, now_ms: i64) -> Result<Loaded, StoreError> {
        self.using(|database| {
            let transaction = database.begin_read()?;
            let mut loaded = Loaded::default();
            if let Some(counters) = transaction.open_table(COUNTERS)?.get(())? {
                loaded.counters = rows::decode_counters(counters.value())
                    .ok_or(StoreError::Damaged("counter"))?;
            }
            let mut queues: BTreeMap<u64, QueueRow> = BTreeMap::new();
            let consumers = native::Loading::open(&transaction)?;
            for row in transaction.open_table(QUEUES)?.iter()? {
                let (seq, row) = row?;
                let row = rows::decode_queue(seq.value(), row.value())
                    .ok_or(StoreError::Damaged("queue"))?;
                loaded.state_changes.push(Change::PutQueue(row.clone()));
                consumers.load_queue(&row, &mut loaded.state_changes)?;
                queues.insert(row.seq, row);
            }
            let headers = transaction.open_table(HEADERS)?;
            let bodies = transaction.open_table(BODIES)?;
            for row in transaction.open_table(LANES)?.iter()? {
                let (uid, row) = row?;
                let row = rows::decode_lane(LaneUid(uid.value()), row.value())
                    .ok_or(StoreError::Damaged("lane"))?;
                let queue = queues
                    .get(&row.queue_seq)
                    .ok_or(StoreError::Damaged("lane"))?;
                let key = LaneKey {
                    tenant: queue.tenant,
                    queue: queue.name.clone(),
                    lane: row.name.clone(),
                };
                let (uid, explicit_ids) = (row.uid, row.explicit_ids);
                loaded.state_changes.push(Change::PutLane(key.clone(), row));
                consumers.load_lane(&key, uid, &mut loaded.state_changes)?;
                let window = queue.options.dedup_window_seconds;
                if explicit_ids && window > 0 {
                    let since_us = now_ms
                        .saturating_sub(window.saturating_mul(1000))
                        .saturating_mul(1000);
                    loaded.state_changes.push(Change::Append {
                        lane: key,
                        uid,
                        segments: Vec::new(),
                        dedup: load_dedup(&headers, &bodies, uid, since_us)?,
                        dedup_since_us: since_us,
                    });
                }
            }
            for row in transaction.open_table(KV)?.iter()? {
                let (key, row) = row?;
                let key = rows::decode_kv_key(key.value()).ok_or(StoreError::Damaged("KV key"))?;
                let row = rows::decode_kv(row.value()).ok_or(StoreError::Damaged("KV row"))?;
                loaded.state_changes.push(Change::PutKv(key, row));
            }
            Ok(loaded)
        })
    }
}

/// The ids of a lane's segments appended at or after `since_us`, mostly from their headers.
fn load_dedup(
    headers: &impl ReadableTable<(u64, i64), &'static [u8]>,
    bodies: &impl ReadableTable<(u64, i64), &'static [u8]>,
    lane: LaneUid,
    since_us: i64,
) -> Result<Dedup, StoreError> {
    const DAMAGED: StoreError = StoreError::Damaged("segment");
    let mut recent = Vec::new();
    for header in headers
        .range((lane.0, i64::MIN)..=(lane.0, i64::MAX))?
        .rev()
    {
        let (key, value) = header?;
        let header = SegmentHeader::decode(key.value().1, value.value()).ok_or(DAMAGED)?;
        if header.created_us < since_us {
            break;
        }
        if header.explicit_ids {
            recent.push((header, rows::decode_ids(value.value()).ok_or(DAMAGED)?));
        }
    }
    let mut dedup = Dedup::default();
    for (header, ids) in recent.into_iter().rev() {
        let id_runs = match ids {
            StoredIds::Here(id_runs) => id_runs,
            StoredIds::InBody => {
                let body = bodies.get((lane.0, header.base_offset))?.ok_or(DAMAGED)?;
                id_runs_of(&header, body.value()).ok_or(DAMAGED)?
            }
        };
        let first = Appended {
            offset: header.base_offset,
            message_id: header.first_id,
        };
        for run in id_runs {
            let at = first.plus(u64::from(run.position));
            dedup.insert(&run.first, u64::from(run.count), at, header.created_us);
        }
    }
    Ok(dedup)
}

/// The ids of a segment that has too many runs for its header.
fn id_runs_of(header: &SegmentHeader, body: &[u8]) -> Option<Vec<IdRun>> {
    let raw = header.segment(body).packed.unpack().ok()?;
    let mut id_runs = IdRuns::default();
    for record in records(&raw) {
        id_runs.add(record.ok()?.transaction_id);
    }
    Some(id_runs.finish())
}
