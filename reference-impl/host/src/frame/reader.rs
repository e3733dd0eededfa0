//! Reads frames. Checks the length before it allocates, allocates as bytes arrive, and reserves
//! from the budget before it allocates.

use std::io;
use std::mem::MaybeUninit;
use std::pin::{Pin, pin};
use std::task::{Context, Poll, ready};
use std::time::Duration;

use bytes::{Buf, BufMut, Bytes, BytesMut};
use futures::future::BoxFuture;
use tokio::io::{AsyncRead, AsyncReadExt, ReadBuf};
use tokio::time::{Instant, Sleep, sleep_until};

use super::Pace;
use crate::budget::late::Holder;
use crate::budget::{Budget, Reservation};

/// Bytes of the length.
const PREFIX: usize = 4;
/// What one read takes when no frame is in progress: it lives on the stack, so an idle connection
/// owns no buffer, and several small frames cost one system call.
const SIP_BYTES: usize = 8 * 1024;
/// The first allocation for a frame; each further one doubles what has arrived.
const FIRST_STEP_BYTES: usize = 16 * 1024;

/// The bounds of a reader.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ReadLimits {
    /// The largest frame, without its length.
    pub max_frame_bytes: u32,
    /// Between frames.
    pub idle: Duration,
    /// Behind the slowest pace inside a frame.
    pub stall: Duration,
}

/// A whole frame, and the room it holds in the budget until it is dropped.
#[derive(Debug)]
pub struct Frame {
    /// The bytes behind the length.
    pub bytes: Bytes,
    /// Room for them; move it to what outlives the frame.
    pub reservation: Reservation,
}

/// Why reading ended. The stream is of no use for reading afterwards.
#[derive(Debug, thiserror::Error)]
pub enum ReadError {
    /// The length is negative.
    #[error("negative frame length {0}")]
    Negative(i32),
    /// The length is above the limit.
    #[error("frame of {length} bytes is above the limit of {limit}")]
    TooLong {
        /// Bytes the peer announced.
        length: u32,
        /// Bytes it may send.
        limit: u32,
    },
    /// The peer closed inside a frame.
    #[error("closed inside a frame")]
    Truncated,
    /// Nothing arrived between frames for [`ReadLimits::idle`].
    #[error("idle")]
    Idle,
    /// Inside a frame the peer fell [`ReadLimits::stall`] behind [`super::MIN_BYTES_PER_SECOND`].
    #[error("stalled inside a frame")]
    Stalled,
    /// The stream failed.
    #[error(transparent)]
    Io(#[from] io::Error),
}

/// Reads frames from `R`. Every method may be dropped and called again.
pub struct FrameReader<R> {
    inner: R,
    limits: ReadLimits,
    budget: Budget,
    holder: Holder,
    /// Bytes behind the last frame that was taken; no allocation when empty.
    carry: BytesMut,
    partial: Option<Partial>,
    ended: bool,
    last_byte: Instant,
    timer: Option<Pin<Box<Sleep>>>,
}

/// A frame whose length is known.
struct Partial {
    length: usize,
    bytes: BytesMut,
    pace: Pace,
    room: Room,
}

enum Room {
    Held(Reservation),
    Asked(BoxFuture<'static, Reservation>),
}

impl<R: AsyncRead + Unpin> FrameReader<R> {
    /// A reader that has read nothing. What a frame holds of `budget` while the peer lets it wait is
    /// late on behalf of `holder`.
    pub fn new(inner: R, limits: ReadLimits, budget: Budget, holder: Holder) -> Self {
        Self {
            inner,
            limits,
            budget,
            holder,
            carry: BytesMut::new(),
            partial: None,
            ended: false,
            last_byte: Instant::now(),
            timer: None,
        }
    }

    /// Changes the largest frame, for frames whose length has not been read (a peer that has
    /// authenticated may send more).
    pub fn set_max_frame_bytes(&mut self, max: u32) {
        self.limits.max_frame_bytes = max;
    }

