//! One connection: reads requests, runs them in order, writes the answers in the same order.
//!
//! Kafka's broker runs one request of a connection at a time, and so does this loop, except that a
//! Produce may start behind Produces that were admitted, so that they share a push. While a request
//! runs, at most one more frame is read, and a little behind it, so that a peer that closes is seen.

use std::collections::VecDeque;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context as Task, Poll};
use std::time::Duration;

use bytes::Bytes;
use futures::FutureExt;
use futures::future::BoxFuture;
use host::BoxStream;
use host::budget::late::Holder;
use host::frame::{Frame, FrameReader, FrameWriter, ReadError};
use host::gate::Slot;
use kafka_wire::ApiKey;
use kafka_wire::header::RequestHeader;
use tokio::io::{ReadHalf, WriteHalf, split};
use tokio::time::timeout;

use super::ending::End;
use super::requests::{Course, Flight, Request, sasl_authenticate, unsupported_api_versions};
use super::{Handled, MAX_FRAME_BYTES, Shared, read_limits};
use crate::context::{Answer, Context, Reply, Session};
use crate::dispatch;
use crate::room::Room;
use crate::security::Stage;

/// How long a connection that was refused waits for its client to close.
const LINGER: Duration = Duration::from_secs(1);
/// Requests of one connection that are admitted and not answered.
const MAX_PIPELINED: usize = 64;
/// Bytes of answers that a client may leave unread before its next request starts.
const MAX_UNWRITTEN_BYTES: usize = 64 * 1024;
/// Bytes of answers that are gathered for one write.
const GATHER_BYTES: usize = 64 * 1024;

pub(super) struct Connection {
    shared: Arc<Shared>,
    session: Arc<Session>,
    slot: Slot,
    /// [`Rejections::count`](crate::queen::Rejections::count) at the last look.
    rejections: u64,
    reader: FrameReader<ReadHalf<BoxStream>>,
    writer: FrameWriter<WriteHalf<BoxStream>>,
    draining: BoxFuture<'static, ()>,
    /// The frame that was read and has not started.
    waiting: Option<Request>,
    running: Option<Running>,
    /// What is admitted and not answered; the first is never ready between two polls.
    outbox: VecDeque<Unanswered>,
    /// The last client id, for the log.
    client_id: Option<Bytes>,
    peer_closed: bool,
    /// Must end when others wait for what its peer leaves unread, or sends too slowly.
    holder: Holder,
    /// Nothing more is read or started; what is admitted is answered first.
    ending: Option<End>,
}

struct Running {
    flight: Flight,
    room: Room,
    handler: BoxFuture<'static, Handled>,
}

struct Unanswered {
    flight: Flight,
    room: Room,
    answer: Awaited,
}

enum Awaited {
    Ready(Answer<Bytes>),
    Later(BoxFuture<'static, Answer<Bytes>>),
}

impl Connection {
    pub(super) fn new(
        shared: Arc<Shared>,
        session: Arc<Session>,
        stream: BoxStream,
        slot: Slot,
    ) -> Self {
        let (read, write) = split(stream);
        let limits = read_limits(session.authentication.is_settled());
        let shutdown = shared.node.shutdown.clone();
        let write_timeout = shared.node.config.listener.write_timeout;
        let requests = shared.node.budgets.requests.clone();
        let holder = Holder::default();
        Self {
            reader: FrameReader::new(read, limits, requests, holder.clone()),
            writer: FrameWriter::new(write, write_timeout, holder.clone()),
            holder,
            draining: async move { shutdown.draining().await }.boxed(),
            waiting: None,
            running: None,
            outbox: VecDeque::new(),
            client_id: None,
            peer_closed: false,
            ending: None,
            rejections: shared.node.queen.rejections().count(),
            shared,
            session,
            slot,
        }
    }

    /// Serves until the connection ends, and says why it did.
    pub(super) async fn run(mut self) {
        let end = std::future::poll_fn(|task| self.poll(task)).await;
        let client_id = self.client_id.as_deref();
        let client_id = client_id.and_then(|id| std::str::from_utf8(id).ok());
        end.report(&self.shared, &self.session, client_id);
        // Says goodbye to a client that still reads; one that does not is of no interest.
        let _ = self.writer.shutdown().now_or_never();
        if matches!(end, End::AuthenticationRefused) {
            // A close that meets unread bytes takes the answer away from the client, which would
            // then try again for ever.
            let _ = timeout(LINGER, self.reader.closed()).await;
        }
    }

