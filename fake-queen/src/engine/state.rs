//! What is true now: tenants, queues, lanes, KV rows. Changed only by [`State::apply`], by the one
//! writer, after the change is durable; read by everyone under a read lock held for lookups only.

use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::sync::Arc;

use super::change::{Appending, Change, KvKey, KvRow, LaneKey, LaneRow, QueueRow};
use super::dedup::Dedup;
use super::native::state::{self as native, Index, LaneConsumers, QueueConsumers};
use super::segment::Segment;
use crate::ids::{LaneUid, TenantId};

/// Everything a Queen knows.
#[derive(Debug, Default)]
pub struct State {
    tenants: BTreeMap<TenantId, Tenant>,
    expiries: BTreeSet<(i64, KvKey)>,
    native: Index,
    /// Lanes whose tails hold segments, oldest append first; only when a store backs the state.
    cached: VecDeque<Cached>,
    cached_bytes: usize,
    /// Bound of `cached_bytes`; `None` when the tails are the only copy.
    cache_limit_bytes: Option<usize>,
}

/// A segment held in a tail although a store has it too.
#[derive(Debug)]
struct Cached {
    lane: LaneKey,
    uid: LaneUid,
    base_offset: i64,
    bytes: usize,
}

/// One tenant's data.
#[derive(Debug, Default)]
pub struct Tenant {
    /// By name.
    pub queues: BTreeMap<Arc<str>, Queue>,
    /// By namespace, then by key in byte order.
    pub kv: BTreeMap<Arc<str>, BTreeMap<Arc<str>, KvRow>>,
    /// Rows of all namespaces, expired ones until they are swept.
    pub kv_rows: u64,
    /// Their values' bytes.
    pub kv_bytes: u64,
}

/// One queue.
#[derive(Debug)]
pub struct Queue {
    /// Its row.
    pub row: QueueRow,
    /// Lanes that exist now, by name.
    pub lanes: BTreeMap<Arc<str>, Lane>,
    /// Sums over the lanes.
    pub totals: Totals,
    /// Native groups.
    pub consumers: QueueConsumers,
}

/// Sums over the lanes of a queue.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Totals {
    /// Stored bytes.
    pub bytes: u64,
    /// Segments.
    pub segments: u64,
    /// Readable records.
    pub messages: u64,
}

/// One lane.
#[derive(Debug)]
pub struct Lane {
    /// Its row.
    pub row: LaneRow,
    /// The newest segments without a gap, up to the high watermark: all of them in memory, recent
    /// ones in front of a store.
    pub tail: VecDeque<Arc<Segment>>,
    /// Ids appended lately.
    pub dedup: Dedup,
    /// Native groups.
    pub consumers: LaneConsumers,
}

impl Lane {
    /// The first offset that the tail holds; the high watermark when it is empty.
    pub fn tail_start(&self) -> i64 {
        self.tail
            .front()
            .map_or(self.row.high_watermark, |segment| segment.base_offset)
    }

    /// The tail's segments from the one that holds `offset` on.
    pub fn tail_from(&self, offset: i64) -> impl Iterator<Item = &Arc<Segment>> {
        let from = self
            .tail
            .partition_point(|segment| segment.end_offset() <= offset);
        self.tail.range(from..)
    }

    fn messages(&self) -> u64 {
        self.row.high_watermark.abs_diff(self.row.log_start)
    }
}

impl State {
    /// An empty state. `cache_limit_bytes` bounds the tails when a store backs them.
    pub fn new(cache_limit_bytes: Option<usize>) -> Self {
        Self {
            cache_limit_bytes,
            ..Self::default()
        }
    }

    /// A tenant that ever had data.
    pub fn tenant(&self, tenant: TenantId) -> Option<&Tenant> {
        self.tenants.get(&tenant)
    }

    /// All tenants.
    pub fn tenants(&self) -> impl Iterator<Item = (TenantId, &Tenant)> {
        self.tenants.iter().map(|(id, tenant)| (*id, tenant))
    }

