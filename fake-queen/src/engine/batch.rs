//! What the writer has planned but not committed: rows over the state, seen by later plans of the
//! same batch and by nobody else. Ends as the list of changes of one commit.

use std::collections::BTreeMap;
use std::sync::Arc;

use host::{Entropy, WallTime};
use indexmap::IndexMap;

use super::change::{Appending, Change, Counters, KvKey, KvRow, LaneKey, LaneRow, QueueRow};
use super::dedup::{Appended, Dedup};
use super::id_run::IdRun;
use super::native::staged::Staged;
use super::queue_options::QueueOptions;
use super::segment::{Packed, Segment};
use super::state::State;
use super::versions::Versions;
use crate::ids::{self, LaneUid, MessageId, TenantId};

/// Window of a queue that the push makes.
const DEFAULT_DEDUP_WINDOW_S: i64 = 3600;

/// Numbers the writer draws from. They move on even when a plan is dropped.
#[derive(Debug, Default)]
pub struct Sources {
    /// Next numbers.
    pub counters: Counters,
    /// KV versions.
    pub versions: Versions,
}

/// A plan in the making.
pub struct Batch<'a> {
    /// What is committed.
    pub state: &'a State,
    /// The one clock reading of the batch.
    pub now: WallTime,
    /// Planned rows of native consumption.
    pub native: Staged,
    entropy: &'a dyn Entropy,
    sources: &'a mut Sources,
    counters_before: Counters,
    queues: IndexMap<(TenantId, Arc<str>), QueueRow>,
    lanes: IndexMap<LaneKey, StagedLane>,
    kv: BTreeMap<KvKey, Option<KvRow>>,
}

/// A lane as the batch leaves it.
#[derive(Debug)]
pub struct StagedLane {
    row: LaneRow,
    segments: Vec<Appending>,
    dedup: Dedup,
    dedup_since_us: i64,
}

impl<'a> Batch<'a> {
    /// An empty plan over `state`.
    pub fn new(
        state: &'a State,
        now: WallTime,
        entropy: &'a dyn Entropy,
        sources: &'a mut Sources,
    ) -> Self {
        Self {
            state,
            now,
            native: Staged::default(),
            entropy,
            counters_before: sources.counters,
            sources,
            queues: IndexMap::new(),
            lanes: IndexMap::new(),
            kv: BTreeMap::new(),
        }
    }