    fn poll(&mut self, task: &mut Task<'_>) -> Poll<End> {
        if self.holder.poll_evicted(task).is_ready() {
            return Poll::Ready(End::Evicted);
        }
        loop {
            let mut moved = self.poll_running(task);
            moved |= self.poll_outbox(task);
            moved |= self.start();
            moved |= self.poll_reading(task);
            // Answers that are ready together leave together.
            if moved && self.writer.pending_bytes() < GATHER_BYTES {
                continue;
            }
            if !self.writer.is_idle() {
                match self.writer.poll_flush(task) {
                    Poll::Ready(Ok(())) => moved = true,
                    Poll::Ready(Err(error)) => return Poll::Ready(error.into()),
                    Poll::Pending => {}
                }
            }
            if moved {
                continue;
            }
            let quiet = self.running.is_none() && self.outbox.is_empty() && self.writer.is_idle();
            if quiet
                && self.waiting.is_none()
                && let Some(end) = self.ending.take()
            {
                return Poll::Ready(end);
            }
            return Poll::Pending;
        }
    }

    /// The handler that runs; true when it has ended.
    fn poll_running(&mut self, task: &mut Task<'_>) -> bool {
        let Some(running) = &mut self.running else {
            return false;
        };
        if self.peer_closed && running.flight.tag.is_abandoned() {
            self.running = None;
            return true;
        }
        let Poll::Ready(handled) = running.handler.as_mut().poll(task) else {
            return false;
        };
        if let Some(running) = self.running.take() {
            self.handled(running.flight, running.room, handled);
        }
        true
    }

    fn handled(&mut self, flight: Flight, room: Room, handled: Handled) {
        let answer = match handled {
            Ok(Reply::Now(answer)) => Awaited::Ready(answer),
            Ok(Reply::Later(answer)) => Awaited::Later(answer),
            Err(refusal) => {
                return self.end(End::Refused {
                    key: flight.tag.key,
                    version: flight.tag.version,
                    refusal,
                });
            }
        };
        self.outbox.push_back(Unanswered {
            flight,
            room,
            answer,
        });
    }

    /// Answers that became ready, in the order of their requests; true when one left.
    fn poll_outbox(&mut self, task: &mut Task<'_>) -> bool {
        for unanswered in &mut self.outbox {
            if let Awaited::Later(answer) = &mut unanswered.answer
                && let Poll::Ready(answer) = answer.as_mut().poll(task)
            {
                unanswered.answer = Awaited::Ready(answer);
            }
        }
        let mut moved = false;
        while let Some(Unanswered {
            answer: Awaited::Ready(_),
            ..
        }) = self.outbox.front()
        {
            if let Some(Unanswered {
                flight,
                room,
                answer: Awaited::Ready(answer),
            }) = self.outbox.pop_front()
            {
                self.answer(flight, room, answer);
            }
            moved = true;
        }
        moved
    }

    fn answer(&mut self, flight: Flight, room: Room, answer: Answer<Bytes>) {
        let tag = flight.tag;
        self.reader.touch();
        match answer {
            Answer::Send(_) if tag.bare => match self.session.authentication.is_settled() {
                true => self.writer.push(Bytes::from_static(&[0; 4]), None),
                // There are no words for a refusal.
                false => self.end(End::AuthenticationRefused),
            },
            Answer::Send(frame) => {
                let held = room.into_answer(frame.len());
                self.writer.push(frame, Some(held));
            }
            Answer::Silence => {}
            Answer::Close(reason) => self.end(End::Handler {
                key: tag.key,
                reason,
            }),
        }
        if tag.key == ApiKey::SASL_AUTHENTICATE {
            self.authenticated();
        }
        self.look_for_rejection();
    }

    /// Takes over what an authentication has changed.
    fn authenticated(&mut self) {
        if let Some(session) = self.session.authentication.take_successor() {
            self.session = session;
            self.slot.authenticated();
            self.reader.set_max_frame_bytes(MAX_FRAME_BYTES);
        }
        if self.session.authentication.stage() == Stage::Refused && self.ending.is_none() {
            self.end(End::AuthenticationRefused);
        }
    }

    /// Ends the connection of a credential that Queen has rejected: the client was told once.
    fn look_for_rejection(&mut self) {
        let rejections = self.shared.node.queen.rejections();
        let Some(since) = self.session.since else {
            return;
        };
        let count = rejections.count();
        if count != self.rejections {
            self.rejections = count;
            if rejections.since(&self.session.credential, since) && self.ending.is_none() {
                self.end(End::CredentialRejected);
            }
        }
    }

