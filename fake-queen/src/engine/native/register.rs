//! A group's first contact: it is registered with the queue, and every lane that is there gets a
//! cursor. Lanes that come later begin at their start.

use super::QUEUE_MODE;
use super::claim::{Facts, Scope, Want, key_of};
use super::rows::{CursorRow, LaneAt, QueueKey, Start, SubscriptionRow};
use crate::engine::batch::Batch;
use crate::engine::change::LaneKey;
use crate::engine::queue_options::QueueOptions;
use crate::engine::state::{Lane, Queue, State};

/// The group was never here: claiming makes its cursors.
pub fn is_first_contact(state: &State, want: &Want) -> bool {
    if let Scope::Lane(queue, lane) = &want.scope {
        // A pinned pop registers nothing, but its one cursor is made.
        return state.queue(want.tenant, queue).is_some_and(|queue| {
            !queue.consumers.subscriptions.contains_key(&want.group)
                && (want.conflation == Some(true)
                    || queue
                        .lanes
                        .get(lane)
                        .is_some_and(|lane| !lane.consumers.cursors.contains_key(&want.group)))
        });
    }
    let queues = want.queues(state);
    let unknown = matches!(want.scope, Scope::Queue(_)) && queues.is_empty();
    unknown
        || queues
            .iter()
            .any(|queue| !queue.consumers.subscriptions.contains_key(&want.group))
}

/// Makes the group's registration and its cursors where they are missing.
pub fn register(batch: &mut Batch<'_>, want: &Want, facts: &Facts, now_ms: i64) {
    if let Scope::Queue(name) = &want.scope
        && batch.queue(want.tenant, name).is_none()
    {
        // A group may subscribe before the first push; its registration hangs on the queue.
        batch.put_queue(want.tenant, name, QueueOptions::of_push(name));
    }
    let pinned = matches!(want.scope, Scope::Lane(..));
    let state = batch.state;
    let mut keys: Vec<QueueKey> = want.queues(state).into_iter().map(key_of).collect();
    if keys.is_empty()
        && let Scope::Queue(name) = &want.scope
        && let Some(row) = batch.queue(want.tenant, name)
    {
        keys.push(QueueKey {
            tenant: want.tenant,
            name: name.clone(),
            seq: row.seq,
        });
    }
    for key in keys {
        let known = batch.native.subscription(state, &key, &want.group);
        if known.is_some() {
            continue;
        }
        if !pinned || want.conflation == Some(true) {
            let start = if *want.group == *QUEUE_MODE {
                Start::All
            } else {
                want.start
            };
            let row = SubscriptionRow {
                start,
                timestamp_ms: match start {
                    Start::From(ms) => ms,
                    Start::All | Start::New => now_ms,
                },
                created_ms: now_ms,
                conflation: want.conflation == Some(true),
            };
            batch
                .native
                .put_subscription(key.clone(), want.group.clone(), Some(row));
        }
    }
    // Lanes that a registered group has no cursor in came after it and begin at their start.
    let unseeded: Vec<(LaneAt, i64)> = want
        .lanes(state)
        .filter(|(queue, ..)| !queue.consumers.subscriptions.contains_key(&want.group))
        .map(|(queue, key, lane)| {
            let seed = want.seed(queue, &key, lane, facts);
            let uid = lane.row.uid;
            (LaneAt { key, uid }, seed)
        })
        .filter(|(at, _)| batch.native.cursor(state, at, &want.group).is_none())
        .collect();
    for (at, seed) in unseeded {
        let row = CursorRow::at(seed);
        batch.native.put_cursor(at, want.group.clone(), Some(row));
    }
}

impl Want {
    /// Where a cursor begins in a lane that was there before the group.
    fn seed(&self, queue: &Queue, key: &LaneKey, lane: &Lane, facts: &Facts) -> i64 {
        let oldest = lane.row.log_start - 1;
        match self.start {
            _ if *self.group == *QUEUE_MODE => oldest,
            _ if queue.row.seq >= self.newer_from => oldest,
            Start::All => oldest,
            Start::New => lane.row.high_watermark - 1,
            Start::From(_) => facts.seeds.get(key).copied().unwrap_or(oldest),
        }
    }
}