    /// Starts the idle time again: the connection did something else than reading.
    pub fn touch(&mut self) {
        self.last_byte = Instant::now();
    }

    /// The next frame; `None` when the peer closed between frames.
    ///
    /// # Errors
    ///
    /// [`ReadError`]. After [`ReadError::Idle`] reading may go on.
    pub async fn next(&mut self) -> Result<Option<Frame>, ReadError> {
        std::future::poll_fn(|cx| self.poll_next(cx)).await
    }

    /// Reads a little ahead while the caller has no use for a frame, only to see the peer close.
    /// Ends when it has closed, and never otherwise: when enough is read, it waits for ever.
    pub async fn closed(&mut self) {
        std::future::poll_fn(|cx| self.poll_closed(cx)).await;
    }

    /// As [`FrameReader::next`].
    pub fn poll_next(&mut self, cx: &mut Context<'_>) -> Poll<Result<Option<Frame>, ReadError>> {
        loop {
            if self.partial.is_none() {
                self.begin()?;
            }
            if let Some(partial) = &mut self.partial {
                if let Room::Asked(asked) = &mut partial.room {
                    // The peer is not to blame for this wait.
                    let held = ready!(asked.as_mut().poll(cx));
                    self.last_byte = Instant::now();
                    partial.pace = Pace::start();
                    partial.room = Room::Held(held);
                }
                partial.fill(&mut self.carry);
                if partial.is_whole() {
                    return Poll::Ready(Ok(self.finish()));
                }
                if !partial.make_room() {
                    continue;
                }
            }
            if self.ended {
                let between = self.partial.is_none() && self.carry.is_empty();
                return Poll::Ready(if between {
                    Ok(None)
                } else {
                    Err(ReadError::Truncated)
                });
            }
            match self.poll_read(cx) {
                Poll::Ready(Ok(0)) => self.ended = true,
                Poll::Ready(Ok(read)) => {
                    self.last_byte = Instant::now();
                    if let Some(partial) = &mut self.partial {
                        partial.pace.moved(read);
                    }
                }
                Poll::Ready(Err(error)) => return Poll::Ready(Err(error.into())),
                Poll::Pending => {
                    ready!(self.poll_late(cx));
                    let idle = self.partial.is_none() && self.carry.is_empty();
                    let late = if idle {
                        ReadError::Idle
                    } else {
                        ReadError::Stalled
                    };
                    return Poll::Ready(Err(late));
                }
            }
        }
    }

    /// As [`FrameReader::closed`].
    pub fn poll_closed(&mut self, cx: &mut Context<'_>) -> Poll<()> {
        while !self.ended {
            if self.partial.is_some() || self.carry.len() >= SIP_BYTES {
                return Poll::Pending;
            }
            match ready!(self.poll_sip(cx)) {
                Ok(0) | Err(_) => self.ended = true,
                Ok(_) => self.last_byte = Instant::now(),
            }
        }
        Poll::Ready(())
    }

    /// Takes the length of the next frame from what was read, when it is there.
    fn begin(&mut self) -> Result<(), ReadError> {
        let Some(prefix) = self.carry.first_chunk::<PREFIX>() else {
            return Ok(());
        };
        let announced = i32::from_be_bytes(*prefix);
        let length = u32::try_from(announced).map_err(|_| ReadError::Negative(announced))?;
        let limit = self.limits.max_frame_bytes;
        if length > limit {
            return Err(ReadError::TooLong { length, limit });
        }
        self.carry.advance(PREFIX);
        self.partial = Some(Partial {
            length: length as usize,
            bytes: BytesMut::new(),
            pace: Pace::start(),
            room: Room::Held(self.budget.reservation()),
        });
        Ok(())
    }

