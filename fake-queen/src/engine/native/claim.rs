//! Which lanes a pop takes, and how much of each: arithmetic on offsets, no record is read. The
//! same look serves a caller that only wants to know whether anything is there.

use std::collections::BTreeMap;
use std::sync::Arc;

use uuid::Uuid;

use super::register::{is_first_contact, register};
use super::rows::{CursorRow, LaneAt, Lease, QueueKey, Start};
use super::staged::Staged;
use crate::engine::batch::Batch;
use crate::engine::change::LaneKey;
use crate::engine::queue_options::QueueOptions;
use crate::engine::state::{Lane, Queue, State};
use crate::ids::{self, TenantId};

/// Lease time of a queue whose own is not positive, seconds.
const FALLBACK_LEASE_S: i64 = 60;

/// Where a pop looks.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Scope {
    /// Every lane of a queue.
    Queue(Arc<str>),
    /// One lane.
    Lane(Arc<str>, Arc<str>),
    /// Every lane of the queues that match; an absent name matches all.
    Discover {
        /// The queues' namespace.
        namespace: Option<String>,
        /// The queues' task.
        task: Option<String>,
    },
}

/// What a pop asks for.
#[derive(Clone, Debug)]
pub struct Want {
    /// Whose.
    pub tenant: TenantId,
    /// Where.
    pub scope: Scope,
    /// Who.
    pub group: Arc<str>,
    /// Records at most, of all lanes together.
    pub batch: usize,
    /// Lanes at most; `None` for all.
    pub lanes: Option<usize>,
    /// Consumed when handed out: no lease.
    pub auto_ack: bool,
    /// Seconds, instead of the queue's own lease time.
    pub lease_s: Option<i64>,
    /// Where a group begins that was never here.
    pub start: Start,
    /// Only the newest record of each lane; `None` when the caller doesn't say.
    pub conflation: Option<bool>,
    /// Queues from this `QueueRow::seq` on came while the caller waited: all in them is new to it.
    pub newer_from: u64,
}

/// What a look needs that is not in the rows, read before it.
#[derive(Clone, Debug, Default)]
pub struct Facts {
    /// Of queues that delay: the offset behind the last record that is old enough.
    pub visible_end: BTreeMap<LaneKey, i64>,
    /// Of groups that begin at an instant: the offset before the first record since.
    pub seeds: BTreeMap<LaneKey, i64>,
}

/// What a pop would find.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Look {
    /// Records that can be claimed now.
    pub records: u64,
    /// The group was never here: claiming makes its cursors.
    pub first_contact: bool,
    /// When something may be there that isn't now, milliseconds since the epoch.
    pub wake_at_ms: Option<i64>,
}

/// One lane's part of a claim.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Claimed {
    /// Which lane.
    pub at: LaneAt,
    /// The lane's id.
    pub lane_id: Uuid,
    /// First offset handed out.
    pub first: i64,
    /// Last offset handed out.
    pub last: i64,
    /// How often the first record was handed out, this time included.
    pub attempts: u64,
    /// Records behind this one were never handed out before.
    pub delivered_to: i64,
}

/// What was claimed.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Claim {
    /// The lease on all of it; `None` when it is consumed already.
    pub lease: Option<Uuid>,
    /// Its lanes, in the order in which they were claimed.
    pub lanes: Vec<Claimed>,
    /// The group takes only the newest records.
    pub conflation: bool,
    /// The caller asked for what the group doesn't do.
    pub conflict: bool,
}

/// A lane in which something can be claimed.
struct Candidate {
    at: LaneAt,
    lane_id: Uuid,
    cursor: CursorRow,
    first: i64,
    visible_end: i64,
    lease_s: i64,
    conflation: bool,
}

