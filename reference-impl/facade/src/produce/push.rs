//! One gathered push, until each of its batches is stored or refused.
//!
//! - Not stored, and may be later (429, 503, unreachable): the same items again, while the client
//!   waits.
//! - Nobody knows (answer lost): the same items again where Queen recognises them.
//! - Refused as a whole (413, 400, 404; 403 by queue): halved until only the offender is left.

use std::sync::Arc;
use std::time::Duration;

use host::Monotonic;
use indexmap::IndexMap;
use kafka_wire::ErrorCode;

use super::gather::Gatherer;
use super::unit::{Failure, Outcome, Replay, Unit};
use super::verdict::{self, Stored};
use crate::queen::{Class, Error, Fragment, Repeat};
use crate::upstream_errors::{self, Api, MAX_THROTTLE};

/// The first wait before a push is tried again; doubles up to [`LAST_BACKOFF`].
const FIRST_BACKOFF: Duration = Duration::from_millis(50);
/// The code of a refused push doesn't depend on the version of a Produce request.
const VERSION: i16 = 0;
/// The longest wait that Queen didn't ask for.
const LAST_BACKOFF: Duration = Duration::from_secs(1);

/// Pushes `units`, which belong to `gatherer`'s credential, and answers each of them.
pub(super) async fn run(gatherer: &Gatherer, units: Vec<Unit>) {
    let mut push = Push {
        gatherer,
        work: vec![units],
        backoff: FIRST_BACKOFF,
    };
    while let Some(units) = push.work.pop() {
        let units = push.still_wanted(units);
        if !units.is_empty() {
            push.attempt(units).await;
        }
    }
}

struct Push<'g> {
    gatherer: &'g Gatherer,
    /// Bodies still to be pushed, the next one last.
    work: Vec<Vec<Unit>>,
    backoff: Duration,
}

