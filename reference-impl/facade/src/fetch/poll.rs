//! Reads the planned lanes from Queen: one wait for all of them.
//!
//! One call carries 1,024 lanes. A wider assignment is first read without waiting, all chunks side
//! by side; when none has news they're parked together, and the first with news ends the wait.

use std::sync::Arc;
use std::time::Duration;

use futures::FutureExt;
use futures::future::{BoxFuture, join_all};
use futures::stream::{FuturesUnordered, StreamExt};
use host::shutdown::Shutdown;
use host::{Clock, Monotonic};
use kafka_wire::ErrorCode;

use super::plan::{Planned, Source};
use super::surplus::{Answer, Rest};
use crate::queen::{
    Client, Credential, Error, FetchEntry, LaneStatus, MAX_FETCH_ENTRIES, MAX_FETCH_WAIT,
};
use crate::upstream_errors::{self, Api};

/// What is asked of Queen for a response of some bytes, at most: Queen counts compressed bytes and
/// delivers whole records, and what does not fit is kept for the next response.
const READ_AHEAD: usize = 2;
/// What each lane is asked for in any case, if the client wants as much of it: of a wide assignment
/// most lanes have nothing new.
const MIN_ENTRY_BYTES: u32 = 64 << 10;
/// How long a request waits when none of its lanes can be waited for.
const BLIND_WAIT: Duration = Duration::from_secs(1);

/// What reading one partition gave.
#[derive(Clone, Debug)]
pub enum Read {
    /// A lane of an answer.
    Lane(Rest),
    /// A code instead.
    Failed(ErrorCode),
    /// Nothing: Queen asked to wait, or the wait ended elsewhere.
    Unread,
}

/// What reading all partitions gave.
#[derive(Debug)]
pub struct Polled {
    /// In the order of the plan.
    pub reads: Vec<Read>,
    /// How long the client should wait.
    pub throttle: Duration,
}

/// Tells whether topics are there when Queen doesn't know one of their lanes.
pub trait Existence: Sync {
    /// Whether the topic of `planned` is gone.
    fn is_missing<'a>(&'a self, planned: &'a Planned) -> BoxFuture<'a, bool>;
}

/// How long a request may wait, and for what.
#[derive(Clone, Copy, Debug)]
pub struct Patience {
    /// At most this long.
    pub max_wait: Duration,
    /// For this much.
    pub min_bytes: u32,
    /// The most record bytes of the response: not much more is asked of Queen.
    pub max_bytes: usize,
}

/// What reading needs of its node.
#[derive(Debug)]
pub struct Reader<'n> {
    /// Calls to Queen.
    pub client: &'n Client,
    /// Made as.
    pub credential: &'n Credential,
    /// The clock.
    pub clock: &'n dyn Clock,
    /// Ends the wait.
    pub shutdown: &'n Shutdown,
    /// Counts calls.
    pub metrics: &'n super::Metrics,
    /// The version of the API.
    pub version: i16,
}

type Outcome = (Vec<usize>, Result<Arc<Answer>, Error>);

