//! The task that owns a connection's stream: writes what is asked, reads the answers in their order,
//! and watches how long they take.

use std::collections::VecDeque;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use host::BoxStream;
use host::budget::late::Holder;
use host::budget::{Budget, BudgetMetrics};
use host::frame::{FrameReader, ReadError, ReadLimits};
use kafka_wire::ApiKey;
use tokio::io::{AsyncWriteExt, ReadHalf, WriteHalf};
use tokio::sync::{Notify, mpsc};
use tokio::time::{Instant, sleep_until};

use super::{Awaited, CallError, Heard, Outgoing, Shared, lock};
use crate::client::Client;
use crate::history::Event;
use crate::trace;

/// The largest answer read.
const MAX_FRAME_BYTES: u32 = 16 << 20;
/// Answers are waited for under the timeout of their request, not of the reader.
const NEVER: Duration = Duration::from_secs(24 * 3600);

/// The task that owns the stream.
pub(super) struct Serving {
    pub(super) client: Client,
    pub(super) number: u64,
    pub(super) shared: Arc<Mutex<Shared>>,
    /// The oldest deadline may be another one.
    pub(super) changed: Arc<Notify>,
}

impl Serving {
    pub(super) async fn run(
        self,
        stream: BoxStream,
        mut orders: mpsc::UnboundedReceiver<Outgoing>,
    ) {
        let (reader, writer) = tokio::io::split(stream);
        let limits = ReadLimits {
            max_frame_bytes: MAX_FRAME_BYTES,
            idle: NEVER,
            stall: NEVER,
        };
        let budget = Budget::new(MAX_FRAME_BYTES as usize, &BudgetMetrics::default());
        let reader = FrameReader::new(reader, limits, budget, Holder::default());
        let (why, theirs) = tokio::select! {
            biased;
            why = self.read(reader) => (why, true),
            why = self.write(writer, &mut orders) => why,
            why = self.watch() => (why, false),
        };
        if theirs {
            let (connection, what) = (self.number, why.to_string());
            self.client.record(Event::Closed { connection, what });
        }
        orders.close();
        fail_all(&self.shared, &why);
        while let Some(order) = orders.recv().await {
            if let Some(waiter) = order.waiter {
                // It is told its own error.
                let _ = waiter.take(Err(why.clone()));
            }
        }
    }

    async fn read(&self, mut reader: FrameReader<ReadHalf<BoxStream>>) -> CallError {
        loop {
            let frame = match reader.next().await {
                Ok(Some(frame)) => frame,
                Ok(None) => return CallError::Lost("closed".to_owned()),
                Err(ReadError::Io(error)) => return CallError::Lost(error.kind().to_string()),
                Err(error @ ReadError::Truncated) => return CallError::Lost(error.to_string()),
                Err(error) => return CallError::malformed(error.to_string()),
            };
            let Some(first) = lock(&self.shared).awaited.pop_front() else {
                return CallError::malformed("an answer that nobody asked for");
            };
            self.changed.notify_one();
            let Awaited {
                key,
                version,
                correlation_id,
                asked_ms,
                waiter,
                ..
            } = first;
            match waiter.take(Ok(frame.bytes)) {
                Ok(Heard { throttle, served }) => {
                    self.serves(key, correlation_id, asked_ms, served);
                    let obeys = self.client.profile.obeys_throttle && throttle.client_waits;
                    if obeys && !throttle.time.is_zero() {
                        lock(&self.shared).muted_until = Some(Instant::now() + throttle.time);
                    }
                    self.client.answered(
                        self.number,
                        (key, version),
                        correlation_id,
                        throttle.time,
                    );
                }
                Err(error) => return error,
            }
        }
    }

    async fn write(
        &self,
        mut writer: WriteHalf<BoxStream>,
        orders: &mut mpsc::UnboundedReceiver<Outgoing>,
    ) -> (CallError, bool) {
        while let Some(order) = orders.recv().await {
            // An answer may mute it again while it waits.
            loop {
                let muted_until = lock(&self.shared).muted_until;
                match muted_until.filter(|until| *until > Instant::now()) {
                    Some(until) => sleep_until(until).await,
                    None => break,
                }
            }
            self.client.asked(
                self.number,
                (order.key, order.version),
                order.correlation_id,
            );
            if let Some(waiter) = order.waiter {
                lock(&self.shared).awaited.push_back(Awaited {
                    key: order.key,
                    version: order.version,
                    correlation_id: order.correlation_id,
                    deadline: Instant::now() + order.timeout,
                    asked_ms: u64::try_from(trace::now().as_millis()).unwrap_or(u64::MAX),
                    waiter,
                });
                self.changed.notify_one();
            }
            if let Err(error) = writer.write_all(&order.frame).await {
                return (CallError::Lost(error.kind().to_string()), true);
            }
            if let Some(written) = order.written {
                // Whoever asked may have stopped waiting.
                let _ = written.send(());
            }
        }
        (CallError::Lost("no longer needed".to_owned()), false)
    }

    /// Says in the history for whom the connection is, and what was moved or shown for them.
    fn serves(&self, key: ApiKey, correlation: i32, asked_ms: u64, served: Vec<String>) {
        let connection = self.number;
        if key == ApiKey::SASL_AUTHENTICATE {
            let presented = lock(&self.shared).presented.pop_front();
            if let (Some(held), false) = (presented, served.is_empty()) {
                self.client.record(Event::Authenticated {
                    connection,
                    principal: held.principal.clone(),
                    tenant: held.tenant.clone(),
                });
                lock(&self.shared).authenticated = Some(held);
            }
            return;
        }
        let Some(held) = lock(&self.shared).authenticated.clone() else {
            return;
        };
        for resource in served {
            self.client.record(Event::Served {
                deed: (connection << 32) | u64::from(correlation.unsigned_abs()),
                principal: held.principal.clone(),
                tenant: held.tenant.clone(),
                action: key.to_string().into(),
                resource: resource.into(),
                asked_ms: Some(asked_ms),
            });
        }
    }

    /// Ends when an answer is overdue.
    async fn watch(&self) -> CallError {
        loop {
            let next = {
                let shared = lock(&self.shared);
                shared.awaited.iter().map(|awaited| awaited.deadline).min()
            };
            match next {
                None => self.changed.notified().await,
                Some(deadline) if deadline <= Instant::now() => return self.overdue(),
                Some(deadline) => {
                    tokio::select! {
                        biased;
                        () = self.changed.notified() => {}
                        () = sleep_until(deadline) => {}
                    }
                }
            }
        }
    }

    /// Those whose time is up hear so; the others will hear that the connection is lost.
    fn overdue(&self) -> CallError {
        let now = Instant::now();
        let overdue = {
            let mut shared = lock(&self.shared);
            let all = std::mem::take(&mut shared.awaited);
            let (overdue, rest): (VecDeque<_>, VecDeque<_>) =
                all.into_iter().partition(|awaited| awaited.deadline <= now);
            shared.awaited = rest;
            shared.closed = Some(CallError::TimedOut);
            overdue
        };
        for request in overdue {
            // It is told its own error.
            let _ = request.waiter.take(Err(CallError::TimedOut));
        }
        CallError::Lost("an answer was overdue".to_owned())
    }
}

/// Everything that waits hears why there is no answer.
pub(super) fn fail_all(shared: &Mutex<Shared>, error: &CallError) {
    let awaited = {
        let mut shared = lock(shared);
        shared.closed.get_or_insert_with(|| error.clone());
        std::mem::take(&mut shared.awaited)
    };
    for request in awaited {
        // It is told its own error.
        let _ = request.waiter.take(Err(error.clone()));
    }
}
