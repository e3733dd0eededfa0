//! The client beside: it asks for metadata over and over, and every answer must come, in time.

use std::time::Duration;

use kafka_wire::ApiKey;
use tokio::sync::oneshot;
use tokio::task::JoinHandle;
use tokio::time::{Instant, sleep};

use crate::cx::Cx;
use crate::spec::{Stop, Verdict, ensure};
use crate::target::{Memory, Node};
use crate::wire::{Access, Connection, Reply};

/// Metadata v1, correlation id 7, client id "honest", no topics.
pub(crate) const REQUEST: &[u8] = b"\x00\x03\x00\x01\x00\x00\x00\x07\x00\x06honest\x00\x00\x00\x00";
/// Between two questions.
const ASKS_EVERY: Duration = Duration::from_millis(20);
/// What an honest client would call an outage.
const PATIENCE: Duration = Duration::from_secs(5);
/// How long a client is watched before anything happens.
const CALM: Duration = Duration::from_millis(500);
/// Fewer answers say nothing about the slowest hundredth.
const ENOUGH_ANSWERS: usize = 8;

/// A running honest client.
#[derive(Debug)]
pub(crate) struct Honest {
    stop: oneshot::Sender<()>,
    running: JoinHandle<Result<Report, Stop>>,
}

#[derive(Debug)]
struct Report {
    /// How long each answer took.
    took: Vec<Duration>,
}

impl Honest {
    /// Connects and starts to ask for metadata.
    pub(crate) async fn start(bootstrap: &Access) -> Result<Self, Stop> {
        Self::asking(bootstrap, REQUEST).await
    }

    /// Connects and starts to send `request`.
    pub(crate) async fn asking(bootstrap: &Access, request: &[u8]) -> Result<Self, Stop> {
        let request = request.to_vec();
        // Behind key and version.
        let correlation: [u8; 4] = request[4..8]
            .try_into()
            .map_err(|_| Stop::fail("a request without a correlation id"))?;
        let mut connection = Connection::open(bootstrap)
            .await
            .map_err(|error| Stop::fail(format!("the honest client cannot connect: {error}")))?;
        let (stop, mut stopped) = oneshot::channel();
        let running = tokio::spawn(async move {
            let mut report = Report { took: Vec::new() };
            while stopped.try_recv() == Err(oneshot::error::TryRecvError::Empty) {
                let began = Instant::now();
                connection.send(&request).await.map_err(|error| {
                    Stop::fail(format!("the honest client cannot send: {error}"))
                })?;
                match connection.reply(PATIENCE).await {
                    Reply::Frame(frame) if frame.starts_with(&correlation) => {}
                    other => {
                        return Err(Stop::fail(format!(
                            "the honest client got no answer but {other:?}"
                        )));
                    }
                }
                report.took.push(began.elapsed());
                sleep(ASKS_EVERY).await;
            }
            Ok(report)
        });
        Ok(Self { stop, running })
    }

    /// Stops it, and demands that all was well: every answer came, in the time of an outage.
    pub(crate) async fn was_well(self, cx: &Cx) -> Verdict {
        let took = self.stop(cx, "client").await?;
        ensure(!took.is_empty(), || {
            "the honest client was never answered".into()
        })
    }

    /// The slowest answer to `request` while nothing else happens: what this machine needs for it.
    pub(crate) async fn calm(
        cx: &Cx,
        bootstrap: &Access,
        who: &str,
        request: &[u8],
    ) -> Result<Duration, Stop> {
        let calm = Self::asking(bootstrap, request).await?;
        sleep(CALM).await;
        let took = calm.stop(cx, &format!("{who} before")).await?;
        let slowest = took.last().copied();
        slowest.ok_or_else(|| Stop::fail(format!("the honest {who} was never answered")))
    }

    /// Stops it, and demands that 99 of 100 answers came within `limit`, and all of them before the
    /// time of an outage.
    pub(crate) async fn was_served_within(self, cx: &Cx, who: &str, limit: Duration) -> Verdict {
        let took = self.stop(cx, who).await?;
        ensure(took.len() >= ENOUGH_ANSWERS, || {
            format!("the honest {who} got {} answers only", took.len())
        })?;
        // Of fewer than a hundred it is the slowest but one.
        let p99 = took[took.len() - 1 - took.len().div_ceil(100)];
        ensure(p99 <= limit, || {
            format!(
                "99 of 100 answers to the honest {who} took up to {} ms, above {} ms",
                p99.as_millis(),
                limit.as_millis()
            )
        })
    }

    /// How long its answers took, the slowest last.
    async fn stop(self, cx: &Cx, who: &str) -> Result<Vec<Duration>, Stop> {
        // It may have ended by itself, with a failure that is read below.
        let _ = self.stop.send(());
        let report = self
            .running
            .await
            .map_err(|error| Stop::fail(format!("the honest client was lost: {error}")))??;
        cx.record.seen(ApiKey::METADATA, 1);
        let mut took = report.took;
        took.sort_unstable();
        cx.record.fact(format!("honest {who}, answers"), took.len());
        let slowest = took.last().map_or(0, Duration::as_millis);
        cx.record.fact(
            format!("honest {who}, slowest answer ms"),
            u64::try_from(slowest).unwrap_or(u64::MAX),
        );
        Ok(took)
    }
}

/// The memory of a node before and after something was done to it; `None` of a server that somebody
/// else started.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Watch(Option<Memory>);

/// The memory of a node of ours. That it can't be read is a failure: a bound that nobody measured
/// does not hold.
async fn read(node: &Node) -> Result<Option<Memory>, Stop> {
    let Some(_ours) = node.folder() else {
        return Ok(None);
    };
    let memory = node.memory().await;
    memory
        .map(Some)
        .ok_or_else(|| Stop::fail("the node's memory can't be read: has it ended?"))
}

impl Watch {
    /// Reads it before.
    ///
    /// # Errors
    ///
    /// A node of ours whose memory can't be read.
    pub(crate) async fn start(node: &Node) -> Result<Self, Stop> {
        read(node).await.map(Self)
    }

    /// Demands that the most that ever was resident lies at most `limit_kib` above what was resident
    /// before. Nothing is demanded of a server that somebody else started.
    pub(crate) async fn grew_at_most(self, cx: &Cx, node: &Node, limit_kib: u64) -> Verdict {
        let (Some(before), Some(after)) = (self.0, read(node).await?) else {
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
