//! Requests that are late: a client's frames of chosen APIs wait on their connection, and what is
//! behind them, whether or not the client still waits for an answer.

use std::collections::{BTreeMap, VecDeque};
use std::io;
use std::pin::Pin;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::task::{Context, Poll};
use std::time::Duration;

use bytes::{Buf, Bytes};
use kafka_wire::ApiKey;
use tokio::io::{AsyncWrite, AsyncWriteExt};
use tokio::time::{Instant, Sleep, sleep_until};

/// A frame's length and its API key.
const HEAD: usize = 6;

/// The APIs that are late now. Clones are the same.
#[derive(Clone, Debug, Default)]
pub struct Late(Arc<Mutex<BTreeMap<ApiKey, Duration>>>);

impl Late {
    fn lock(&self) -> MutexGuard<'_, BTreeMap<ApiKey, Duration>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// From now on requests of `api` are late by `by`.
    pub fn delay(&self, api: ApiKey, by: Duration) {
        self.lock().insert(api, by);
    }

    /// Requests of `api` are on time again.
    pub fn prompt(&self, api: ApiKey) {
        self.lock().remove(&api);
    }

    fn by(&self, api: ApiKey) -> Option<Duration> {
        self.lock().get(&api).copied()
    }
}

/// What one connection has yet to send, and where it is in its frames.
pub(super) struct Outgoing {
    late: Late,
    /// Bytes to the end of the current frame.
    rest: usize,
    /// The bytes are no frames: they pass.
    opaque: bool,
    queue: VecDeque<(Instant, Bytes)>,
    timer: Option<Pin<Box<Sleep>>>,
}

impl Outgoing {
    pub(super) fn new(late: Late) -> Self {
        Self {
            late,
            rest: 0,
            opaque: false,
            queue: VecDeque::new(),
            timer: None,
        }
    }

    pub(super) fn is_empty(&self) -> bool {
        self.queue.is_empty()
    }

    /// Takes from `buf` what is to wait, and says how much; `None` when it may go out now.
    pub(super) fn take(&mut self, buf: &[u8]) -> Option<usize> {
        let mut by = None;
        if self.rest == 0 && !self.opaque {
            let Some(mut head) = buf.get(..HEAD) else {
                self.opaque = true;
                return None;
            };
            let length = usize::try_from(head.get_i32()).unwrap_or(0);
            self.rest = length + 4;
            by = self.late.by(ApiKey(head.get_i16()));
        }
        if by.is_none() && self.queue.is_empty() {
            return None;
        }
        let due = Instant::now() + by.unwrap_or_default();
        let due = self.queue.back().map_or(due, |(last, _)| due.max(*last));
        let taken = if self.opaque {
            buf.len()
        } else {
            self.rest.min(buf.len())
        };
        self.queue
            .push_back((due, Bytes::copy_from_slice(&buf[..taken])));
        self.passed(taken);
        Some(taken)
    }

    /// So many bytes went past.
    pub(super) fn passed(&mut self, bytes: usize) {
        self.rest = self.rest.saturating_sub(bytes);
    }

    /// Sends what is due through `write`. Pending while anything waits.
    pub(super) fn poll(
        &mut self,
        cx: &mut Context<'_>,
        mut write: impl FnMut(&mut Context<'_>, &[u8]) -> Poll<io::Result<usize>>,
    ) -> Poll<io::Result<()>> {
        while let Some((due, bytes)) = self.queue.front_mut() {
            if *due > Instant::now() {
                let due = *due;
                let timer = self.timer.get_or_insert_with(|| Box::pin(sleep_until(due)));
                timer.as_mut().reset(due);
                if timer.as_mut().poll(cx).is_pending() {
                    return Poll::Pending;
                }
                continue;
            }
            let written = std::task::ready!(write(cx, bytes))?;
            bytes.advance(written);
            if bytes.is_empty() {
                self.queue.pop_front();
            }
        }
        Poll::Ready(Ok(()))
    }

    /// Sends what waits although its client is gone, then closes.
    pub(super) async fn linger<S: AsyncWrite + Unpin>(mut self, mut stream: S) {
        while let Some((due, bytes)) = self.queue.pop_front() {
            sleep_until(due).await;
            if stream.write_all(&bytes).await.is_err() {
                return;
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn frame(api: ApiKey, body: usize) -> Vec<u8> {
        let length = i32::try_from(body + 2).unwrap();
        let mut frame = length.to_be_bytes().to_vec();
        frame.extend(api.0.to_be_bytes());
        frame.resize(HEAD + body, 7);
        frame
    }

    #[tokio::test(start_paused = true)]
    async fn what_is_behind_a_late_request_is_late_too() {
        let late = Late::default();
        let mut out = Outgoing::new(late.clone());
        let (fetch, produce) = (frame(ApiKey::FETCH, 3), frame(ApiKey::PRODUCE, 3));
        assert_eq!(out.take(&fetch), None);
        out.passed(fetch.len());
        late.delay(ApiKey::PRODUCE, Duration::from_secs(1));
        assert_eq!(out.take(&produce), Some(produce.len()));
        assert_eq!(out.take(&fetch), Some(fetch.len()));
        let mut sent = Vec::new();
        let started = Instant::now();
        std::future::poll_fn(|cx| {
            out.poll(cx, |_, bytes| {
                sent.extend_from_slice(bytes);
                Poll::Ready(Ok(bytes.len()))
            })
        })
        .await
        .unwrap();
        assert_eq!(started.elapsed(), Duration::from_secs(1));
        assert_eq!(sent, [produce, fetch.clone()].concat());
        late.prompt(ApiKey::PRODUCE);
        assert_eq!(out.take(&fetch), None);
    }

    #[tokio::test(start_paused = true)]
    async fn bytes_that_are_no_frames_pass() {
        let late = Late::default();
        late.delay(ApiKey::PRODUCE, Duration::from_secs(1));
        let mut out = Outgoing::new(late);
        assert_eq!(out.take(b"abc"), None);
        assert_eq!(out.take(&frame(ApiKey::PRODUCE, 3)), None);
    }
}