impl Push<'_> {
    fn now(&self) -> Monotonic {
        self.gatherer.shared.clock.monotonic()
    }

    fn settle(&self, unit: Unit, result: Result<Stored, Failure>) {
        self.gatherer.shared.settle(unit, result);
    }

    /// Answers the batches that may not or need not be pushed any more, and returns the others.
    fn still_wanted(&self, units: Vec<Unit>) -> Vec<Unit> {
        let now = self.now();
        let mut wanted = Vec::with_capacity(units.len());
        for unit in units {
            if self.gatherer.shared.table.is_doomed(&unit) {
                self.settle(unit, Err(withdrawn()));
            } else if unit.deadline <= now {
                self.settle(unit, Err(Failure::new(ErrorCode::RequestTimedOut)));
            } else {
                wanted.push(unit);
            }
        }
        wanted
    }

    async fn attempt(&mut self, units: Vec<Unit>) {
        let fragments: Vec<Fragment> = units.iter().map(|unit| unit.fragment.clone()).collect();
        let recognised = units.iter().all(|unit| unit.replay == Replay::Recognised);
        let repeat = if recognised {
            Repeat::Safe
        } else {
            Repeat::Unsafe
        };
        let shared = &self.gatherer.shared;
        let metrics = &shared.metrics;
        let started = self.now();
        let answer = shared
            .client
            .push(&self.gatherer.credential, &fragments, repeat)
            .await;
        metrics.pushes.inc();
        metrics.push_seconds.observe(self.now() - started);
        let items = units.iter().map(Unit::items).sum::<usize>();
        metrics.push_items.observe_count(items as u64);
        match answer {
            Ok(verdicts) => {
                self.backoff = FIRST_BACKOFF;
                let mut verdicts = verdicts.as_slice();
                for unit in units {
                    // One verdict per item: `Client::push` proved it.
                    let (mine, rest) = verdicts.split_at(unit.items().min(verdicts.len()));
                    verdicts = rest;
                    let result = if shared.table.is_doomed(&unit) {
                        Err(withdrawn())
                    } else {
                        verdict::of(mine)
                    };
                    self.settle(unit, result);
                }
            }
            Err(error) => {
                metrics.push_failures.inc();
                tracing::debug!(%error, items, "a push failed");
                self.refused(units, &error).await;
            }
        }
    }

    async fn refused(&mut self, units: Vec<Unit>, error: &Error) {
        match error.class() {
            Class::TooLarge | Class::Rejected | Class::NotFound if units.len() > 1 => {
                self.halve(units, Unit::len_bytes);
            }
            Class::Forbidden if several_queues(&units) => self.part_by_queue(units),
            Class::Throttled | Class::Unavailable => self.hold(units, error).await,
            Class::Unknown => {
                let (again, lost) = units
                    .into_iter()
                    .partition(|unit| unit.replay == Replay::Recognised);
                let lost: Vec<Unit> = lost;
                for unit in lost {
                    self.settle(unit, Err(Failure::new(ErrorCode::RequestTimedOut)));
                }
                self.hold(again, error).await;
            }
            Class::TooLarge
            | Class::Rejected
            | Class::NotFound
            | Class::Forbidden
            | Class::Unauthenticated => {
                let answer = upstream_errors::answer(Api::Produce, VERSION, error);
                let failure = Failure::because(answer.code, answer.message);
                for unit in units {
                    self.settle(unit, Err(failure.clone()));
                }
            }
        }
    }

    /// Two bodies of about the same weight in place of one, in order.
    fn halve(&mut self, mut units: Vec<Unit>, weight: impl Fn(&Unit) -> usize) {
        let half = units.iter().map(&weight).sum::<usize>() / 2;
        let mut before = 0;
        let middle = units
            .iter()
            .position(|unit| {
                before += weight(unit);
                before > half
            })
            .unwrap_or(1)
            .clamp(1, units.len() - 1);
        let behind = units.split_off(middle);
        self.work.push(behind);
        self.work.push(units);
    }

    /// One body per queue in place of one for several: permission is a matter of queues at most.
    fn part_by_queue(&mut self, units: Vec<Unit>) {
        let mut bodies: IndexMap<Arc<str>, Vec<Unit>> = IndexMap::new();
        for unit in units {
            let queue = Arc::clone(&unit.lane.queue);
            bodies.entry(queue).or_default().push(unit);
        }
        self.work.extend(bodies.into_values().rev());
    }

    /// The same body again, after a wait, for those whose clients wait that long.
    async fn hold(&mut self, units: Vec<Unit>, error: &Error) {
        if units.is_empty() {
            return;
        }
        let throttle = upstream_errors::throttle(error);
        let asked = throttle.max(error.retry_after().unwrap_or_default());
        let wait = asked.clamp(self.backoff, MAX_THROTTLE);
        self.backoff = (self.backoff * 2).min(LAST_BACKOFF);
        let now = self.now();
        if error.class() == Class::Throttled {
            self.gatherer.pause(now + wait);
        }
        let mut held = Vec::with_capacity(units.len());
        for mut unit in units {
            unit.throttle = unit.throttle.max(throttle);
            if unit.deadline <= now + wait {
                self.settle(unit, Err(Failure::new(ErrorCode::RequestTimedOut)));
            } else {
                held.push(unit);
            }
        }
        if !held.is_empty() {
            self.gatherer.shared.metrics.retries.inc();
            tokio::time::sleep(wait).await;
            self.work.push(held);
        }
    }
}

fn several_queues(units: &[Unit]) -> bool {
    units
        .iter()
        .any(|unit| unit.lane.queue != units[0].lane.queue)
}

/// The answer for a batch whose predecessor failed: the client sends both again, in order.
fn withdrawn() -> Failure {
    Failure::because(
        ErrorCode::OutOfOrderSequenceNumber,
        "the batch before it in sequence was not stored",
    )
}

impl super::Shared {
    /// Answers a batch, and everyone who sent the same one.
    pub(super) fn settle(&self, unit: Unit, result: Result<Stored, Failure>) {
        match (&result, unit.appended) {
            (Ok(Stored { fresh: false, .. }), _) => self.metrics.duplicates.inc(),
            (Ok(stored), Some(appended)) => {
                self.time_index.appended(appended, stored.base_offset);
            }
            _ => {}
        }
        drop(unit.reservation);
        let is_sequenced = unit.sequenced.is_some();
        self.table.resolve(
            self.clock.monotonic(),
            unit.sequenced.as_ref(),
            unit.ticket,
            unit.answer,
            Outcome {
                result: result.map(|stored| stored.base_offset),
                throttle: unit.throttle,
            },
        );
        if is_sequenced {
            let (windows, evictions) = self.table.usage();
            let gauge = |n: u64| i64::try_from(n).unwrap_or(i64::MAX);
            self.metrics.windows.set(gauge(windows as u64));
            self.metrics.window_evictions.raise_to(evictions);
        }
    }
}
