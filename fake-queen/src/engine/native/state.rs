//! Native consumption as it is true now: what hangs on queues and lanes, and how it is found by
//! the ids that clients show.

use std::collections::BTreeMap;
use std::sync::Arc;

use uuid::Uuid;

use super::QUEUE_MODE;
use super::rows::{CursorRow, DeadLetterRow, LaneAt, NativeChange, SubscriptionRow};
use crate::engine::change::LaneKey;
use crate::engine::state::{Lane, Queue, State};
use crate::ids::TenantId;

/// What hangs on a queue.
#[derive(Debug, Default)]
pub struct QueueConsumers {
    /// By group.
    pub subscriptions: BTreeMap<Arc<str>, SubscriptionRow>,
    /// Cursors in all lanes, so that views know without looking whether there are any.
    pub cursors: u64,
}

/// What hangs on a lane.
#[derive(Debug, Default)]
pub struct LaneConsumers {
    /// By group.
    pub cursors: BTreeMap<Arc<str>, CursorRow>,
    /// By group and offset.
    pub dead_letters: BTreeMap<(Arc<str>, i64), DeadLetterRow>,
}

/// A lane and the group whose cursor is leased there.
pub type Holder = (LaneKey, Arc<str>);

/// Lanes by what clients show: only those with consumers, so that a lane that has none costs
/// nothing.
#[derive(Debug, Default)]
pub struct Index {
    lanes: BTreeMap<(TenantId, Uuid), LaneKey>,
    leases: BTreeMap<(TenantId, Uuid), Vec<Holder>>,
}

impl Index {
    /// A lane with a cursor or a dead letter, by its id.
    pub fn lane(&self, tenant: TenantId, id: Uuid) -> Option<&LaneKey> {
        self.lanes.get(&(tenant, id))
    }

    /// Cursors that a lease is on.
    pub fn leased(&self, tenant: TenantId, lease: Uuid) -> &[Holder] {
        self.leases.get(&(tenant, lease)).map_or(&[], Vec::as_slice)
    }

    fn release(&mut self, key: &LaneKey, group: &str, cursor: Option<&CursorRow>) {
        let Some(lease) = cursor.and_then(|cursor| cursor.lease) else {
            return;
        };
        let at = (key.tenant, lease.id);
        if let Some(leased) = self.leases.get_mut(&at) {
            leased.retain(|(lane, other)| lane != key || **other != *group);
            if leased.is_empty() {
                self.leases.remove(&at);
            }
        }
    }

    /// Forgets a lane that goes.
    pub fn forget(&mut self, key: &LaneKey, lane: &Lane) {
        self.lanes.remove(&(key.tenant, lane.row.id));
        for (group, cursor) in &lane.consumers.cursors {
            self.release(key, group, Some(cursor));
        }
    }

    /// Forgets a queue that goes.
    pub fn forget_queue(&mut self, queue: &Queue) {
        for (name, lane) in &queue.lanes {
            let key = LaneKey {
                tenant: queue.row.tenant,
                queue: queue.row.name.clone(),
                lane: name.clone(),
            };
            self.forget(&key, lane);
        }
    }
}

/// Records of a lane that a group has yet to consume.
pub fn lag(lane: &Lane, group: &str) -> u64 {
    let consumed = lane.consumers.cursors.get(group);
    let next = consumed.map_or(0, |cursor| cursor.committed + 1);
    let next = next.max(lane.row.log_start);
    u64::try_from(lane.row.high_watermark - next).unwrap_or(0)
}

/// What the queue's own cursor has in front of it.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Backlog {
    /// Records that nobody holds.
    pub pending: u64,
    /// Records handed out and not acknowledged.
    pub processing: u64,
}

/// A queue's backlog. Groups don't lower it: each has its own.
pub fn backlog(queue: &Queue, now_ms: i64) -> Backlog {
    if queue.consumers.cursors == 0 {
        return Backlog {
            pending: queue.totals.messages,
            processing: 0,
        };
    }
    let mut sum = Backlog::default();
    for lane in queue.lanes.values() {
        let held = lane.consumers.cursors.get(QUEUE_MODE).and_then(|cursor| {
            let lease = cursor.live_lease(now_ms)?;
            let first = cursor.committed.max(lane.row.log_start - 1);
            u64::try_from(lease.batch_end - first).ok()
        });
        let held = held.unwrap_or(0);
        sum.processing += held;
        sum.pending += lag(lane, QUEUE_MODE).saturating_sub(held);
    }
    sum
}

/// Makes one durable change visible. A change of what is gone is none.
pub fn apply(state: &mut State, change: NativeChange) {
    match change {
        NativeChange::PutSubscription(key, group, row) => {
            if let Some(queue) = state.queue_by(key.tenant, &key.name) {
                queue.consumers.subscriptions.insert(group, row);
            }
        }
        NativeChange::DropSubscription(key, group) => {
            if let Some(queue) = state.queue_by(key.tenant, &key.name) {
                queue.consumers.subscriptions.remove(&group);
            }
        }
        NativeChange::PutCursor(at, group, row) => put_cursor(state, &at, group, row),
        NativeChange::DropCursor(at, group) => {
            let (index, queue) = state.indexed_queue(&at.key);
            let Some(queue) = queue else { return };
            if let Some(lane) = queue.lanes.get_mut(&at.key.lane) {
                let dropped = lane.consumers.cursors.remove(&group);
                queue.consumers.cursors -= u64::from(dropped.is_some());
                index.release(&at.key, &group, dropped.as_ref());
            }
        }
        NativeChange::PutDeadLetter(at, row) => {
            let (index, queue) = state.indexed_queue(&at.key);
            if let Some(lane) = queue.and_then(|queue| queue.lanes.get_mut(&at.key.lane)) {
                index
                    .lanes
                    .entry((at.key.tenant, lane.row.id))
                    .or_insert_with(|| at.key.clone());
                lane.consumers
                    .dead_letters
                    .insert((row.group.clone(), row.offset), row);
            }
        }
        NativeChange::DropDeadLetter(at, group, offset) => {
            let (_, queue) = state.indexed_queue(&at.key);
            if let Some(lane) = queue.and_then(|queue| queue.lanes.get_mut(&at.key.lane)) {
                lane.consumers.dead_letters.remove(&(group, offset));
            }
        }
    }
}

fn put_cursor(state: &mut State, at: &LaneAt, group: Arc<str>, row: CursorRow) {
    let (index, queue) = state.indexed_queue(&at.key);
    let Some(queue) = queue else { return };
    let Some(lane) = queue.lanes.get_mut(&at.key.lane) else {
        return;
    };
    debug_assert_eq!(lane.row.uid, at.uid);
    debug_assert!(-1 <= row.committed && row.committed < lane.row.high_watermark.max(1));
    let lease = row.lease.map(|lease| lease.id);
    let before = lane.consumers.cursors.insert(group.clone(), row);
    if before.is_none() {
        queue.consumers.cursors += 1;
        index
            .lanes
            .entry((at.key.tenant, lane.row.id))
            .or_insert_with(|| at.key.clone());
    }
    if before.as_ref().and_then(|row| row.lease.map(|l| l.id)) == lease {
        return;
    }
    index.release(&at.key, &group, before.as_ref());
    if let Some(lease) = lease {
        index
            .leases
            .entry((at.key.tenant, lease))
            .or_default()
            .push((at.key.clone(), group));
    }
}