    fn finish(&mut self) -> Option<Frame> {
        if self.carry.is_empty() {
            self.carry = BytesMut::new();
        }
        let partial = self.partial.take()?;
        let reservation = match partial.room {
            Room::Held(mut held) => {
                held.is_prompt();
                held
            }
            // A whole frame has all its room.
            Room::Asked(_) => self.budget.reservation(),
        };
        Some(Frame {
            bytes: partial.bytes.freeze(),
            reservation,
        })
    }

    fn poll_read(&mut self, cx: &mut Context<'_>) -> Poll<io::Result<usize>> {
        let Some(partial) = &mut self.partial else {
            return self.poll_sip(cx);
        };
        let room = partial.room_bytes();
        let mut into = (&mut partial.bytes).limit(room);
        pin!(self.inner.read_buf(&mut into)).poll(cx)
    }

    /// Reads to the stack first, so that a read that finds nothing has allocated nothing.
    fn poll_sip(&mut self, cx: &mut Context<'_>) -> Poll<io::Result<usize>> {
        let mut stack = [const { MaybeUninit::uninit() }; SIP_BYTES];
        let mut sip = ReadBuf::uninit(&mut stack);
        ready!(Pin::new(&mut self.inner).poll_read(cx, &mut sip))?;
        self.carry.extend_from_slice(sip.filled());
        Poll::Ready(Ok(sip.filled().len()))
    }

    /// Ends when the peer has used up its time.
    fn poll_late(&mut self, cx: &mut Context<'_>) -> Poll<()> {
        let deadline = match &mut self.partial {
            None if self.carry.is_empty() => self.last_byte + self.limits.idle,
            None => self.last_byte + self.limits.stall,
            Some(partial) => {
                let since = partial.pace.paid_until;
                if let Room::Held(held) = &mut partial.room {
                    held.is_late(since, &self.holder);
                }
                since + self.limits.stall
            }
        };
        let timer = self
            .timer
            .get_or_insert_with(|| Box::pin(sleep_until(deadline)));
        loop {
            // A timer that rings too early is set again: cheaper than setting it for every frame.
            if timer.deadline() > deadline {
                timer.as_mut().reset(deadline);
            }
            ready!(timer.as_mut().poll(cx));
            if Instant::now() >= deadline {
                // The next wait starts with a timer of its own.
                self.timer = None;
                return Poll::Ready(());
            }
            timer.as_mut().reset(deadline);
        }
    }
}

impl Partial {
    fn is_whole(&self) -> bool {
        self.bytes.len() == self.length
    }

    /// Bytes that may arrive before more room is needed.
    fn room_bytes(&self) -> usize {
        match &self.room {
            Room::Held(held) => held.bytes() - self.bytes.len(),
            Room::Asked(_) => 0,
        }
    }

    /// Moves what was read already, as far as there is room.
    fn fill(&mut self, carry: &mut BytesMut) {
        let take = carry
            .len()
            .min(self.length - self.bytes.len())
            .min(self.room_bytes());
        if take > 0 {
            self.bytes.extend_from_slice(&carry[..take]);
            carry.advance(take);
        }
    }

    /// Whether there is room to read into. Otherwise room is asked for.
    fn make_room(&mut self) -> bool {
        if self.room_bytes() > 0 {
            return true;
        }
        let missing = self.length - self.bytes.len();
        let step = missing.min(self.bytes.len().max(FIRST_STEP_BYTES));
        let Room::Held(held) = &mut self.room else {
            return false;
        };
        // A step is at most half a frame or the first step, both within `u32`.
        let step_bytes = u32::try_from(step).unwrap_or(u32::MAX);
        let spare = Reservation::empty_of(held);
        let mut held = std::mem::replace(held, spare);
        if held.try_grow(step_bytes) {
            self.bytes.reserve(step);
            self.room = Room::Held(held);
            // What was read already goes first.
            return false;
        }
        self.room = Room::Asked(Box::pin(held.grow(step_bytes)));
        false
    }
}

#[cfg(test)]
mod tests;