    /// Starts the frame that waits when it may; true when it has left.
    fn start(&mut self) -> bool {
        let Some(tag) = self.waiting.as_ref().map(Request::tag) else {
            return false;
        };
        let in_turn = self.outbox.is_empty() || tag.pipelines();
        let has_room =
            self.outbox.len() < MAX_PIPELINED && self.writer.pending_bytes() <= MAX_UNWRITTEN_BYTES;
        if self.running.is_some() || !in_turn || !has_room {
            return false;
        }
        let Some(request) = self.waiting.take() else {
            return false;
        };
        if !self
            .session
            .authentication
            .admits(tag.key, request.received)
        {
            self.end(End::Unauthenticated { key: tag.key });
            return true;
        }
        match request.course() {
            Course::Handle => self.running = Some(self.handle(request)),
            Course::UnsupportedApiVersions => {
                match unsupported_api_versions(request.header.correlation_id) {
                    Ok(frame) => self.writer.push(frame, None),
                    Err(error) => tracing::error!(%error, "ApiVersions could not be refused"),
                }
            }
            Course::Close => self.end(End::Unserved {
                key: tag.key,
                version: tag.version,
            }),
        }
        true
    }

    fn handle(&self, request: Request) -> Running {
        let flight = Flight::new(&self.shared.node, &request);
        let Request {
            header,
            received,
            reservation,
            bare: _,
        } = request;
        let room = Room::new(&self.shared.node.budgets.answers, Some(reservation));
        let cx = Context {
            room: room.clone(),
            node: Arc::clone(&self.shared.node),
            session: Arc::clone(&self.session),
            version: header.api_version,
            client_id: dispatch::client_id(&header),
            received,
        };
        Running {
            flight,
            room,
            handler: (self.shared.dispatch)(cx, header),
        }
    }

    /// Reads the next frame, or watches for the end of the stream; true when something arrived.
    fn poll_reading(&mut self, task: &mut Task<'_>) -> bool {
        if self.ending.is_none() && Pin::new(&mut self.draining).poll(task).is_ready() {
            self.ending = Some(End::Drained);
        }
        // What a frame is, and how long it may be, depends on how authentication ends.
        let undecided = !self.session.authentication.is_settled()
            && (self.running.is_some() || !self.outbox.is_empty());
        if self.ending.is_some() || self.waiting.is_some() || undecided {
            return self.poll_closed(task);
        }
        match self.reader.poll_next(task) {
            Poll::Pending => false,
            Poll::Ready(Ok(Some(frame))) => {
                self.arrived(frame);
                true
            }
            Poll::Ready(Ok(None)) => {
                self.peer_closed = true;
                self.ending = Some(End::Peer);
                true
            }
            Poll::Ready(Err(ReadError::Idle))
                if self.running.is_some() || !self.outbox.is_empty() =>
            {
                // It waits for us.
                self.reader.touch();
                true
            }
            Poll::Ready(Err(error)) => {
                self.peer_closed = matches!(error, ReadError::Truncated | ReadError::Io(_));
                self.ending = Some(End::Read(error));
                true
            }
        }
    }

    fn poll_closed(&mut self, task: &mut Task<'_>) -> bool {
        if self.peer_closed {
            return false;
        }
        self.peer_closed = self.reader.poll_closed(task).is_ready();
        self.peer_closed
    }

    fn arrived(&mut self, frame: Frame) {
        let bare = self.session.authentication.expects_bare_message();
        let bytes = match bare {
            true => sasl_authenticate(&frame.bytes).freeze(),
            false => frame.bytes,
        };
        match RequestHeader::parse(bytes) {
            Ok(header) => {
                if self.client_id.as_ref() != header.client_id_bytes() {
                    // A copy: a slice would keep the whole frame.
                    self.client_id = header
                        .client_id_bytes()
                        .map(|id| Bytes::copy_from_slice(id));
                }
                self.waiting = Some(Request {
                    header,
                    received: self.shared.node.host.clock.monotonic(),
                    reservation: frame.reservation,
                    bare,
                });
            }
            Err(error) => self.ending = Some(error.into()),
        }
    }

    /// Ends the connection because of a request: nothing behind it runs.
    fn end(&mut self, end: End) {
        self.waiting = None;
        self.ending = Some(end);
    }
}