impl Reader<'_> {
    /// Reads the lanes of `planned`; waits as `patience` says when nothing else keeps the client
    /// from its answer.
    pub async fn poll(
        &self,
        planned: &[Planned],
        patience: Patience,
        existence: &dyn Existence,
    ) -> Polled {
        let mut polled = Polled {
            reads: planned.iter().map(at_hand).collect(),
            throttle: Duration::ZERO,
        };
        let share = Share::of(planned, patience.max_bytes);
        let mut wanted: Vec<usize> = (0..planned.len())
            .filter(|&index| matches!(planned[index].source, Source::Read))
            .collect();
        let deadline = self.clock.monotonic() + patience.max_wait.min(MAX_FETCH_WAIT);
        // Records or errors at hand are not kept waiting.
        let mut waits = wanted.len() == planned.len() && patience.min_bytes > 0;
        while !wanted.is_empty() {
            let outcomes = tokio::select! {
                biased;
                () = self.shutdown.draining(), if waits => return polled,
                outcomes = self.round(planned, &wanted, deadline, waits, patience.min_bytes, share) => outcomes,
            };
            let news = self.take_in(&mut polled, outcomes);
            // Before Queen 1.4 a lane that was never pushed to is unknown, like a queue.
            let (gone, never_pushed) = self.unknown(planned, &polled, &wanted, existence).await;
            for &index in &gone {
                polled.reads[index] = Read::Failed(planned[index].unknown_code());
            }
            wanted.retain(|index| !never_pushed.contains(index));
            if never_pushed.is_empty() || news || !gone.is_empty() || !waits {
                break;
            }
            if wanted.is_empty() {
                let left = (deadline - self.clock.monotonic()).min(BLIND_WAIT);
                tokio::select! {
                    biased;
                    () = self.shutdown.draining() => {}
                    () = tokio::time::sleep(left) => {}
                }
            }
            waits = deadline > self.clock.monotonic();
        }
        polled
    }

    /// Reads the lanes `wanted` once; when they have no news and `waits`, until they have.
    async fn round(
        &self,
        planned: &[Planned],
        wanted: &[usize],
        deadline: Monotonic,
        waits: bool,
        min_bytes: u32,
        share: Share,
    ) -> Vec<Outcome> {
        let left = || deadline - self.clock.monotonic();
        let chunks: Vec<&[usize]> = wanted.chunks(MAX_FETCH_ENTRIES).collect();
        if let [chunk] = chunks[..] {
            let wait = if waits { left() } else { Duration::ZERO };
            return vec![self.call(planned, chunk, wait, min_bytes, share).await];
        }
        let now = chunks
            .iter()
            .map(|chunk| self.call(planned, chunk, Duration::ZERO, min_bytes, share));
        let first = join_all(now).await;
        if !waits || first.iter().any(has_news) || left().is_zero() {
            return first;
        }
        let mut parked: FuturesUnordered<_> = chunks
            .iter()
            .map(|chunk| self.call(planned, chunk, left(), min_bytes, share))
            .collect();
        let mut outcomes = first;
        while let Some(outcome) = parked.next().await {
            let ends = has_news(&outcome);
            outcomes.push(outcome);
            if ends {
                // Those that have their answer already come along; the others are called off.
                while let Some(Some(outcome)) = parked.next().now_or_never() {
                    outcomes.push(outcome);
                }
                break;
            }
        }
        outcomes
    }

    async fn call(
        &self,
        planned: &[Planned],
        chunk: &[usize],
        wait: Duration,
        min_bytes: u32,
        share: Share,
    ) -> Outcome {
        let entries: Vec<FetchEntry<'_>> = chunk
            .iter()
            .map(|&index| FetchEntry {
                queue: &planned[index].queue,
                partition: planned[index].partition,
                offset: planned[index].offset,
                max_bytes: share.of_entry(planned[index].entry_bytes()),
            })
            .collect();
        self.metrics.calls.inc();
        let answer = self
            .client
            .fetch(self.credential, &entries, wait, min_bytes)
            .await;
        (chunk.to_vec(), answer.map(Answer::new))
    }

    /// Puts outcomes in their places, later ones over earlier ones; whether any is news.
    fn take_in(&self, polled: &mut Polled, outcomes: Vec<Outcome>) -> bool {
        let mut news = false;
        for outcome in outcomes {
            news |= has_news(&outcome);
            let (chunk, answer) = outcome;
            match answer {
                Ok(answer) => {
                    for (lane, index) in chunk.into_iter().enumerate() {
                        polled.reads[index] = Read::Lane(Rest {
                            answer: Arc::clone(&answer),
                            lane,
                            from: 0,
                            len_bytes: 0,
                        });
                    }
                }
                Err(error) => {
                    let answer = upstream_errors::answer(Api::Fetch, self.version, &error);
                    tracing::debug!(%error, lanes = chunk.len(), "a fetch failed");
                    polled.throttle = polled.throttle.max(answer.throttle);
                    for index in chunk {
                        polled.reads[index] = match answer.code {
                            ErrorCode::None => Read::Unread,
                            code => Read::Failed(code),
                        };
                    }
                }
            }
        }
        news
    }

    /// Of the lanes that Queen doesn't know: those of missing topics, and those never pushed to.
    async fn unknown(
        &self,
        planned: &[Planned],
        polled: &Polled,
        wanted: &[usize],
        existence: &dyn Existence,
    ) -> (Vec<usize>, Vec<usize>) {
        let (mut gone, mut never_pushed) = (Vec::new(), Vec::new());
        for &index in wanted {
            if status(&polled.reads[index]) != Some(LaneStatus::Unknown) {
                continue;
            }
            if planned[index].topic.is_none() || existence.is_missing(&planned[index]).await {
                gone.push(index);
            } else {
                never_pushed.push(index);
            }
        }
        (gone, never_pushed)
    }
}

/// How much of what the client wants of each lane is asked of Queen.
#[derive(Clone, Copy, Debug)]
struct Share {
    wanted: u64,
    asked: u64,
}

impl Share {
    fn of(planned: &[Planned], max_bytes: usize) -> Self {
        let read = planned
            .iter()
            .filter(|planned| matches!(planned.source, Source::Read));
        let wanted: u64 = read.map(|planned| u64::from(planned.entry_bytes())).sum();
        let most = u64::try_from(max_bytes.saturating_mul(READ_AHEAD)).unwrap_or(u64::MAX);
        Self {
            wanted,
            asked: wanted.min(most),
        }
    }

    fn of_entry(self, bytes: u32) -> u32 {
        if self.asked == self.wanted {
            return bytes;
        }
        // At most `bytes`, since less is asked than is wanted.
        let share = u128::from(bytes) * u128::from(self.asked) / u128::from(self.wanted);
        let share = u32::try_from(share).unwrap_or(bytes);
        share.max(MIN_ENTRY_BYTES).min(bytes)
    }
}

fn at_hand(planned: &Planned) -> Read {
    match &planned.source {
        Source::Read | Source::Later => Read::Unread,
        Source::Kept(rest) => Read::Lane(rest.clone()),
        Source::Refused(code) => Read::Failed(*code),
    }
}

fn status(read: &Read) -> Option<LaneStatus> {
    match read {
        Read::Lane(rest) => rest.lane().map(|lane| lane.status()),
        Read::Failed(_) | Read::Unread => None,
    }
}

/// Whether an outcome ends the wait: records, or an error.
fn has_news((_, answer): &Outcome) -> bool {
    match answer {
        Err(_) => true,
        Ok(answer) => answer.fetched().lanes().any(|lane| {
            let unremarkable = matches!(lane.status(), LaneStatus::Ok | LaneStatus::Unknown);
            !unremarkable || lane.records().len() > 0
        }),
    }
}