    /// A queue by name.
    pub fn queue(&self, tenant: TenantId, name: &str) -> Option<&Queue> {
        self.tenants.get(&tenant)?.queues.get(name)
    }

    /// A lane by names.
    pub fn lane(&self, tenant: TenantId, queue: &str, lane: &str) -> Option<&Lane> {
        self.queue(tenant, queue)?.lanes.get(lane)
    }

    /// A KV row, live or not.
    pub fn kv(&self, tenant: TenantId, namespace: &str, key: &str) -> Option<&KvRow> {
        self.tenants.get(&tenant)?.kv.get(namespace)?.get(key)
    }

    /// Rows that ended at or before `now_ms`, at most `limit`.
    pub fn expired(&self, now_ms: i64, limit: usize) -> Vec<KvKey> {
        self.expiries
            .iter()
            .take_while(|(expires, _)| *expires <= now_ms)
            .take(limit)
            .map(|(_, key)| key.clone())
            .collect()
    }

    /// Makes one durable change visible.
    pub fn apply(&mut self, change: Change) {
        match change {
            Change::Counters(_) => {}
            Change::PutQueue(row) => self.put_queue(row),
            Change::DropQueue { tenant, name, .. } => {
                let tenant = self.tenants.get_mut(&tenant);
                if let Some(queue) = tenant.and_then(|tenant| tenant.queues.remove(&name)) {
                    self.native.forget_queue(&queue);
                }
            }
            Change::PutLane(key, row) => self.put_lane(&key, row),
            Change::DropLane(key, _) => {
                let (index, queue) = self.indexed_queue(&key);
                if let Some(queue) = queue
                    && let Some(lane) = queue.lanes.remove(&key.lane)
                {
                    queue.consumers.cursors -= lane.consumers.cursors.len() as u64;
                    index.forget(&key, &lane);
                }
            }
            Change::Append {
                lane,
                segments,
                dedup,
                dedup_since_us,
                ..
            } => self.append(&lane, segments, dedup, dedup_since_us),
            Change::Trim { lane, below, .. } => {
                if let Some(lane) = self.lane_mut(&lane) {
                    while lane.tail.front().is_some_and(|s| s.end_offset() <= below) {
                        lane.tail.pop_front();
                    }
                }
            }
            Change::PutKv(key, row) => self.put_kv(key, row),
            Change::DropKv(key) => self.drop_kv(&key),
            Change::Native(change) => native::apply(self, change),
        }
    }

    /// Native consumers by what they show.
    pub fn native(&self) -> &Index {
        &self.native
    }

    /// A queue by name, to be changed.
    pub(super) fn queue_by(&mut self, tenant: TenantId, name: &str) -> Option<&mut Queue> {
        self.tenants.get_mut(&tenant)?.queues.get_mut(name)
    }

    /// A lane's queue, to be changed together with the index of its consumers.
    pub(super) fn indexed_queue(&mut self, key: &LaneKey) -> (&mut Index, Option<&mut Queue>) {
        let tenant = self.tenants.get_mut(&key.tenant);
        let queue = tenant.and_then(|tenant| tenant.queues.get_mut(&key.queue));
        (&mut self.native, queue)
    }

    fn queue_mut(&mut self, key: &LaneKey) -> Option<&mut Queue> {
        self.tenants
            .get_mut(&key.tenant)?
            .queues
            .get_mut(&key.queue)
    }

    fn lane_mut(&mut self, key: &LaneKey) -> Option<&mut Lane> {
        self.queue_mut(key)?.lanes.get_mut(&key.lane)
    }

    fn put_queue(&mut self, row: QueueRow) {
        let queues = &mut self.tenants.entry(row.tenant).or_default().queues;
        match queues.get_mut(&row.name) {
            Some(queue) => queue.row = row,
            None => {
                let queue = Queue {
                    row,
                    lanes: BTreeMap::new(),
                    totals: Totals::default(),
                    consumers: QueueConsumers::default(),
                };
                queues.insert(queue.row.name.clone(), queue);
            }
        }
    }

