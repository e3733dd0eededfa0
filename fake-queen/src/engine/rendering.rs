//! The memory that large answers of all calls hold together until they are written.
//!
//! An answer is rendered whole, 64 MiB at most; without a bound a crowd of readers would have as many
//! of them rendered as it has connections.

use std::sync::Arc;

use bytes::Bytes;
use tokio::sync::{OwnedSemaphorePermit, Semaphore};

/// What answers above [`MEDIUM_BYTES`] may hold.
const LARGE_ROOM_BYTES: usize = 96 << 20;
/// What others may hold: they wait for each other only.
const MEDIUM_ROOM_BYTES: usize = 32 << 20;
/// The largest of those others.
const MEDIUM_BYTES: usize = 2 << 20;
/// The unit.
const PERMIT_BYTES: usize = 1024;
/// Answers below this size don't wait.
const SMALL_BYTES: usize = 256 << 10;

/// The room of one Queen.
#[derive(Debug)]
pub struct Rendering {
    medium: Arc<Semaphore>,
    large: Arc<Semaphore>,
}

/// A part of it, given back when dropped.
#[derive(Debug)]
pub struct Room(Option<OwnedSemaphorePermit>);

impl Default for Rendering {
    fn default() -> Self {
        let room = |bytes| Arc::new(Semaphore::new(bytes / PERMIT_BYTES));
        Self {
            medium: room(MEDIUM_ROOM_BYTES),
            large: room(LARGE_ROOM_BYTES),
        }
    }
}

impl Rendering {
    /// Waits for room for an answer of about `bytes`.
    pub async fn room(&self, bytes: usize) -> Room {
        if bytes < SMALL_BYTES {
            return Room(None);
        }
        let room = if bytes <= MEDIUM_BYTES {
            &self.medium
        } else {
            &self.large
        };
        // Within the number of permits, which is within `u32`.
        let permits = bytes.min(LARGE_ROOM_BYTES).div_ceil(PERMIT_BYTES) as u32;
        let permit = Arc::clone(room).acquire_many_owned(permits).await;
        // Nobody closes the semaphore.
        Room(permit.ok())
    }
}

impl Room {
    /// The bytes of an answer, which hold the room until the last of them is written.
    pub fn hold(self, answer: Vec<u8>) -> Bytes {
        match self.0 {
            None => answer.into(),
            Some(permit) => Bytes::from_owner(Held {
                answer,
                _permit: permit,
            }),
        }
    }
}

struct Held {
    answer: Vec<u8>,
    _permit: OwnedSemaphorePermit,
}

impl AsRef<[u8]> for Held {
    fn as_ref(&self) -> &[u8] {
        &self.answer
    }
}

#[cfg(test)]
mod tests {
    use futures::FutureExt;

    use super::*;

    #[tokio::test]
    async fn large_answers_wait_for_each_other_and_small_ones_for_nobody() {
        let rendering = Rendering::default();
        let first = rendering.room(usize::MAX).await.hold(vec![7; 10]);
        let part = first.slice(..1);
        let large = MEDIUM_BYTES + 1;
        assert!(rendering.room(large).now_or_never().is_none());
        let medium: Vec<_> = (0..16)
            .map(|_| rendering.room(MEDIUM_BYTES).now_or_never())
            .collect();
        assert!(medium.iter().all(Option::is_some));
        assert!(rendering.room(MEDIUM_BYTES).now_or_never().is_none());
        assert!(rendering.room(SMALL_BYTES - 1).now_or_never().is_some());
        drop(first);
        assert!(rendering.room(large).now_or_never().is_none());
        drop(part);
        assert!(rendering.room(large).now_or_never().is_some());
    }
}
