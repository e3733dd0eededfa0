//! Removing: queues by request; segments, lanes and KV rows by age (contract section 2.2).

use std::sync::Arc;
use std::time::Duration;

use super::Shared;
use super::change::{Change, KvKey, LaneKey, LaneRow};
use super::queue_options::QueueOptions;
use super::state::{Lane, State};
use super::writer::{Handle, WriteError};
use crate::ids::TenantId;
use crate::store::{Store, StoreError};

/// Expired KV rows removed per round; the rest waits for the next. They read as absent anyway.
const SWEEP_ROWS: usize = 10_000;

/// Removes a queue with all lanes. `false`: there was none.
///
/// # Errors
/// See [`WriteError`].
pub async fn delete_queue(
    shared: &Shared,
    writer: &Handle,
    tenant: TenantId,
    name: Arc<str>,
) -> Result<bool, WriteError> {
    let existed = writer
        .alone(move |state, _| {
            let Some(queue) = state.queue(tenant, &name) else {
                return Ok((Vec::new(), Vec::new(), false));
            };
            let change = Change::DropQueue {
                tenant,
                name,
                seq: queue.row.seq,
                lanes: queue.lanes.values().map(|lane| lane.row.uid).collect(),
            };
            Ok((vec![change], Vec::new(), true))
        })
        .await?;
    if existed {
        // Which of its lanes, real or never pushed to, somebody waits for is not kept.
        shared.park.wake_all();
        shared.pops.wake_all();
    }
    Ok(existed)
}

/// Removes what is too old, every `interval`, until the Queen stops.
pub async fn run(
    shared: Arc<Shared>,
    writer: Handle,
    interval: Duration,
    lane_cleanup_after: Duration,
) {
    loop {
        tokio::select! {
            biased;
            () = shared.stopping() => return,
            () = tokio::time::sleep(interval) => {}
        }
        match sweep(&shared, &writer, lane_cleanup_after).await {
            Ok(()) => {}
            Err(WriteError::Stopping | WriteError::Store) => return,
        }
    }
}

/// One round of removal by age.
///
/// # Errors
/// See [`WriteError`].
pub async fn sweep(
    shared: &Arc<Shared>,
    writer: &Handle,
    lane_cleanup_after: Duration,
) -> Result<(), WriteError> {
    let now_ms = shared.host.clock.wall().epoch_ms();
    if !anything_due(&shared.read(), now_ms, lane_cleanup_after) {
        return Ok(());
    }
    writer
        .alone(move |state, store| {
            let mut changes: Vec<Change> = state
                .expired(now_ms, SWEEP_ROWS)
                .into_iter()
                .map(|key: KvKey| Change::DropKv(key))
                .collect();
            let mut touched = Vec::new();
            for (key, options, lane) in lanes(state) {
                if is_abandoned(lane, now_ms, lane_cleanup_after) {
                    changes.push(Change::DropLane(key, lane.row.uid));
                } else if let cutoff = Cutoff::of(options, lane, now_ms)
                    && cutoff.is_due(lane)
                {
                    let row = trimmed(lane, store, cutoff)?;
                    if row.log_start == lane.row.log_start {
                        // The oldest segment holds records that some group has yet to consume.
                        continue;
                    }
                    let (uid, below) = (row.uid, row.log_start);
                    touched.push(key.clone());
                    changes.push(Change::PutLane(key.clone(), row));
                    changes.push(Change::Trim {
                        lane: key,
                        uid,
                        below,
                    });
                }
            }
            Ok((changes, touched, ()))
        })
        .await
}

/// What is too old in a lane.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Cutoff {
    /// Appended before this; the smallest instant when the queue keeps everything.
    before_us: i64,
    /// Below this offset, which every native group has consumed, and appended before this.
    consumed: Option<(i64, i64)>,
}