    /// Where new ids come from.
    pub fn entropy(&self) -> &'a dyn Entropy {
        self.entropy
    }

    /// A queue's row as this batch sees it.
    pub fn queue(&self, tenant: TenantId, name: &str) -> Option<&QueueRow> {
        // The staged map is keyed by owned names and small; most batches stage no queue.
        self.queues
            .iter()
            .find(|((t, n), _)| *t == tenant && **n == *name)
            .map(|(_, row)| row)
            .or_else(|| self.state.queue(tenant, name).map(|queue| &queue.row))
    }

    /// Writes a queue's options; makes the queue when there is none.
    pub fn put_queue(
        &mut self,
        tenant: TenantId,
        name: &Arc<str>,
        options: QueueOptions,
    ) -> &QueueRow {
        let row = match self.queue(tenant, name) {
            Some(row) => QueueRow {
                options,
                ..row.clone()
            },
            None => {
                let seq = self.sources.counters.queue_seq;
                self.sources.counters.queue_seq += 1;
                QueueRow {
                    tenant,
                    name: name.clone(),
                    id: ids::uuid(self.entropy),
                    seq,
                    created_ms: self.now.epoch_ms(),
                    options,
                }
            }
        };
        let (at, _) = self.queues.insert_full((tenant, name.clone()), row);
        &self.queues[at]
    }

    /// The deduplication window of a lane's queue, seconds; 0 when it is off.
    pub fn dedup_window(&self, lane: &LaneKey) -> i64 {
        self.queue(lane.tenant, &lane.queue)
            .map_or(DEFAULT_DEDUP_WINDOW_S, |queue| {
                queue.options.dedup_window_seconds
            })
    }

    /// The windows in which ids of a lane are looked up, with where they begin; none when the
    /// queue's window is off.
    fn windows(&self, lane: &LaneKey) -> impl Iterator<Item = (&Dedup, i64)> {
        let window = self.dedup_window(lane);
        let staged = self.lanes.get(lane);
        let committed = self.state.lane(lane.tenant, &lane.queue, &lane.lane);
        let last_us = staged
            .map(|staged| staged.row.last_append_us)
            .or_else(|| committed.map(|lane| lane.row.last_append_us));
        let since_us = dedup_since(append_instant(self.now, last_us), window);
        staged
            .map(|staged| &staged.dedup)
            .into_iter()
            .chain(committed.map(|lane| &lane.dedup))
            .filter(move |_| window > 0)
            .map(move |dedup| (dedup, since_us))
    }

    /// Where an id was appended, as this batch sees it.
    pub fn find_duplicate(&self, lane: &LaneKey, transaction_id: &str) -> Option<Appended> {
        self.windows(lane)
            .find_map(|(dedup, since_us)| dedup.find(transaction_id, since_us))
    }

    /// Any id of a run was appended, as this batch sees it.
    pub fn any_duplicate(&self, lane: &LaneKey, run: &IdRun) -> bool {
        self.windows(lane)
            .any(|(dedup, since_us)| dedup.overlaps(&run.first, u64::from(run.count), since_us))
    }

    /// Appends records that are no duplicates, with the ids that callers gave them.
    ///
    /// Makes the queue and the lane when they are missing. Returns the first record's place.
    pub fn append(&mut self, lane: &LaneKey, packed: Packed, id_runs: Vec<IdRun>) -> Appended {
        debug_assert!(packed.count > 0);
        let queue = match self.queue(lane.tenant, &lane.queue) {
            Some(row) => row,
            None => self.put_queue(lane.tenant, &lane.queue, QueueOptions::of_push(&lane.queue)),
        };
        let (queue_seq, window) = (queue.seq, queue.options.dedup_window_seconds);
        let (now, entropy) = (self.now, self.entropy);
        let staged = self.staged_lane(lane, queue_seq);
        let created_us = append_instant(now, Some(staged.row.last_append_us));
        let first = Appended {
            offset: staged.row.high_watermark,
            message_id: MessageId::first_of_segment(entropy, created_us / 1000),
        };
        let row = &mut staged.row;
        row.high_watermark += i64::from(packed.count);
        if row.segments == 0 {
            row.oldest_us = created_us;
        }
        row.segments += 1;
        row.bytes += packed.body.len() as u64;
        row.last_append_us = created_us;
        row.explicit_ids |= packed.explicit_ids;
        staged.dedup_since_us = dedup_since(created_us, window);
        if window > 0 {
            for run in &id_runs {
                let at = first.plus(u64::from(run.position));
                let count = u64::from(run.count);
                staged.dedup.insert(&run.first, count, at, created_us);
            }
        }
        staged.segments.push(Appending {
            segment: Arc::new(Segment {
                base_offset: first.offset,
                created_us,
                first_id: first.message_id,
                packed,
            }),
            id_runs,
        });
        first
    }

    fn staged_lane(&mut self, key: &LaneKey, queue_seq: u64) -> &mut StagedLane {
        let at = match self.lanes.get_index_of(key) {
            Some(at) => at,
            None => {
                let committed = self.state.lane(key.tenant, &key.queue, &key.lane);
                let row = match committed {
                    Some(lane) => lane.row.clone(),
                    None => {
                        let uid = LaneUid(self.sources.counters.lane_uid);
                        self.sources.counters.lane_uid += 1;
                        LaneRow {
                            uid,
                            queue_seq,
                            name: key.lane.clone(),
                            id: ids::uuid(self.entropy),
                            log_start: 0,
                            high_watermark: 0,
                            segments: 0,
                            bytes: 0,
                            last_append_us: self.now.epoch_ms().saturating_mul(1000),
                            oldest_us: 0,
                            explicit_ids: false,
                        }
                    }
                };
                let staged = StagedLane {
                    row,
                    segments: Vec::new(),
                    dedup: Dedup::default(),
                    dedup_since_us: i64::MIN,
                };
                self.lanes.insert_full(key.clone(), staged).0
            }
        };
        &mut self.lanes[at]
    }

    /// A KV row as this batch sees it, live or not.
    pub fn kv(&self, key: &KvKey) -> Option<&KvRow> {
        match self.kv.get(key) {
            Some(staged) => staged.as_ref(),
            None => self.state.kv(key.tenant, &key.namespace, &key.key),
        }
    }

    /// Rows this batch wrote.
    pub fn staged_kv(&self) -> &BTreeMap<KvKey, Option<KvRow>> {
        &self.kv
    }

    /// Writes or removes a KV row.
    pub fn put_kv(&mut self, key: KvKey, row: Option<KvRow>) {
        self.kv.insert(key, row);
    }

    /// A version no row had before.
    pub fn next_version(&mut self) -> u64 {
        self.sources
            .versions
            .next(&mut self.sources.counters.version_block, self.entropy)
    }

    /// The commit, and the lanes it wakes.
    pub fn finish(self) -> (Vec<Change>, Vec<LaneKey>) {
        let mut changes =
            Vec::with_capacity(self.queues.len() + 2 * self.lanes.len() + self.kv.len() + 1);
        if self.sources.counters != self.counters_before {
            changes.push(Change::Counters(self.sources.counters));
        }
        changes.extend(self.queues.into_values().map(Change::PutQueue));
        let mut touched = Vec::with_capacity(self.lanes.len());
        for (key, staged) in self.lanes {
            touched.push(key.clone());
            let uid = staged.row.uid;
            changes.push(Change::PutLane(key.clone(), staged.row));
            changes.push(Change::Append {
                lane: key,
                uid,
                segments: staged.segments,
                dedup: staged.dedup,
                dedup_since_us: staged.dedup_since_us,
            });
        }
        changes.extend(self.kv.into_iter().map(|(key, row)| match row {
            Some(row) => Change::PutKv(key, row),
            None => Change::DropKv(key),
        }));
        self.native.finish(self.state, &mut changes, &mut touched);
        (changes, touched)
    }
}

/// The append instant now: the clock's, never before the lane's last.
fn append_instant(now: WallTime, last_us: Option<i64>) -> i64 {
    now.epoch_ms()
        .saturating_mul(1000)
        .max(last_us.unwrap_or(i64::MIN))
}

/// Where a window of `seconds` starts, seen from an append.
fn dedup_since(created_us: i64, seconds: i64) -> i64 {
    created_us.saturating_sub(seconds.saturating_mul(1_000_000))
}