impl Want {
    /// The queues looked at.
    pub fn queues<'s>(&self, state: &'s State) -> Vec<&'s Queue> {
        match &self.scope {
            Scope::Queue(name) | Scope::Lane(name, _) => {
                state.queue(self.tenant, name).into_iter().collect()
            }
            Scope::Discover { namespace, task } => state
                .tenant(self.tenant)
                .into_iter()
                .flat_map(|tenant| tenant.queues.values())
                .filter(|queue| {
                    let options = &queue.row.options;
                    namespace.as_ref().is_none_or(|n| *n == options.namespace)
                        && task.as_ref().is_none_or(|task| *task == options.task)
                })
                .collect(),
        }
    }

    /// The lanes looked at, queue by queue.
    pub fn lanes<'s>(
        &self,
        state: &'s State,
    ) -> impl Iterator<Item = (&'s Queue, LaneKey, &'s Lane)> {
        let only = match &self.scope {
            Scope::Lane(_, lane) => Some(lane.clone()),
            Scope::Queue(_) | Scope::Discover { .. } => None,
        };
        let tenant = self.tenant;
        self.queues(state).into_iter().flat_map(move |queue| {
            let lanes: Vec<_> = match &only {
                Some(name) => queue.lanes.get_key_value(name).into_iter().collect(),
                None => queue.lanes.iter().collect(),
            };
            lanes.into_iter().map(move |(name, lane)| {
                let key = LaneKey {
                    tenant,
                    queue: queue.row.name.clone(),
                    lane: name.clone(),
                };
                (queue, key, lane)
            })
        })
    }

    /// Notes, as a pop begins, what is there: whatever comes later is new to its group, also in a
    /// lane or queue that comes later.
    pub fn begin(&mut self, state: &State) {
        self.newer_from = u64::MAX;
        match &self.scope {
            Scope::Lane(queue, lane) => {
                if state.lane(self.tenant, queue, lane).is_none() {
                    self.start = Start::All;
                }
            }
            Scope::Discover { .. } => {
                let queues = state.tenant(self.tenant).into_iter();
                let queues = queues.flat_map(|tenant| tenant.queues.values());
                self.newer_from = queues.map(|queue| queue.row.seq + 1).max().unwrap_or(0);
            }
            Scope::Queue(_) => {}
        }
    }
}

/// Looks, without claiming.
pub fn look(state: &State, want: &Want, facts: &Facts, now_ms: i64) -> Look {
    let staged = Staged::default();
    let (candidates, wake_at_ms) = candidates(state, &staged, want, facts, now_ms);
    let records = candidates.iter().map(|candidate| {
        let pending = candidate.visible_end.abs_diff(candidate.first);
        if candidate.conflation { 1 } else { pending }
    });
    Look {
        records: records.sum(),
        first_contact: is_first_contact(state, want),
        wake_at_ms,
    }
}

/// The lanes in which something can be claimed, and when there may be more.
fn candidates(
    state: &State,
    staged: &Staged,
    want: &Want,
    facts: &Facts,
    now_ms: i64,
) -> (Vec<Candidate>, Option<i64>) {
    let mut found = Vec::new();
    let mut wake_at_ms: Option<i64> = None;
    let mut later = |at_ms: i64| {
        wake_at_ms = Some(wake_at_ms.map_or(at_ms, |known| known.min(at_ms)));
    };
    // Lanes come queue by queue.
    let mut policy_of: Option<(u64, bool)> = None;
    for (queue, key, lane) in want.lanes(state) {
        let options = &queue.row.options;
        let at = LaneAt {
            key,
            uid: lane.row.uid,
        };
        let cursor = staged
            .cursor(state, &at, &want.group)
            .unwrap_or_else(|| CursorRow::at(lane.row.log_start - 1));
        let first = (cursor.committed + 1).max(lane.row.log_start);
        if first >= lane.row.high_watermark {
            continue;
        }
        if let Some(lease) = cursor.live_lease(now_ms) {
            later(lease.expires_ms);
            continue;
        }
        let quiet_at_ms = lane.row.last_append_us / 1000 + options.window_buffer.max(0) * 1000;
        if options.window_buffer > 0 && quiet_at_ms > now_ms {
            later(quiet_at_ms);
            continue;
        }
        let visible_end = if options.delayed_processing > 0 {
            facts.visible_end.get(&at.key).copied().unwrap_or(0)
        } else {
            lane.row.high_watermark
        };
        if first >= visible_end {
            continue;
        }
        let conflation = match policy_of {
            Some((seq, conflation)) if seq == queue.row.seq => conflation,
            _ => staged
                .subscription(state, &key_of(queue), &want.group)
                .map_or(want.conflation == Some(true), |row| row.conflation),
        };
        policy_of = Some((queue.row.seq, conflation));
        found.push(Candidate {
            lane_id: lane.row.id,
            cursor,
            first,
            visible_end,
            lease_s: lease_seconds(want, options),
            conflation,
            at,
        });
    }
    (found, wake_at_ms)
}

