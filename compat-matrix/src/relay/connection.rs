//! One connection: frames both ways, their headers read, their bodies passed on as they come.

use std::collections::VecDeque;
use std::io;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, PoisonError};

use bytes::{Buf as _, BytesMut};
use host::net::BoxStream;
use kafka_wire::ApiKey;
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _, ReadHalf, WriteHalf};
use tokio::time::sleep;

use super::fault::{Act, Side};
use super::{Shared, rewrite};
use crate::wire::MAX_ANSWER_BYTES;

/// What is read at once.
const CHUNK: usize = 64 * 1024;
/// Length, key, version, correlation id, length of the client id.
const HEADER: usize = 14;

/// Why a direction ends.
enum End {
    /// Its reader closed.
    Closed,
    /// Somebody broke, or a fault cut it.
    Broken,
    /// A fault froze the connection.
    Frozen,
}

impl From<io::Error> for End {
    fn from(_: io::Error) -> Self {
        Self::Broken
    }
}

/// Requests that are still to be answered, oldest first.
#[derive(Default)]
struct Pending {
    requests: Mutex<VecDeque<(i32, ApiKey, i16)>>,
    /// The next request is a mechanism's message without a header: SaslHandshake v0 came before it.
    bare: AtomicBool,
}

impl Pending {
    fn lock(&self) -> std::sync::MutexGuard<'_, VecDeque<(i32, ApiKey, i16)>> {
        // Requests are pushed and popped whole.
        self.requests.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn asked(&self, correlation_id: i32, key: ApiKey, version: i16) {
        if (key, version) == (ApiKey::SASL_HANDSHAKE, 0) {
            self.bare.store(true, Ordering::SeqCst);
        }
        self.lock().push_back((correlation_id, key, version));
    }

    /// What this answers. Answers come in the order of their requests, so older ones have none: a
    /// Produce with acks=0.
    fn answered(&self, correlation_id: i32) -> Option<(ApiKey, i16)> {
        let mut pending = self.lock();
        let at = pending.iter().position(|(id, ..)| *id == correlation_id)?;
        pending
            .drain(..=at)
            .next_back()
            .map(|(_, key, version)| (key, version))
    }
}

/// Relays until both ends have closed, one breaks, or a fault ends it.
pub(super) async fn run(shared: &Arc<Shared>, mut client: BoxStream, mut server: BoxStream) {
    let pending = Pending::default();
    let end = {
        let (from_client, to_client) = tokio::io::split(&mut client);
        let (from_server, to_server) = tokio::io::split(&mut server);
        let requests = Direction::new(shared, from_client, to_server);
        let answers = Direction::new(shared, from_server, to_client);
        let (mut requests, mut answers) = (
            std::pin::pin!(requests.requests(&pending)),
            std::pin::pin!(answers.answers(&pending)),
        );
        tokio::select! {
            end = &mut requests => match end {
                End::Closed => answers.await,
                end => end,
            },
            end = &mut answers => match end {
                End::Closed => requests.await,
                end => end,
            },
        }
    };
    if matches!(end, End::Frozen) {
        // Until the relay is stopped: both sockets stay open and nobody reads them.
        std::future::pending::<()>().await;
    }
}

struct Direction<'c> {
    shared: &'c Arc<Shared>,
    from: ReadHalf<&'c mut BoxStream>,
    to: WriteHalf<&'c mut BoxStream>,
    /// Read and not yet passed on.
    held: BytesMut,
}

impl<'c> Direction<'c> {
    fn new(
        shared: &'c Arc<Shared>,
        from: ReadHalf<&'c mut BoxStream>,
        to: WriteHalf<&'c mut BoxStream>,
    ) -> Self {
        Self {
            shared,
            from,
            to,
            held: BytesMut::with_capacity(CHUNK),
        }
    }

    async fn requests(mut self, pending: &Pending) -> End {
        loop {
            if let Err(end) = self.request(pending).await {
                return self.finish(end).await;
            }
        }
    }

    async fn answers(mut self, pending: &Pending) -> End {
        loop {
            if let Err(end) = self.answer(pending).await {
                return self.finish(end).await;
            }
        }
    }

    /// Passes on the end of a stream as such: the other side may still have something to say.
    async fn finish(mut self, end: End) -> End {
        match end {
            End::Closed if self.to.shutdown().await.is_err() => End::Broken,
            end => end,
        }
    }

