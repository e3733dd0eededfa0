//! Reading records: bounds and segments under the lock, disk and decompression outside of it.

use std::sync::Arc;

use super::Shared;
use super::segment::Segment;
use super::state::State;
use crate::ids::{LaneUid, TenantId};
use crate::store::StoreError;

/// What is asked of one lane.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Want {
    /// Queue name.
    pub queue: String,
    /// Lane name.
    pub lane: String,
    /// First offset wanted; not negative.
    pub offset: i64,
    /// Stored bytes to read at most, though at least one segment is found.
    pub max_bytes: usize,
}

/// What a lane had.
#[derive(Clone, Debug, Default)]
pub struct Found {
    /// Why there are no records.
    pub error: Option<FetchError>,
    /// What a next append receives.
    pub high_watermark: i64,
    /// First offset still readable.
    pub log_start: i64,
    /// Segments from the one that holds the wanted offset on.
    pub segments: Vec<Arc<Segment>>,
}

/// An entry's error. The text is part of the contract.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum FetchError {
    /// No such queue.
    UnknownTopicOrPartition,
    /// Below the log's start or behind its end.
    OffsetOutOfRange,
}

impl FetchError {
    /// As it is printed.
    pub const fn text(self) -> &'static str {
        match self {
            Self::UnknownTopicOrPartition => "UNKNOWN_TOPIC_OR_PARTITION",
            Self::OffsetOutOfRange => "OFFSET_OUT_OF_RANGE",
        }
    }
}

/// Lanes that were never pushed to.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum UnknownLane {
    /// An empty log (1.4 and later).
    #[default]
    Empty,
    /// An error (before 1.4).
    Unknown,
}

/// How often a read is begun again because retention removed what it was about to read.
const RETRIES: usize = 3;

/// Bounds of a lane, or the error it answers with.
pub fn bounds(
    state: &State,
    tenant: TenantId,
    queue: &str,
    lane: &str,
    unknown_lane: UnknownLane,
) -> Found {
    let unknown = Found {
        error: Some(FetchError::UnknownTopicOrPartition),
        ..Found::default()
    };
    let Some(queue) = state.queue(tenant, queue) else {
        return unknown;
    };
    match queue.lanes.get(lane) {
        None if unknown_lane == UnknownLane::Unknown => unknown,
        None => Found::default(),
        Some(lane) => Found {
            high_watermark: lane.row.high_watermark,
            log_start: lane.row.log_start,
            ..Found::default()
        },
    }
}

/// A read that the lane's tail can't serve.
struct Cold {
    entry: usize,
    uid: LaneUid,
    offset: i64,
    end_offset: i64,
    max_bytes: usize,
}

/// Reads every lane wanted, spending at most `call_bytes` in request order. Each entry gets whole
/// segments until a budget is crossed; cutting them to records is the caller's.
///
/// # Errors
/// The store.
pub async fn read(
    shared: &Arc<Shared>,
    tenant: TenantId,
    wants: &[Want],
    call_bytes: usize,
    unknown_lane: UnknownLane,
) -> Result<Vec<Found>, StoreError> {
    for _ in 0..RETRIES {
        let (mut found, cold) = plan(shared, tenant, wants, call_bytes, unknown_lane);
        let (Some(store), false) = (&shared.store, cold.is_empty()) else {
            return Ok(found);
        };
        let store = Arc::clone(store);
        let read = shared
            .host
            .blocking
            .run(move || {
                let mut read = Vec::with_capacity(cold.len());
                for cold in &cold {
                    let segments =
                        store.segments(cold.uid, cold.offset, cold.end_offset, cold.max_bytes)?;
                    read.push(segments);
                }
                Ok::<_, StoreError>((cold, read))
            })
            .await?;
        let (cold, read) = read;
        let mut complete = true;
        for (cold, mut segments) in cold.into_iter().zip(read) {
            complete &= segments
                .first()
                .is_some_and(|first| first.base_offset <= cold.offset);
            let end = segments.last().map(|last| last.end_offset());
            let found = &mut found[cold.entry];
            if end == Some(cold.end_offset) {
                // The tail goes on where the disk's part ends.
                let spent: usize = segments.iter().map(|s| s.stored_bytes()).sum();
                let mut left = cold.max_bytes.saturating_sub(spent);
                take(&mut segments, found.segments.iter(), &mut left);
            }
            found.segments = segments;
        }
        if complete {
            return Ok(found);
        }
    }
    // Retention outran three reads: nothing was there each time we looked.
    Ok(plan(shared, tenant, wants, 0, unknown_lane).0)
}

