//! Writes frames: several in one vectored write, under a deadline for a peer that does not read.

use std::collections::VecDeque;
use std::io::{self, IoSlice};
use std::pin::Pin;
use std::task::{Context, Poll, ready};
use std::time::Duration;

use bytes::{Buf, Bytes};
use tokio::io::AsyncWrite;
use tokio::time::{Sleep, sleep_until};

use super::Pace;
use crate::budget::Reservation;
use crate::budget::late::Holder;

/// Segments of one write.
const SEGMENTS: usize = 64;

/// Why writing ended. The stream is of no use for writing afterwards.
#[derive(Debug, thiserror::Error)]
pub enum WriteError {
    /// The peer did not read in time.
    #[error("the peer does not read")]
    Stalled,
    /// The stream failed.
    #[error(transparent)]
    Io(#[from] io::Error),
}

/// Writes what was queued to `W`, in order. Every method may be dropped and called again.
#[derive(Debug)]
pub struct FrameWriter<W> {
    inner: W,
    timeout: Duration,
    queue: VecDeque<Segment>,
    pending_bytes: usize,
    unflushed: bool,
    /// Of the peer, while it leaves something unread.
    pace: Option<Pace>,
    holder: Holder,
    timer: Option<Pin<Box<Sleep>>>,
}

#[derive(Debug)]
struct Segment {
    bytes: Bytes,
    /// Held until the bytes are written.
    reservation: Option<Reservation>,
}

impl<W: AsyncWrite + Unpin> FrameWriter<W> {
    /// A writer with nothing to write. A peer that leaves something unread may be `timeout` behind
    /// [`super::MIN_BYTES_PER_SECOND`]; meanwhile the reservations of what it does not read are late
    /// on behalf of `holder`.
    pub fn new(inner: W, timeout: Duration, holder: Holder) -> Self {
        Self {
            inner,
            timeout,
            queue: VecDeque::new(),
            pending_bytes: 0,
            unflushed: false,
            pace: None,
            holder,
            timer: None,
        }
    }

    /// Queues `bytes` (whole frames, with their lengths); `reservation` is held until they are
    /// written.
    pub fn push(&mut self, bytes: Bytes, reservation: Option<Reservation>) {
        self.pending_bytes += bytes.len();
        self.queue.push_back(Segment { bytes, reservation });
    }

    /// Bytes that are queued and not written.
    pub fn pending_bytes(&self) -> usize {
        self.pending_bytes
    }

    /// Whether [`FrameWriter::flush`] has something to do.
    pub fn is_idle(&self) -> bool {
        self.queue.is_empty() && !self.unflushed
    }

    /// Writes everything that is queued.
    ///
    /// # Errors
    ///
    /// [`WriteError`]; what was queued is lost.
    pub async fn flush(&mut self) -> Result<(), WriteError> {
        std::future::poll_fn(|cx| self.poll_flush(cx)).await
    }

    /// Tells the peer that nothing more comes.
    ///
    /// # Errors
    ///
    /// What the stream says.
    pub async fn shutdown(&mut self) -> io::Result<()> {
        tokio::io::AsyncWriteExt::shutdown(&mut self.inner).await
    }

    /// As [`FrameWriter::flush`].
    pub fn poll_flush(&mut self, cx: &mut Context<'_>) -> Poll<Result<(), WriteError>> {
        loop {
            let waiting = self.pending_bytes;
            match self.poll_step(cx) {
                Poll::Ready(Ok(true)) => {
                    self.pace = None;
                    self.timer = None;
                    return Poll::Ready(Ok(()));
                }
                Poll::Ready(Ok(false)) => {
                    // What the system takes before the peer leaves anything unread pays for nothing.
                    if let Some(pace) = &mut self.pace {
                        pace.moved(waiting - self.pending_bytes);
                    }
                }
                Poll::Ready(Err(error)) => return Poll::Ready(Err(error.into())),
                Poll::Pending => {
                    ready!(self.poll_late(cx));
                    return Poll::Ready(Err(WriteError::Stalled));
                }
            }
        }
    }

    /// One write or the flush behind the last; true when nothing is left to do.
    fn poll_step(&mut self, cx: &mut Context<'_>) -> Poll<io::Result<bool>> {
        if self.queue.is_empty() {
            if self.unflushed {
                ready!(Pin::new(&mut self.inner).poll_flush(cx))?;
                self.unflushed = false;
            }
            return Poll::Ready(Ok(true));
        }
        let mut slices = [IoSlice::new(&[]); SEGMENTS];
        let mut used = 0;
        for (slice, segment) in slices.iter_mut().zip(&self.queue) {
            *slice = IoSlice::new(&segment.bytes);
            used += 1;
        }
        let written = ready!(Pin::new(&mut self.inner).poll_write_vectored(cx, &slices[..used]))?;
        if written == 0 && self.pending_bytes > 0 {
            return Poll::Ready(Err(io::ErrorKind::WriteZero.into()));
        }
        self.unflushed = true;
        self.advance(written);
        Poll::Ready(Ok(false))
    }

    fn advance(&mut self, mut written: usize) {
        self.pending_bytes -= written;
        while let Some(first) = self.queue.front_mut() {
            let here = written.min(first.bytes.len());
            first.bytes.advance(here);
            written -= here;
            if first.bytes.has_remaining() {
                break;
            }
            self.queue.pop_front();
        }
        if self.queue.is_empty() && self.queue.capacity() > SEGMENTS {
            self.queue = VecDeque::new();
        }
    }

