//! What operators do to native groups: move them, forget them, empty their dead letters (contract
//! section 10). Kafka's committed offsets are out of their reach.

use std::sync::Arc;

use super::rows::{LaneAt, QueueKey, Start};
use super::{claim, rows::CursorRow};
use crate::engine::Shared;
use crate::engine::batch::Batch;
use crate::engine::change::LaneKey;
use crate::engine::read::{self, UnknownLane};
use crate::engine::state::{Lane, Queue, State};
use crate::engine::writer::{Handle, WriteError};
use crate::ids::TenantId;
use crate::store::StoreError;

/// Where a seek goes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Target {
    /// Behind everything.
    End,
    /// To the first record appended at or after an instant, milliseconds since the epoch.
    Since(i64),
}

/// Why an operation was not done.
#[derive(Debug, thiserror::Error)]
pub enum AdminError {
    /// It wasn't written.
    #[error(transparent)]
    Write(#[from] WriteError),
    /// What it needs can't be read.
    #[error(transparent)]
    Read(#[from] StoreError),
}

/// The offset before the first record of a lane appended at or after an instant.
///
/// # Errors
/// The store.
pub async fn before_instant(
    shared: &Arc<Shared>,
    key: &LaneKey,
    since_ms: i64,
) -> Result<i64, StoreError> {
    let (found, first) = read::first_since(
        shared,
        key.tenant,
        &key.queue,
        &key.lane,
        since_ms.saturating_mul(1000),
        UnknownLane::Empty,
    )
    .await?;
    Ok(first.map_or(found.high_watermark, |(offset, _)| offset) - 1)
}

/// Moves a group in one lane of a queue, or in all; releases what it holds there. Returns how
/// many cursors were moved.
///
/// # Errors
/// See [`AdminError`].
pub async fn seek(
    shared: &Arc<Shared>,
    writer: &Handle,
    tenant: TenantId,
    queue: &str,
    lane: Option<&str>,
    group: Arc<str>,
    target: Target,
) -> Result<u64, AdminError> {
    let lanes: Vec<LaneAt> = {
        let state = shared.read();
        let chosen = state.queue(tenant, queue).into_iter();
        chosen
            .flat_map(lanes)
            .filter(|(at, _)| lane.is_none_or(|name| *at.key.lane == *name))
            .map(|(at, _)| at)
            .collect()
    };
    let mut seeds = Vec::with_capacity(lanes.len());
    for at in lanes {
        let committed = match target {
            Target::End => i64::MAX,
            Target::Since(ms) => before_instant(shared, &at.key, ms).await?,
        };
        seeds.push((at, committed));
    }
    let moved = writer
        .write(0, move |batch| {
            let state = batch.state;
            let mut moved = 0;
            for (at, committed) in seeds {
                let key = &at.key;
                let Some(lane) = state.lane(key.tenant, &key.queue, &key.lane) else {
                    continue;
                };
                if lane.row.uid != at.uid {
                    continue;
                }
                let committed = committed.min(lane.row.high_watermark - 1);
                let before = batch.native.cursor(state, &at, &group);
                let row = CursorRow {
                    total_consumed: before.map_or(0, |row| row.total_consumed),
                    ..CursorRow::at(committed)
                };
                batch.native.put_cursor(at, group.clone(), Some(row));
                moved += 1;
            }
            moved
        })
        .await?;
    Ok(moved)
}

/// Forgets a group in one queue, or in all: its cursors, and its registrations unless they are
/// kept. Returns how many cursors there were.
///
/// # Errors
/// See [`WriteError`].
pub async fn forget(
    writer: &Handle,
    tenant: TenantId,
    queue: Option<Arc<str>>,
    group: Arc<str>,
    registrations: bool,
) -> Result<u64, WriteError> {
    writer
        .write(0, move |batch| {
            let mut forgotten = 0;
            for queue in queues(batch.state, tenant, queue.as_deref()) {
                for (at, lane) in lanes(queue) {
                    if lane.consumers.cursors.contains_key(&group) {
                        batch.native.put_cursor(at, group.clone(), None);
                        forgotten += 1;
                    }
                }
                if registrations && queue.consumers.subscriptions.contains_key(&group) {
                    let key = claim::key_of(queue);
                    batch.native.put_subscription(key, group.clone(), None);
                }
            }
            forgotten
        })
        .await
}

/// Changes the instant of a group's registrations; no cursor moves. Returns how many there were.
///
/// # Errors
/// See [`WriteError`].
pub async fn resubscribe(
    writer: &Handle,
    tenant: TenantId,
    group: Arc<str>,
    since_ms: i64,
) -> Result<u64, WriteError> {
    writer
        .write(0, move |batch: &mut Batch<'_>| {
            let mut changed = 0;
            let state = batch.state;
            let keys: Vec<QueueKey> = queues(state, tenant, None).map(claim::key_of).collect();
            for key in keys {
                if let Some(mut row) = batch.native.subscription(state, &key, &group) {
                    row.start = Start::From(since_ms);
                    row.timestamp_ms = since_ms;
                    batch.native.put_subscription(key, group.clone(), Some(row));
                    changed += 1;
                }
            }
            changed
        })
        .await
}

/// Removes the dead letters of a queue, of one group or of all. Returns how many there were.
///
/// # Errors
/// See [`WriteError`].
pub async fn purge(
    writer: &Handle,
    tenant: TenantId,
    queue: Arc<str>,
    group: Option<Arc<str>>,
) -> Result<u64, WriteError> {
    writer
        .write(0, move |batch| {
            let mut purged = 0;
            for queue in queues(batch.state, tenant, Some(&queue)) {
                for (at, lane) in lanes(queue) {
                    for (owner, offset) in lane.consumers.dead_letters.keys() {
                        if group.as_ref().is_none_or(|group| group == owner) {
                            batch
                                .native
                                .drop_dead_letter(at.clone(), owner.clone(), *offset);
                            purged += 1;
                        }
                    }
                }
            }
            purged
        })
        .await
}

fn queues<'s>(
    state: &'s State,
    tenant: TenantId,
    only: Option<&'s str>,
) -> impl Iterator<Item = &'s Queue> {
    state
        .tenant(tenant)
        .into_iter()
        .flat_map(|tenant| tenant.queues.values())
        .filter(move |queue| only.is_none_or(|name| *queue.row.name == *name))
}

fn lanes(queue: &Queue) -> impl Iterator<Item = (LaneAt, &Lane)> {
    queue.lanes.iter().map(|(name, lane)| {
        let key = LaneKey {
            tenant: queue.row.tenant,
            queue: queue.row.name.clone(),
            lane: name.clone(),
        };
        let uid = lane.row.uid;
        (LaneAt { key, uid }, lane)
    })
}