fn lease_seconds(want: &Want, options: &QueueOptions) -> i64 {
    let positive = |seconds: &i64| *seconds > 0;
    want.lease_s
        .filter(positive)
        .or_else(|| Some(options.lease_time).filter(positive))
        .unwrap_or(FALLBACK_LEASE_S)
}

/// Plans a claim: registers the group on first contact, then takes the lanes that waited longest.
pub fn plan(batch: &mut Batch<'_>, want: &Want, facts: &Facts) -> Claim {
    let now_ms = batch.now.epoch_ms();
    register(batch, want, facts, now_ms);
    let mut claim = policy(batch, want);
    let (mut found, _) = candidates(batch.state, &batch.native, want, facts, now_ms);
    found.sort_by_key(|candidate| candidate.cursor.claimed_ms);
    let lease = ids::uuid(batch.entropy());
    let mut left = want.batch;
    for candidate in found {
        if left == 0 || want.lanes.is_some_and(|cap| claim.lanes.len() >= cap) {
            break;
        }
        let (first, last) = if candidate.conflation {
            left -= 1;
            (candidate.visible_end - 1, candidate.visible_end - 1)
        } else {
            // Both are bounded by the size of a log.
            let pending = candidate.visible_end - candidate.first;
            let taken = pending.min(i64::try_from(left).unwrap_or(i64::MAX));
            left -= usize::try_from(taken).unwrap_or(left);
            (candidate.first, candidate.first + taken - 1)
        };
        let mut cursor = candidate.cursor;
        let delivered_to = cursor.delivered_to;
        cursor.attempts = if first <= delivered_to {
            cursor.attempts + 1
        } else {
            1
        };
        let attempts = cursor.attempts;
        cursor.claimed_ms = now_ms;
        cursor.delivered_to = delivered_to.max(last);
        if want.auto_ack {
            cursor.lease = None;
            cursor.advance(last);
        } else {
            // What retention removed is passed over, not consumed.
            cursor.committed = cursor.committed.max(candidate.first - 1);
            cursor.lease = Some(Lease {
                id: lease,
                expires_ms: now_ms.saturating_add(candidate.lease_s.saturating_mul(1000)),
                batch_end: last,
                conflated: candidate.conflation,
            });
        }
        claim.lanes.push(Claimed {
            at: candidate.at.clone(),
            lane_id: candidate.lane_id,
            first,
            last,
            attempts,
            delivered_to,
        });
        batch
            .native
            .put_cursor(candidate.at, want.group.clone(), Some(cursor));
    }
    claim.lease = (!want.auto_ack && !claim.lanes.is_empty()).then_some(lease);
    claim
}

/// Whether the group takes only newest records, and whether the caller thought otherwise.
fn policy(batch: &Batch<'_>, want: &Want) -> Claim {
    let mut claim = Claim::default();
    let mut queues: Vec<QueueKey> = want.queues(batch.state).into_iter().map(key_of).collect();
    if queues.is_empty() {
        claim.conflation = want.conflation == Some(true);
    }
    queues.dedup();
    for key in queues {
        let stored = batch
            .native
            .subscription(batch.state, &key, &want.group)
            .is_some_and(|subscription| subscription.conflation);
        claim.conflation |= stored;
        claim.conflict |= want.conflation.is_some_and(|asked| asked != stored);
    }
    claim
}

/// A queue's key.
pub fn key_of(queue: &Queue) -> QueueKey {
    QueueKey {
        tenant: queue.row.tenant,
        name: queue.row.name.clone(),
        seq: queue.row.seq,
    }
}