    fn poll_late(&mut self, cx: &mut Context<'_>) -> Poll<()> {
        let since = self.pace.get_or_insert_with(Pace::start).paid_until;
        for segment in self.queue.iter_mut().take(SEGMENTS) {
            if let Some(reservation) = &mut segment.reservation {
                reservation.is_late(since, &self.holder);
            }
        }
        let deadline = since + self.timeout;
        let timer = self
            .timer
            .get_or_insert_with(|| Box::pin(sleep_until(deadline)));
        if timer.deadline() != deadline {
            timer.as_mut().reset(deadline);
        }
        timer.as_mut().poll(cx)
    }
}

#[cfg(test)]
mod tests {
    use tokio::io::{AsyncReadExt, duplex};
    use tokio::time::Instant;
    use tokio_test::io::Builder;

    use super::*;
    use crate::budget::{Budget, BudgetMetrics};

    const TIMEOUT: Duration = Duration::from_secs(30);

    #[tokio::test(start_paused = true)]
    async fn what_is_queued_leaves_in_order_and_gives_its_room_back() {
        let budget = Budget::new(100, &BudgetMetrics::default());
        let reservation = budget.reservation().grow(10).await;
        let mut writer = FrameWriter::new(
            Builder::new().write(b"onetwothree").build(),
            TIMEOUT,
            Holder::default(),
        );
        writer.push(Bytes::from_static(b"one"), Some(reservation));
        writer.push(Bytes::new(), None);
        writer.push(Bytes::from_static(b"twothree"), None);
        assert_eq!((writer.pending_bytes(), budget.free_bytes()), (11, 90));
        writer.flush().await.unwrap();
        assert!(writer.is_idle());
        assert_eq!((writer.pending_bytes(), budget.free_bytes()), (0, 100));
    }

    #[tokio::test(start_paused = true)]
    async fn a_peer_that_reads_nothing_is_given_up() {
        let (near, _far) = duplex(16);
        let mut writer = FrameWriter::new(near, TIMEOUT, Holder::default());
        writer.push(Bytes::from(vec![0; 100]), None);
        let started = Instant::now();
        assert!(matches!(writer.flush().await, Err(WriteError::Stalled)));
        assert_eq!(started.elapsed(), TIMEOUT);
    }

    #[tokio::test(start_paused = true)]
    async fn a_peer_that_reads_a_byte_now_and_then_is_given_up_too() {
        let (near, mut far) = duplex(1);
        let mut writer = FrameWriter::new(near, TIMEOUT, Holder::default());
        writer.push(Bytes::from(vec![0; 100]), None);
        let reader = tokio::spawn(async move {
            let mut byte = [0];
            loop {
                tokio::time::sleep(Duration::from_secs(20)).await;
                if far.read(&mut byte).await.unwrap() == 0 {
                    return;
                }
            }
        });
        let started = Instant::now();
        assert!(matches!(writer.flush().await, Err(WriteError::Stalled)));
        assert!(started.elapsed() < TIMEOUT + Duration::from_secs(1));
        reader.abort();
    }

    #[tokio::test(start_paused = true)]
    async fn what_was_read_fast_does_not_excuse_a_peer_that_reads_no_more() {
        let (near, mut far) = duplex(64 * 1024);
        let mut writer = FrameWriter::new(near, TIMEOUT, Holder::default());
        writer.push(Bytes::from(vec![7; 64 << 20]), None);
        let reader = tokio::spawn(async move {
            let mut chunk = vec![0; 64 * 1024];
            for _ in 0..500 {
                far.read_exact(&mut chunk).await.unwrap();
            }
            let stopped = Instant::now();
            while far.read(&mut chunk[..1]).await.is_ok_and(|read| read > 0) {
                tokio::time::sleep(Duration::from_secs(1)).await;
            }
            stopped
        });
        assert!(matches!(writer.flush().await, Err(WriteError::Stalled)));
        let given_up = Instant::now();
        drop(writer);
        let stopped = reader.await.unwrap();
        assert!(given_up - stopped < TIMEOUT + Duration::from_secs(2));
    }

    #[tokio::test(start_paused = true)]
    async fn unread_answers_are_late_as_long_as_they_are_unread() {
        let budget = Budget::new(100, &BudgetMetrics::default());
        let (near, mut far) = duplex(10);
        let holder = Holder::default();
        let mut writer = FrameWriter::new(near, TIMEOUT, holder.clone());
        let reservation = budget.reservation().grow(100).await;
        writer.push(Bytes::from(vec![0; 100]), Some(reservation));
        let waiting = budget.reservation().grow(1);
        tokio::select! {
            biased;
            _ = writer.flush() => panic!("nobody reads"),
            _ = waiting => panic!("nothing is given back"),
            () = std::future::poll_fn(|cx| holder.poll_evicted(cx)) => {}
        }
        let mut all = vec![0; 100];
        let (flushed, read) = tokio::join!(writer.flush(), far.read_exact(&mut all));
        flushed.unwrap();
        assert_eq!((read.unwrap(), budget.free_bytes()), (100, 100));
    }

    #[tokio::test(start_paused = true)]
    async fn a_slow_but_honest_peer_gets_everything() {
        let (near, mut far) = duplex(64 * 1024);
        let mut writer = FrameWriter::new(near, TIMEOUT, Holder::default());
        let sent = 8 * 1024 * 1024;
        writer.push(Bytes::from(vec![7; sent]), None);
        let reader = tokio::spawn(async move {
            let mut chunk = vec![0; 64 * 1024];
            let mut got = 0;
            while got < sent {
                tokio::time::sleep(Duration::from_millis(900)).await;
                got += far.read(&mut chunk).await.unwrap();
            }
            got
        });
        writer.flush().await.unwrap();
        assert_eq!(reader.await.unwrap(), sent);
    }
}
