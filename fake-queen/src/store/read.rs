//! Reading segments back: by offset, by age, by append instant.

use std::sync::Arc;

use redb::ReadableDatabase;

use super::rows::SegmentHeader;
use super::tables::{BODIES, HEADERS};
use super::{Store, StoreError};
use crate::engine::segment::Segment;
use crate::ids::LaneUid;

impl Store {
    /// Segments of a lane from the one that holds `offset` on, below `end_offset`, until
    /// `max_bytes` are crossed. Empty when nothing is there any more.
    ///
    /// # Errors
    /// The disk, or a damaged row.
    pub fn segments(
        &self,
        lane: LaneUid,
        offset: i64,
        end_offset: i64,
        max_bytes: usize,
    ) -> Result<Vec<Arc<Segment>>, StoreError> {
        self.using(|database| {
            let transaction = database.begin_read()?;
            let headers = transaction.open_table(HEADERS)?;
            let bodies = transaction.open_table(BODIES)?;
            let from = headers
                .range((lane.0, i64::MIN)..=(lane.0, offset))?
                .next_back()
                .transpose()?
                .map_or(offset, |(key, _)| key.value().1);
            let mut segments = Vec::new();
            let mut spent = 0;
            for header in headers.range((lane.0, from)..(lane.0, end_offset))? {
                let (key, header) = header?;
                let header = SegmentHeader::decode(key.value().1, header.value())
                    .ok_or(StoreError::Damaged("segment"))?;
                if header.end_offset() <= offset {
                    continue;
                }
                let body = bodies
                    .get(key.value())?
                    .ok_or(StoreError::Damaged("segment"))?;
                segments.push(Arc::new(header.segment(body.value())));
                spent += body.value().len();
                if spent >= max_bytes {
                    break;
                }
            }
            Ok(segments)
        })
    }

    /// Shows a lane's segments, oldest first, without their records, until `visit` is false.
    ///
    /// # Errors
    /// The disk, or a damaged row.
    pub fn visit_headers(
        &self,
        lane: LaneUid,
        visit: &mut dyn FnMut(SegmentHeader) -> bool,
    ) -> Result<(), StoreError> {
        self.using(|database| {
            let transaction = database.begin_read()?;
            let headers = transaction.open_table(HEADERS)?;
            for header in headers.range((lane.0, i64::MIN)..=(lane.0, i64::MAX))? {
                let (key, header) = header?;
                let header = SegmentHeader::decode(key.value().1, header.value())
                    .ok_or(StoreError::Damaged("segment"))?;
                if !visit(header) {
                    break;
                }
            }
            Ok(())
        })
    }

    /// The first segment of a lane appended at or after `instant_us`, found by halving the range
    /// of offsets: append instants never fall within a lane.
    ///
    /// # Errors
    /// The disk, or a damaged row.
    pub fn first_since(
        &self,
        lane: LaneUid,
        log_start: i64,
        end_offset: i64,
        instant_us: i64,
    ) -> Result<Option<SegmentHeader>, StoreError> {
        self.using(|database| {
            let transaction = database.begin_read()?;
            let headers = transaction.open_table(HEADERS)?;
            let (mut low, mut high, mut found) = (log_start, end_offset, None);
            while low < high {
                let middle = low + (high - low) / 2;
                let Some(header) = headers
                    .range((lane.0, i64::MIN)..=(lane.0, middle))?
                    .next_back()
                    .transpose()?
                else {
                    low = middle + 1;
                    continue;
                };
                let header = SegmentHeader::decode(header.0.value().1, header.1.value())
                    .ok_or(StoreError::Damaged("segment"))?;
                if header.created_us >= instant_us {
                    high = header.base_offset;
                    found = Some(header);
                } else {
                    low = header.end_offset();
                }
            }
            Ok(found)
        })
    }
}