impl Cutoff {
    fn of(options: &QueueOptions, lane: &Lane, now_ms: i64) -> Self {
        let before = |seconds: i64| {
            now_ms
                .saturating_sub(seconds.saturating_mul(1000))
                .saturating_mul(1000)
        };
        let positive = |seconds: &i64| *seconds > 0;
        let enabled = |seconds: i64| Some(seconds).filter(|_| options.retention_enabled);
        let kept = [
            enabled(options.retention_seconds),
            Some(options.max_wait_time_seconds),
        ];
        let cursors = lane.consumers.cursors.values();
        let consumed = enabled(options.completed_retention_seconds)
            .filter(positive)
            .and_then(|seconds| {
                let slowest = cursors.map(|cursor| cursor.committed).min()?;
                Some((slowest + 1, before(seconds)))
            });
        Self {
            before_us: kept
                .into_iter()
                .flatten()
                .filter(positive)
                .min()
                .map_or(i64::MIN, before),
            consumed,
        }
    }

    /// The lane's oldest segment may have to go.
    fn is_due(&self, lane: &Lane) -> bool {
        let row = &lane.row;
        row.segments > 0
            && (row.oldest_us < self.before_us
                || self.consumed.is_some_and(|(below, before_us)| {
                    row.log_start < below && row.oldest_us < before_us
                }))
    }

    fn removes(&self, created_us: i64, end_offset: i64) -> bool {
        created_us < self.before_us
            || self
                .consumed
                .is_some_and(|(below, before_us)| end_offset <= below && created_us < before_us)
    }
}

fn is_abandoned(lane: &Lane, now_ms: i64, cleanup_after: Duration) -> bool {
    let after_ms = i64::try_from(cleanup_after.as_millis()).unwrap_or(i64::MAX);
    lane.row.segments == 0
        && lane.row.last_append_us / 1000 < now_ms.saturating_sub(after_ms)
        // What was given up stays until somebody takes it away.
        && lane.consumers.dead_letters.is_empty()
}

/// The row of a lane without its oldest segments that `cutoff` removes.
fn trimmed(lane: &Lane, store: Option<&Store>, cutoff: Cutoff) -> Result<LaneRow, StoreError> {
    let mut row = lane.row.clone();
    let mut step = |base_offset, created_us, bytes: u64, end_offset| {
        debug_assert_eq!(row.log_start, base_offset);
        if !cutoff.removes(created_us, end_offset) {
            row.oldest_us = created_us;
            return false;
        }
        row.log_start = end_offset;
        row.segments -= 1;
        row.bytes -= bytes;
        true
    };
    match store {
        Some(store) => store.visit_headers(lane.row.uid, &mut |header| {
            step(
                header.base_offset,
                header.created_us,
                header.stored_bytes,
                header.base_offset + i64::from(header.count),
            )
        })?,
        None => {
            for segment in &lane.tail {
                if !step(
                    segment.base_offset,
                    segment.created_us,
                    segment.stored_bytes() as u64,
                    segment.end_offset(),
                ) {
                    break;
                }
            }
        }
    }
    Ok(row)
}

fn lanes(state: &State) -> impl Iterator<Item = (LaneKey, &QueueOptions, &Lane)> {
    state.tenants().flat_map(|(tenant, data)| {
        data.queues.iter().flat_map(move |(name, queue)| {
            queue.lanes.iter().map(move |(lane_name, lane)| {
                let key = LaneKey {
                    tenant,
                    queue: name.clone(),
                    lane: lane_name.clone(),
                };
                (key, &queue.row.options, lane)
            })
        })
    })
}

/// Whether a round would change anything, found without building keys.
fn anything_due(state: &State, now_ms: i64, cleanup_after: Duration) -> bool {
    !state.expired(now_ms, 1).is_empty()
        || state.tenants().any(|(_, tenant)| {
            tenant.queues.values().any(|queue| {
                queue.lanes.values().any(|lane| {
                    is_abandoned(lane, now_ms, cleanup_after)
                        || Cutoff::of(&queue.row.options, lane, now_ms).is_due(lane)
                })
            })
        })
}
