//! What a commit changes, as plain rows. The store writes them, the state applies them, a start
//! reads them back: one vocabulary for the three.

use std::sync::Arc;

use uuid::Uuid;

use super::dedup::Dedup;
use super::id_run::IdRun;
use super::native::rows::NativeChange;
use super::queue_options::QueueOptions;
use super::segment::Segment;
use crate::ids::{LaneUid, TenantId};

/// A queue without its lanes.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct QueueRow {
    /// Whose.
    pub tenant: TenantId,
    /// Its name.
    pub name: Arc<str>,
    /// New after delete and recreate.
    pub id: Uuid,
    /// Order of creation, unique.
    pub seq: u64,
    /// When it was made.
    pub created_ms: i64,
    /// Effective options.
    pub options: QueueOptions,
}

/// A lane without its segments.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LaneRow {
    /// Its key in the store.
    pub uid: LaneUid,
    /// `QueueRow::seq` of its queue.
    pub queue_seq: u64,
    /// Its name within the queue.
    pub name: Arc<str>,
    /// New after delete and recreate.
    pub id: Uuid,
    /// First offset still readable.
    pub log_start: i64,
    /// What the next append receives.
    pub high_watermark: i64,
    /// Segments stored.
    pub segments: u64,
    /// Their stored bytes.
    pub bytes: u64,
    /// Append instant of the newest segment, stored or removed; else when the lane was made.
    pub last_append_us: i64,
    /// Append instant of the oldest stored segment.
    pub oldest_us: i64,
    /// Some segment holds callers' transaction ids, so a start must read them.
    pub explicit_ids: bool,
}

impl LaneRow {
    /// Invariants of contract section 12.2 that one row shows.
    pub fn debug_check(&self) {
        debug_assert!(0 <= self.log_start && self.log_start <= self.high_watermark);
        debug_assert_eq!(self.segments == 0, self.log_start == self.high_watermark);
        debug_assert_eq!(self.segments == 0, self.bytes == 0);
    }
}

/// One KV row.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct KvRow {
    /// JSON text.
    pub value: Arc<str>,
    /// Opaque and unique; not ordered.
    pub version: u64,
    /// When it ends, milliseconds since the epoch; `None` for never.
    pub expires_ms: Option<i64>,
    /// When it was written.
    pub updated_ms: i64,
}

impl KvRow {
    /// It exists at `now_ms`.
    pub fn is_live(&self, now_ms: i64) -> bool {
        self.expires_ms.is_none_or(|expires| expires > now_ms)
    }
}

/// Which lane: by names, as callers know it.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct LaneKey {
    /// Whose.
    pub tenant: TenantId,
    /// Queue name.
    pub queue: Arc<str>,
    /// Lane name.
    pub lane: Arc<str>,
}

/// Which KV row.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct KvKey {
    /// Whose.
    pub tenant: TenantId,
    /// Namespace.
    pub namespace: Arc<str>,
    /// Key, ordered by its bytes.
    pub key: Arc<str>,
}

/// A segment on its way into a lane.
#[derive(Clone, Debug)]
pub struct Appending {
    /// The segment.
    pub segment: Arc<Segment>,
    /// Its callers' ids, for a start to read without the records.
    pub id_runs: Vec<IdRun>,
}

/// Numbers that must never be drawn twice, not even across restarts.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Counters {
    /// Next `QueueRow::seq`.
    pub queue_seq: u64,
    /// Next [`LaneUid`].
    pub lane_uid: u64,
    /// Next block of KV versions.
    pub version_block: u64,
}

/// One step of a commit; steps apply in order.
#[derive(Clone, Debug)]
pub enum Change {
    /// Counters moved.
    Counters(Counters),
    /// Queue made or reconfigured.
    PutQueue(QueueRow),
    /// Queue, lanes and segments removed.
    DropQueue {
        /// Whose.
        tenant: TenantId,
        /// Its name.
        name: Arc<str>,
        /// Its key in the store.
        seq: u64,
        /// Lanes it had.
        lanes: Vec<LaneUid>,
    },
    /// Lane made, or its row changed.
    PutLane(LaneKey, LaneRow),
    /// Empty lane removed.
    DropLane(LaneKey, LaneUid),
    /// Segments appended; [`Change::PutLane`] of the same lane came before.
    Append {
        /// Where.
        lane: LaneKey,
        /// Its key in the store.
        uid: LaneUid,
        /// In offset order.
        segments: Vec<Appending>,
        /// Ids to remember.
        dedup: Dedup,
        /// Ids appended before this instant are forgotten.
        dedup_since_us: i64,
    },
    /// Segments whose records all lie below an offset removed.
    Trim {
        /// Where.
        lane: LaneKey,
        /// Its key in the store.
        uid: LaneUid,
        /// New `log_start`.
        below: i64,
    },
    /// Row written.
    PutKv(KvKey, KvRow),
    /// Row removed.
    DropKv(KvKey),
    /// A step of native consumption.
    Native(NativeChange),
}
