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
                segments.append(&mut found.segments);
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
                // How much the disk gives is known only afterwards: the whole budget is its.
                cold.push(Cold {
                    entry,
                    uid: lane.row.uid,
                    offset: want.offset,
                    end_offset: tail_start,
                    max_bytes: budget,
                });
                left -= budget;
                return found;
            }
            for segment in lane.tail_from(want.offset) {
                found.segments.push(Arc::clone(segment));
                let bytes = segment.stored_bytes();
                left = left.saturating_sub(bytes);
                budget = budget.saturating_sub(bytes);
                if budget == 0 {
                    break;
                }
            }
            found
        })
        .collect();
    (found, cold)
}
