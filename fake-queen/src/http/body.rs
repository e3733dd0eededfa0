//! Request bodies: read whole, below the ceiling, within the memory that all bodies share.
//!
//! Memory is taken as bytes arrive, so an announced length buys nothing. A body that comes slower
//! than [`host::frame::MIN_BYTES_PER_SECOND`] is given up after [`STALL`], and sooner when others wait
//! for the memory that it holds.

use std::time::Duration;

use bytes::{Bytes, BytesMut};
use host::budget::late::Holder;
use host::budget::{Budget, BudgetMetrics, Reservation};
use host::frame::Pace;
use http_body_util::BodyExt;
use hyper::body::{Body, Incoming};

use super::error::ApiError;

/// Memory taken once a body's first bytes are there, however long it says it is.
const FIRST_RESERVE: usize = 1 << 20;

/// How far a body may fall behind the slowest pace.
pub const STALL: Duration = Duration::from_secs(30);

/// What every body may hold in any case: small calls pass by large ones.
const ALWAYS: usize = 16 << 10;

/// The room for request bodies.
#[derive(Debug)]
pub struct Intake {
    max_body_bytes: usize,
    budget: Budget,
}

/// What a body holds, of all the room and of its tenant's share.
#[derive(Debug)]
pub struct Held {
    _all: Reservation,
    _share: Option<Reservation>,
}

impl Intake {
    /// Room for bodies of `max_body_bytes` each and `max_inflight_bytes` together.
    pub fn new(max_body_bytes: usize, max_inflight_bytes: usize) -> Self {
        Self {
            max_body_bytes,
            budget: room(max_inflight_bytes),
        }
    }

    /// Reads a body, within `share` too when there is one. Hold what comes with the bytes as long as
    /// the bytes.
    ///
    /// # Errors
    /// [`ApiError::BodyTooLarge`], [`ApiError::BodyTimedOut`], or a connection that breaks off.
    pub async fn read(
        &self,
        mut body: Incoming,
        share: Option<&Budget>,
    ) -> Result<(Bytes, Held), ApiError> {
        let limit = self.max_body_bytes;
        let hint = body.size_hint();
        let expected = hint
            .upper()
            .map_or(limit, |upper| usize::try_from(upper).unwrap_or(usize::MAX));
        if expected > limit {
            return Err(ApiError::BodyTooLarge);
        }
        let mut room = Room {
            all: self.budget.reservation(),
            share: share.map(Budget::reservation),
            pace: Pace::start(),
            holder: Holder::default(),
        };
        let mut whole = BytesMut::new();
        let mut only: Option<Bytes> = None;
        loop {
            let Some(frame) = room.wait(body.frame()).await? else {
                break;
            };
            let Ok(data) = frame
                .map_err(|error| ApiError::BadBody(error.to_string()))?
                .into_data()
            else {
                continue;
            };
            if whole.len() + only.as_ref().map_or(0, Bytes::len) + data.len() > limit {
                return Err(ApiError::BodyTooLarge);
            }
            room = room.grown(data.len()).await;
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
        let held = Held {
            _all: room.all,
            _share: room.share,
        };
        Ok((only.unwrap_or_else(|| whole.freeze()), held))
    }
}

/// A budget for bodies.
pub fn room(bytes: usize) -> Budget {
    Budget::with_always(bytes, ALWAYS, &BudgetMetrics::default())
}

/// What a body that is coming holds, and how its sender keeps up.
struct Room {
    all: Reservation,
    share: Option<Reservation>,
    pace: Pace,
    holder: Holder,
}

impl Room {
    /// Waits for the sender's part, no longer than it may owe it.
    async fn wait<T>(&mut self, part: impl Future<Output = T>) -> Result<T, ApiError> {
        let since = self.pace.paid_until();
        for held in [Some(&mut self.all), self.share.as_mut()]
            .into_iter()
            .flatten()
        {
            held.is_late(since, &self.holder);
        }
        let arrived = tokio::select! {
            biased;
            arrived = part => arrived,
            () = std::future::poll_fn(|cx| self.holder.poll_evicted(cx)) => {
                return Err(ApiError::BodyTimedOut);
            }
            () = tokio::time::sleep_until(since + STALL) => return Err(ApiError::BodyTimedOut),
        };
        self.all.is_prompt();
        if let Some(share) = &mut self.share {
            share.is_prompt();
        }
        Ok(arrived)
    }

    /// Takes the room of bytes that have arrived. The sender is not to blame for the wait.
    async fn grown(mut self, bytes: usize) -> Self {
        self.pace.moved(bytes);
        let began = tokio::time::Instant::now();
        // hyper hands out no more than its buffer at once.
        let more = u32::try_from(bytes).unwrap_or(u32::MAX);
        if let Some(share) = self.share.take() {
            self.share = Some(share.grow(more).await);
        }
        self.all = self.all.grow(more).await;
        if began.elapsed() > Duration::ZERO {
            self.pace = Pace::start();
        }
        self
    }
}