/// Takes segments until the budget is crossed.
fn take<'a>(
    to: &mut Vec<Arc<Segment>>,
    from: impl Iterator<Item = &'a Arc<Segment>>,
    budget: &mut usize,
) {
    for segment in from {
        if *budget == 0 {
            break;
        }
        *budget = budget.saturating_sub(segment.stored_bytes());
        to.push(Arc::clone(segment));
    }
}

fn plan(
    shared: &Shared,
    tenant: TenantId,
    wants: &[Want],
    call_bytes: usize,
    unknown_lane: UnknownLane,
) -> (Vec<Found>, Vec<Cold>) {
    let state = shared.read();
    let mut left = call_bytes;
    let mut cold = Vec::new();
    let found = wants
        .iter()
        .enumerate()
        .map(|(entry, want)| {
            let mut found = bounds(&state, tenant, &want.queue, &want.lane, unknown_lane);
            debug_assert!(found.log_start <= found.high_watermark);
            if found.error.is_some() || want.offset == found.high_watermark {
                return found;
            }
            if !(found.log_start..found.high_watermark).contains(&want.offset) {
                found.error = Some(FetchError::OffsetOutOfRange);
                return found;
            }
            let Some(lane) = state.lane(tenant, &want.queue, &want.lane) else {
                return found;
            };
            if left == 0 {
                return found;
            }
            let mut budget = want.max_bytes.min(left);
            let tail_start = lane.tail_start();
            if want.offset < tail_start {
                cold.push(Cold {
                    entry,
                    uid: lane.row.uid,
                    offset: want.offset,
                    end_offset: tail_start,
                    max_bytes: budget,
                });
                // How much the disk gives is known only afterwards: the call pays for all of it.
                left -= budget;
                take(&mut found.segments, lane.tail.iter(), &mut budget);
                return found;
            }
            let before = budget;
            take(
                &mut found.segments,
                lane.tail_from(want.offset),
                &mut budget,
            );
            left -= before - budget;
            found
        })
        .collect();
    (found, cold)
}

/// The first record of a lane appended at or after an instant, with its append instant, and the
/// lane's bounds.
///
/// # Errors
/// The store.
pub async fn first_since(
    shared: &Arc<Shared>,
    tenant: TenantId,
    queue: &str,
    lane: &str,
    instant_us: i64,
    unknown_lane: UnknownLane,
) -> Result<(Found, Option<(i64, i64)>), StoreError> {
    let (found, uid, tail_start, in_tail) = {
        let state = shared.read();
        let found = bounds(&state, tenant, queue, lane, unknown_lane);
        let Some(lane) = state.lane(tenant, queue, lane) else {
            return Ok((found, None));
        };
        let at = lane
            .tail
            .partition_point(|segment| segment.created_us < instant_us);
        let in_tail = lane
            .tail
            .get(at)
            .map(|segment| (segment.base_offset, segment.created_us));
        // Times never fall, so a later segment of the tail is the first of all.
        if at > 0 {
            return Ok((found, in_tail));
        }
        (found, lane.row.uid, lane.tail_start(), in_tail)
    };
    let (Some(store), true) = (&shared.store, found.log_start < tail_start) else {
        return Ok((found, in_tail));
    };
    let (store, log_start) = (Arc::clone(store), found.log_start);
    let on_disk = shared
        .host
        .blocking
        .run(move || store.first_since(uid, log_start, tail_start, instant_us))
        .await?
        .map(|header| (header.base_offset, header.created_us));
    Ok((found, on_disk.or(in_tail)))
}

/// When the record at `offset` was appended; `None` when it isn't there.
///
/// # Errors
/// The store.
pub async fn append_instant(
    shared: &Arc<Shared>,
    tenant: TenantId,
    queue: &str,
    lane: &str,
    offset: i64,
) -> Result<Option<i64>, StoreError> {
    let want = Want {
        queue: queue.to_owned(),
        lane: lane.to_owned(),
        offset,
        max_bytes: 1,
    };
    let found = read(shared, tenant, &[want], 1, UnknownLane::Empty).await?;
    Ok(found
        .first()
        .and_then(|found| found.segments.first())
        .map(|segment| segment.created_us))
}
