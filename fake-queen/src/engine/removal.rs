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
                if is_abandoned(&lane.row, now_ms, lane_cleanup_after) {
                    changes.push(Change::DropLane(key, lane.row.uid));
                } else if let Some(cutoff_us) = cutoff_us(options, now_ms)
                    && lane.row.segments > 0
                    && lane.row.oldest_us < cutoff_us
                {
                    let row = trimmed(lane, store, cutoff_us)?;
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

/// Append instants before this are too old; `None` when the queue keeps everything.
///
/// `completedRetentionSeconds` and a sink's hold need consumers' progress, which no lane has yet.
fn cutoff_us(options: &QueueOptions, now_ms: i64) -> Option<i64> {
    let retention = options
        .retention_enabled
        .then_some(options.retention_seconds);
    let seconds = [retention, Some(options.max_wait_time_seconds)]
        .into_iter()
        .flatten()
        .filter(|seconds| *seconds > 0)
        .min()?;
    Some(
        now_ms
            .saturating_sub(seconds.saturating_mul(1000))
            .saturating_mul(1000),
    )
}

fn is_abandoned(row: &LaneRow, now_ms: i64, cleanup_after: Duration) -> bool {
    let after_ms = i64::try_from(cleanup_after.as_millis()).unwrap_or(i64::MAX);
    row.segments == 0 && row.last_append_us / 1000 < now_ms.saturating_sub(after_ms)
}

/// The row of a lane without its segments from before `cutoff_us`.
fn trimmed(lane: &Lane, store: Option<&Store>, cutoff_us: i64) -> Result<LaneRow, StoreError> {
    let mut row = lane.row.clone();
    let mut step = |base_offset, created_us, bytes: u64, end_offset| {
        debug_assert_eq!(row.log_start, base_offset);
        if created_us >= cutoff_us {
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
                let cutoff = cutoff_us(&queue.row.options, now_ms);
                queue.lanes.values().any(|lane| {
                    is_abandoned(&lane.row, now_ms, cleanup_after)
                        || cutoff.is_some_and(|cutoff| {
                            lane.row.segments > 0 && lane.row.oldest_us < cutoff
                        })
                })
            })
        })
}