    fn put_lane(&mut self, key: &LaneKey, row: LaneRow) {
        row.debug_check();
        let Some(queue) = self.queue_mut(key) else {
            debug_assert!(false, "a lane follows its queue");
            return;
        };
        let totals = &mut queue.totals;
        let lane = match queue.lanes.get_mut(&key.lane) {
            Some(lane) => {
                debug_assert!(lane.row.uid == row.uid && lane.row.log_start <= row.log_start);
                debug_assert!(lane.row.high_watermark <= row.high_watermark);
                totals.bytes -= lane.row.bytes;
                totals.segments -= lane.row.segments;
                totals.messages -= lane.messages();
                lane.row = row;
                lane
            }
            None => queue.lanes.entry(key.lane.clone()).or_insert(Lane {
                row,
                tail: VecDeque::new(),
                dedup: Dedup::default(),
                consumers: LaneConsumers::default(),
            }),
        };
        totals.bytes += lane.row.bytes;
        totals.segments += lane.row.segments;
        totals.messages += lane.messages();
    }

    fn append(
        &mut self,
        key: &LaneKey,
        segments: Vec<Appending>,
        dedup: Dedup,
        dedup_since_us: i64,
    ) {
        let limited = self.cache_limit_bytes.is_some();
        let Some(lane) = self.lane_mut(key) else {
            debug_assert!(false, "an append follows its lane");
            return;
        };
        lane.dedup.expire(dedup_since_us);
        lane.dedup.absorb(dedup);
        let uid = lane.row.uid;
        let mut cached = Vec::new();
        for Appending { segment, .. } in segments {
            debug_assert!(
                lane.tail
                    .back()
                    .is_none_or(|last| last.end_offset() == segment.base_offset),
                "offsets have no gaps"
            );
            debug_assert!(segment.packed.count > 0);
            if limited {
                cached.push((segment.base_offset, segment.stored_bytes()));
            }
            lane.tail.push_back(segment);
        }
        debug_assert!(
            lane.tail
                .back()
                .is_none_or(|last| last.end_offset() == lane.row.high_watermark),
            "the row tells the log's end"
        );
        for (base_offset, bytes) in cached {
            self.cached_bytes += bytes;
            self.cached.push_back(Cached {
                lane: key.clone(),
                uid,
                base_offset,
                bytes,
            });
        }
        self.evict();
    }

    /// Forgets the oldest cached segments until the rest fits. Segments that were trimmed or
    /// dropped meanwhile are accounted for until their turn comes.
    fn evict(&mut self) {
        let Some(limit) = self.cache_limit_bytes else {
            return;
        };
        while self.cached_bytes > limit {
            let Some(oldest) = self.cached.pop_front() else {
                break;
            };
            self.cached_bytes -= oldest.bytes;
            if let Some(lane) = self.lane_mut(&oldest.lane)
                && lane.row.uid == oldest.uid
                && lane.tail_start() == oldest.base_offset
            {
                lane.tail.pop_front();
            }
        }
    }

    fn put_kv(&mut self, key: KvKey, row: KvRow) {
        self.drop_kv(&key);
        if let Some(expires) = row.expires_ms {
            self.expiries.insert((expires, key.clone()));
        }
        let tenant = self.tenants.entry(key.tenant).or_default();
        tenant.kv_rows += 1;
        tenant.kv_bytes += row.value.len() as u64;
        tenant
            .kv
            .entry(key.namespace)
            .or_default()
            .insert(key.key, row);
    }

    fn drop_kv(&mut self, key: &KvKey) {
        let Some(tenant) = self.tenants.get_mut(&key.tenant) else {
            return;
        };
        let Some(rows) = tenant.kv.get_mut(&key.namespace) else {
            return;
        };
        if let Some(row) = rows.remove(&key.key) {
            tenant.kv_rows -= 1;
            tenant.kv_bytes -= row.value.len() as u64;
            if let Some(expires) = row.expires_ms {
                self.expiries.remove(&(expires, key.clone()));
            }
        }
        if rows.is_empty() {
            tenant.kv.remove(&key.namespace);
        }
    }
}
