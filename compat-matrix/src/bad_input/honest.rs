//! The client beside: it asks for metadata over and over, and every answer must come, in time.

use std::time::Duration;

use kafka_wire::ApiKey;
use tokio::sync::oneshot;
use tokio::task::JoinHandle;
use tokio::time::{Instant, sleep};

use crate::cx::Cx;
use crate::spec::{Stop, Verdict, ensure};
use crate::target::{Memory, Node};
use crate::wire::{Connection, Reply};

/// Metadata v1, correlation id 7, client id "honest", no topics.
const REQUEST: &[u8] = b"\x00\x03\x00\x01\x00\x00\x00\x07\x00\x06honest\x00\x00\x00\x00";
/// Between two questions.
const ASKS_EVERY: Duration = Duration::from_millis(20);
/// What an honest client would call an outage.
const PATIENCE: Duration = Duration::from_secs(5);

/// A running honest client.
#[derive(Debug)]
pub(super) struct Honest {
    stop: oneshot::Sender<()>,
    running: JoinHandle<Result<Report, Stop>>,
}

#[derive(Debug)]
struct Report {
    answers: u64,
    slowest: Duration,
}

impl Honest {
    /// Connects and starts to ask.
    pub(super) async fn start(bootstrap: &str) -> Result<Self, Stop> {
        let mut connection = Connection::open(bootstrap)
            .await
            .map_err(|error| Stop::fail(format!("the honest client cannot connect: {error}")))?;
        let (stop, mut stopped) = oneshot::channel();
        let running = tokio::spawn(async move {
            let mut report = Report {
                answers: 0,
                slowest: Duration::ZERO,
            };
            while stopped.try_recv() == Err(oneshot::error::TryRecvError::Empty) {
                let began = Instant::now();
                connection.send(REQUEST).await.map_err(|error| {
                    Stop::fail(format!("the honest client cannot send: {error}"))
                })?;
                match connection.reply(PATIENCE).await {
                    Reply::Frame(frame) if frame.starts_with(&[0, 0, 0, 7]) => {}
                    other => {
                        return Err(Stop::fail(format!(
                            "the honest client got no answer but {other:?}"
                        )));
                    }
                }
                report.answers += 1;
                report.slowest = report.slowest.max(began.elapsed());
                sleep(ASKS_EVERY).await;
            }
            Ok(report)
        });
        Ok(Self { stop, running })
    }

    /// Stops it, and demands that all was well.
    pub(super) async fn was_well(self, cx: &Cx) -> Verdict {
        // It may have ended by itself, with a failure that is read below.
        let _ = self.stop.send(());
        let report = self
            .running
            .await
            .map_err(|error| Stop::fail(format!("the honest client was lost: {error}")))??;
        cx.record.seen(ApiKey::METADATA, 1);
        cx.record.fact("honest client, answers", report.answers);
        cx.record.fact(
            "honest client, slowest answer ms",
            u64::try_from(report.slowest.as_millis()).unwrap_or(u64::MAX),
        );
        ensure(report.answers > 0, || {
            "the honest client was never answered".into()
        })
    }
}

/// The memory of a node before and after something was done to it.
#[derive(Clone, Copy, Debug)]
pub(super) struct Watch(Option<Memory>);

impl Watch {
    /// Reads it before.
    pub(super) async fn start(node: &Node) -> Self {
        Self(node.memory().await)
    }

    /// Demands that the most that ever was resident lies at most `limit_kib` above what was resident
    /// before. Nothing is demanded of a server that somebody else started.
    pub(super) async fn grew_at_most(self, cx: &Cx, node: &Node, limit_kib: u64) -> Verdict {
        let (Some(before), Some(after)) = (self.0, node.memory().await) else {
            return Ok(());
        };
        let grew = after.peak_kib.saturating_sub(before.resident_kib);
        cx.record.fact("resident before, KiB", before.resident_kib);
        cx.record.fact("resident after, KiB", after.resident_kib);
        cx.record.fact("peak above before, KiB", grew);
        ensure(grew <= limit_kib, || {
            format!("the node took {grew} KiB more, above the {limit_kib} KiB that this may cost")
        })
    }
}
