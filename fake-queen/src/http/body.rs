//! Request bodies: read whole, below the ceiling, within the memory that all bodies share.

use std::time::Duration;

use bytes::{Bytes, BytesMut};
use http_body_util::BodyExt;
use hyper::body::{Body, Incoming};
use tokio::sync::{Semaphore, SemaphorePermit};

use super::error::ApiError;

/// Bytes per permit of the memory that all bodies share.
const UNIT: usize = 1024;

/// Memory taken once a body's first bytes are there, however long it says it is.
const FIRST_RESERVE: usize = 1 << 20;

/// A body that pauses for longer gives its memory back.
const STALL: Duration = Duration::from_secs(30);

/// The room for request bodies.
#[derive(Debug)]
pub struct Intake {
    max_body_bytes: usize,
    inflight_units: usize,
    budget: Semaphore,
}

impl Intake {
    /// Room for bodies of `max_body_bytes` each and `max_inflight_bytes` together.
    pub fn new(max_body_bytes: usize, max_inflight_bytes: usize) -> Self {
        let inflight_units = (max_inflight_bytes / UNIT).min(Semaphore::MAX_PERMITS);
        Self {
            max_body_bytes,
            inflight_units,
            budget: Semaphore::new(inflight_units),
        }
    }

    /// Reads a body. Hold the permit as long as the bytes.
    ///
    /// # Errors
    /// [`ApiError::BodyTooLarge`], [`ApiError::BodyTimedOut`], or a connection that breaks off.
    pub async fn read(
        &self,
        mut body: Incoming,
    ) -> Result<(Bytes, Option<SemaphorePermit<'_>>), ApiError> {
        let limit = self.max_body_bytes;
        let hint = body.size_hint();
        let expected = hint
            .upper()
            .map_or(limit, |upper| usize::try_from(upper).unwrap_or(usize::MAX));
        if expected > limit {
            return Err(ApiError::BodyTooLarge);
        }
        if expected == 0 {
            return Ok((Bytes::new(), None));
        }
        let units = expected.div_ceil(UNIT).min(self.inflight_units);
        // Never closed.
        let permit = self
            .budget
            .acquire_many(u32::try_from(units).unwrap_or(u32::MAX))
            .await
            .ok();
        let mut whole = BytesMut::new();
        let mut only: Option<Bytes> = None;
        loop {
            let frame = tokio::time::timeout(STALL, body.frame())
                .await
                .map_err(|_| ApiError::BodyTimedOut)?;
            let Some(frame) = frame else { break };
            let Ok(data) = frame
                .map_err(|error| ApiError::BadBody(error.to_string()))?
                .into_data()
            else {
                continue;
            };
            if whole.len() + only.as_ref().map_or(0, Bytes::len) + data.len() > limit {
                return Err(ApiError::BodyTooLarge);
            }
            match only.take() {
                // A body that came in one piece isn't copied.
                None if whole.is_empty() => only = Some(data),
                None => whole.extend_from_slice(&data),
                Some(first) => {
                    whole.reserve(expected.min(FIRST_RESERVE).max(first.len() + data.len()));
                    whole.extend_from_slice(&first);
                    whole.extend_from_slice(&data);
                }
            }
        }
        Ok((only.unwrap_or_else(|| whole.freeze()), permit))
    }
}
