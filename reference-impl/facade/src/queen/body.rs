//! Request bodies of several slices, and reading answers under a bound.

use std::collections::VecDeque;
use std::convert::Infallible;
use std::pin::Pin;
use std::task::{Context, Poll};

use bytes::{Bytes, BytesMut};
use host::answers::Answers;
use host::budget::Reservation;
use hyper::body::{Body, Frame, Incoming, SizeHint};

/// A request body: slices sent one behind the other, never joined.
#[derive(Clone, Debug, Default)]
pub(super) struct Chunks {
    chunks: VecDeque<Bytes>,
    bytes: u64,
}

impl Chunks {
    /// Adds a slice at the end.
    pub(super) fn push(&mut self, chunk: Bytes) {
        if !chunk.is_empty() {
            self.bytes += chunk.len() as u64;
            self.chunks.push_back(chunk);
        }
    }

    /// The length of the whole body.
    pub(super) fn len_bytes(&self) -> u64 {
        self.bytes
    }
}

impl From<Vec<u8>> for Chunks {
    fn from(body: Vec<u8>) -> Self {
        let mut chunks = Self::default();
        chunks.push(body.into());
        chunks
    }
}

impl Body for Chunks {
    type Data = Bytes;
    type Error = Infallible;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        _cx: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, Infallible>>> {
        let chunk = self.chunks.pop_front();
        if let Some(chunk) = &chunk {
            self.bytes -= chunk.len() as u64;
        }
        Poll::Ready(chunk.map(|chunk| Ok(Frame::data(chunk))))
    }

    fn is_end_stream(&self) -> bool {
        self.chunks.is_empty()
    }

    fn size_hint(&self) -> SizeHint {
        SizeHint::with_exact(self.bytes)
    }
}

/// Why an answer could not be read to its end.
#[derive(Debug)]
pub(super) enum ReadError {
    /// It is longer than the bound.
    TooLong,
    /// The connection ended first.
    Lost(hyper::Error),
}

/// Reads `body` to its end; nothing beyond `bound` bytes is kept. Room is taken before anything is
/// read, or as it comes when no length is declared.
pub(super) async fn collect(
    mut body: Incoming,
    bound: usize,
    reads: &Answers,
) -> Result<(Bytes, Reservation), ReadError> {
    use http_body_util::BodyExt;

    let declared = body.size_hint().exact();
    if declared.is_some_and(|length| length > bound as u64) {
        return Err(ReadError::TooLong);
    }
    let expected = declared.map_or(bound, |length| length as usize);
    let mut room = reads.nothing(expected);
    if declared.is_some() {
        // Within the bound, which is within `u32`. The call has a deadline.
        room = room.grow(expected as u32).await;
    }
    let mut first = Bytes::new();
    let mut joined = BytesMut::new();
    while let Some(frame) = body.frame().await {
        // Trailers carry nothing that the contract knows.
        let Ok(data) = frame.map_err(ReadError::Lost)?.into_data() else {
            continue;
        };
        let so_far = first.len() + joined.len();
        if data.len() > bound - so_far {
            return Err(ReadError::TooLong);
        }
        let missing = (so_far + data.len()).saturating_sub(room.bytes());
        if missing > 0 {
            room = room.grow(missing as u32).await;
        }
        if so_far == 0 {
            first = data;
            continue;
        }
        if joined.is_empty() {
            // A declared length is within the bound here, so it may be reserved at once.
            joined.reserve(declared.map_or(2 * (so_far + data.len()), |length| length as usize));
            joined.extend_from_slice(&std::mem::take(&mut first));
        }
        joined.extend_from_slice(&data);
    }
    let whole = if joined.is_empty() {
        first
    } else {
        joined.freeze()
    };
    Ok((whole, room))
}