    async fn request(&mut self, pending: &Pending) -> Result<(), End> {
        let total = self.frame_length().await?;
        if pending.bare.swap(false, Ordering::SeqCst) {
            return self.pass(total).await;
        }
        self.fill(total.min(HEADER)).await?;
        let mut header = &self.held[4..];
        if header.len() < HEADER - 4 {
            return self.pass(total).await;
        }
        let key = ApiKey(header.get_i16());
        let version = header.get_i16();
        let correlation_id = header.get_i32();
        let length = usize::try_from(header.get_i16()).unwrap_or_default();
        self.fill(total.min(HEADER + length)).await?;
        let client_id = self.held.get(HEADER..HEADER + length).unwrap_or_default();
        self.shared.record.requested(
            &self.shared.session,
            &String::from_utf8_lossy(client_id),
            key,
            version,
        );
        pending.asked(correlation_id, key, version);
        self.pass_under(Side::Request, key, total).await
    }

    async fn answer(&mut self, pending: &Pending) -> Result<(), End> {
        let total = self.frame_length().await?;
        self.fill(total.min(8)).await?;
        let Some(answered) = self
            .held
            .get(4..8)
            .and_then(|bytes| pending.answered((&*bytes).get_i32()))
        else {
            return self.pass(total).await;
        };
        let (key, version) = answered;
        if rewrite::names_brokers(key) && total <= MAX_ANSWER_BYTES {
            self.fill(total).await?;
            let frame = self.held.split_to(total).freeze().slice(4..);
            let frame = rewrite::rewrite(self.shared, key, version, &frame);
            // It stands in front of whatever was read behind the old one.
            let behind = std::mem::take(&mut self.held);
            let length = u32::try_from(frame.len()).map_err(|_| End::Broken)?;
            self.held.reserve(4 + frame.len() + behind.len());
            self.held.extend_from_slice(&length.to_be_bytes());
            self.held.extend_from_slice(&frame);
            self.held.extend_from_slice(&behind);
            return self.pass_under(Side::Answer, key, 4 + frame.len()).await;
        }
        self.pass_under(Side::Answer, key, total).await
    }

    /// The length of the next frame with its prefix, which is held but not passed on.
    async fn frame_length(&mut self) -> Result<usize, End> {
        while self.held.len() < 4 {
            if self.read().await? == 0 {
                // Half a prefix is the client's last word, and it is passed on, too.
                self.to.write_all(&self.held).await?;
                return Err(End::Closed);
            }
        }
        // A negative length is nothing a relay can follow; the server will say so.
        let length = (&self.held[..4]).get_i32();
        Ok(usize::try_from(length).map_or(4, |length| 4 + length))
    }

    /// Reads until so many bytes are held.
    async fn fill(&mut self, bytes: usize) -> Result<(), End> {
        while self.held.len() < bytes {
            if self.read().await? == 0 {
                self.to.write_all(&self.held).await?;
                return Err(End::Closed);
            }
        }
        Ok(())
    }

    async fn read(&mut self) -> io::Result<usize> {
        self.held.reserve(CHUNK);
        self.from.read_buf(&mut self.held).await
    }

    /// Passes on the frame at the front, unless a rule says otherwise.
    async fn pass_under(&mut self, side: Side, key: ApiKey, total: usize) -> Result<(), End> {
        match self.shared.act_on(side, key) {
            None => self.pass(total).await,
            Some(Act::Delay(while_)) => {
                sleep(while_).await;
                self.pass(total).await
            }
            Some(Act::Cut { after_bytes }) => {
                self.pass(total.min(after_bytes)).await?;
                Err(End::Broken)
            }
            Some(Act::HalfOpen) => Err(End::Frozen),
        }
    }

    async fn pass(&mut self, mut bytes: usize) -> Result<(), End> {
        while bytes > 0 {
            if self.held.is_empty() && self.read().await? == 0 {
                return Err(End::Closed);
            }
            let now = bytes.min(self.held.len());
            self.to.write_all(&self.held[..now]).await?;
            self.held.advance(now);
            bytes -= now;
        }
        Ok(self.to.flush().await?)
    }
}

#[cfg(test)]
mod tests {
    use kafka_wire::ApiKey;

    use super::Pending;

    #[test]
    fn a_request_without_an_answer_is_forgotten_with_the_next_answer() {
        let pending = Pending::default();
        pending.asked(1, ApiKey::PRODUCE, 9);
        pending.asked(2, ApiKey::METADATA, 12);
        pending.asked(3, ApiKey::FETCH, 11);
        assert_eq!(pending.answered(2), Some((ApiKey::METADATA, 12)));
        assert_eq!(pending.answered(1), None, "Produce with acks=0");
        assert_eq!(pending.answered(3), Some((ApiKey::FETCH, 11)));
        assert!(pending.lock().is_empty());
    }
}
