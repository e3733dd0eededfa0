//! From the transaction id that an ack shows to the offset of its record.

use std::sync::Arc;

use indexmap::IndexMap;
use uuid::Uuid;

use super::rows::LaneAt;
use crate::engine::Shared;
use crate::engine::read::{self, UnknownLane, Want};
use crate::engine::segment::{Segment, records};
use crate::ids::MessageId;
use crate::store::StoreError;

/// Records looked through in front of a cursor that nothing is leased behind.
const UNLEASED_SPAN: i64 = 10_000;
/// Records looked through below a cursor for what was consumed before.
const BELOW_SPAN: i64 = 1000;
/// Stored bytes read at once.
const READ_BYTES: usize = 4 << 20;

/// A record that an ack names.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Resolved {
    /// Where it is.
    pub offset: i64,
    /// Its id.
    pub message_id: MessageId,
    /// JSON text; of records that may be handed out now.
    pub payload: Option<Arc<str>>,
}

/// What is looked for in a lane.
#[derive(Debug)]
pub struct Question<'a> {
    /// Which lane.
    pub at: &'a LaneAt,
    /// The group's cursor there.
    pub committed: i64,
    /// The last offset handed out, when a batch is.
    pub batch_end: Option<i64>,
    /// Transaction ids.
    pub ids: Vec<&'a str>,
}

/// Finds each id's record: among what is handed out first, then anywhere the lane remembers.
///
/// # Errors
/// The store.
pub async fn resolve(
    shared: &Arc<Shared>,
    question: &Question<'_>,
) -> Result<Vec<Option<Resolved>>, StoreError> {
    let Some((log_start, high_watermark)) = bounds(shared, question.at) else {
        return Ok(vec![None; question.ids.len()]);
    };
    let mut search = Search {
        shared,
        at: question.at,
        wanted: IndexMap::new(),
        found: vec![None; question.ids.len()],
    };
    for (position, id) in question.ids.iter().enumerate() {
        search.wanted.entry(*id).or_default().push(position);
    }
    let from = (question.committed + 1).max(log_start);
    let to = match question.batch_end {
        Some(batch_end) => batch_end.saturating_add(1),
        None => from.saturating_add(UNLEASED_SPAN),
    };
    search.span(from, to.min(high_watermark), true).await?;
    search.remembered();
    search.by_time().await?;
    let below = from.saturating_sub(BELOW_SPAN).max(log_start);
    search.span(below, from, false).await?;
    Ok(search.found)
}

fn bounds(shared: &Shared, at: &LaneAt) -> Option<(i64, i64)> {
    let state = shared.read();
    let key = &at.key;
    let lane = state.lane(key.tenant, &key.queue, &key.lane)?;
    (lane.row.uid == at.uid).then_some((lane.row.log_start, lane.row.high_watermark))
}

struct Search<'a> {
    shared: &'a Arc<Shared>,
    at: &'a LaneAt,
    /// Ids not found yet, with their positions in the question.
    wanted: IndexMap<&'a str, Vec<usize>>,
    found: Vec<Option<Resolved>>,
}

impl Search<'_> {
    fn settle(&mut self, id: &str, resolved: &Resolved) {
        for position in self.wanted.swap_remove(id).into_iter().flatten() {
            self.found[position] = Some(resolved.clone());
        }
    }

    /// Looks through records one by one.
    async fn span(&mut self, from: i64, to: i64, keep: bool) -> Result<(), StoreError> {
        let mut next = from;
        while next < to && !self.wanted.is_empty() {
            let segments = self.segments(next).await?;
            let before = next;
            for segment in segments {
                next = segment.end_offset();
                self.look_through(&segment, from..to, keep)?;
                if next >= to {
                    break;
                }
            }
            if next == before {
                break;
            }
        }
        Ok(())
    }

    async fn segments(&self, offset: i64) -> Result<Vec<Arc<Segment>>, StoreError> {
        let want = Want {
            queue: self.at.key.queue.to_string(),
            lane: self.at.key.lane.to_string(),
            offset,
            max_bytes: READ_BYTES,
        };
        let tenant = self.at.key.tenant;
        let found =
            read::read(self.shared, tenant, &[want], READ_BYTES, UnknownLane::Empty).await?;
        Ok(found
            .into_iter()
            .next()
            .map(|found| found.segments)
            .unwrap_or_default())
    }

    fn look_through(
        &mut self,
        segment: &Segment,
        span: std::ops::Range<i64>,
        keep: bool,
    ) -> Result<(), StoreError> {
        const DAMAGED: StoreError = StoreError::Damaged("segment");
        let raw = segment.packed.unpack().map_err(|_| DAMAGED)?;
        for (record, offset) in records(&raw).zip(segment.base_offset..) {
            let record = record.map_err(|_| DAMAGED)?;
            if !span.contains(&offset) {
                continue;
            }
            let message_id = segment.message_id(offset);
            let minted;
            let id = match record.transaction_id {
                Some(id) => id,
                None => {
                    minted = message_id.to_string();
                    &minted
                }
            };
            if self.wanted.contains_key(id) {
                let resolved = Resolved {
                    offset,
                    message_id,
                    payload: keep.then(|| record.payload.into()),
                };
                self.settle(id, &resolved);
            }
        }
        Ok(())
    }

    /// Callers' ids that the deduplication window knows.
    fn remembered(&mut self) {
        let mut known = Vec::new();
        {
            let state = self.shared.read();
            let key = &self.at.key;
            let Some(lane) = state.lane(key.tenant, &key.queue, &key.lane) else {
                return;
            };
            for id in self.wanted.keys() {
                if let Some(at) = lane.dedup.find(id, i64::MIN) {
                    let resolved = Resolved {
                        offset: at.offset,
                        message_id: at.message_id,
                        payload: None,
                    };
                    known.push(((*id).to_owned(), resolved));
                }
            }
        }
        for (id, resolved) in known {
            self.settle(&id, &resolved);
        }
    }

    /// Minted ids carry the instant of their append.
    async fn by_time(&mut self) -> Result<(), StoreError> {
        let minted: Vec<Uuid> = self
            .wanted
            .keys()
            .filter_map(|id| Uuid::try_parse(id).ok())
            .collect();
        for uuid in minted {
            let Some((seconds, nanos)) = uuid.get_timestamp().map(|at| at.to_unix()) else {
                continue;
            };
            let ms = i64::try_from(seconds)
                .unwrap_or(i64::MAX / 1_000_000)
                .saturating_mul(1000)
                .saturating_add(i64::from(nanos / 1_000_000));
            let key = &self.at.key;
            let (_, first) = read::first_since(
                self.shared,
                key.tenant,
                &key.queue,
                &key.lane,
                ms.saturating_mul(1000),
                UnknownLane::Empty,
            )
            .await?;
            let Some((offset, _)) = first else { continue };
            for segment in self.segments(offset).await? {
                if segment.created_us / 1000 > ms {
                    break;
                }
                let distance = uuid.as_u128().wrapping_sub(segment.first_id.0);
                if distance < u128::from(segment.packed.count) {
                    // Below the count of a segment, which is a `u32`.
                    let offset = segment.base_offset + i64::try_from(distance).unwrap_or(0);
                    self.look_through(&segment, offset..offset + 1, false)?;
                }
            }
        }
        Ok(())
    }
}
