//! Group commit: while pushes of a credential are in flight, the next one is gathered from all its
//! connections.
//!
//! Batches of one lane are pushed one behind the other, never two pushes at a time, so retries
//! can't reorder them. Different lanes may be in different pushes.

use std::collections::VecDeque;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use coordinator::producer::Lane;
use host::Monotonic;
use indexmap::IndexMap;

use super::Shared;
use super::push;
use super::unit::{LaneKey, Unit};
use crate::queen::{Credential, MAX_PUSH_BYTES, MAX_PUSH_ITEMS};

/// Pushes of one credential at a time. Enough to keep a Queen busy that syncs its disk, few enough
/// that records gather while it does.
const MAX_PUSHES: usize = 4;
/// What must have gathered before a push starts beside another: it pays for itself.
const SECOND_PUSH_BYTES: usize = 512 << 10;
/// The same, in records.
const SECOND_PUSH_ITEMS: usize = 2_000;
/// What a body holds besides its items.
const BODY_OVERHEAD_BYTES: usize = 16;

/// Gathers the batches of one credential.
#[derive(Debug)]
pub struct Gatherer {
    pub(super) credential: Credential,
    pub(super) shared: Arc<Shared>,
    /// This gatherer, as the sequence windows see it.
    lane: Lane,
    queue: Mutex<Queue>,
}

#[derive(Debug, Default)]
struct Queue {
    /// Lanes with waiting batches or a push in flight.
    lanes: IndexMap<LaneKey, LaneQueue>,
    /// Lanes that could be pushed now, the one that waited longest first.
    ready: VecDeque<LaneKey>,
    ready_bytes: usize,
    ready_items: usize,
    pushes: usize,
    paused_until: Option<Monotonic>,
}

#[derive(Debug, Default)]
struct LaneQueue {
    units: VecDeque<Unit>,
    bytes: usize,
    items: usize,
    busy: bool,
}

/// What a push that ended does next.
#[derive(Debug)]
enum Next {
    Push(Vec<Unit>),
    /// Queen asked for a pause.
    Wait(Duration),
    Nothing,
}

impl Gatherer {
    pub(super) fn new(credential: Credential, shared: Arc<Shared>, lane: Lane) -> Arc<Self> {
        Arc::new(Self {
            credential,
            shared,
            lane,
            queue: Mutex::default(),
        })
    }

    fn lock(&self) -> MutexGuard<'_, Queue> {
        self.queue.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// The gatherer's name for the sequence windows.
    pub(super) const fn lane(&self) -> Lane {
        self.lane
    }

    /// Whether nothing waits and nothing is in flight.
    pub(super) fn is_idle(&self) -> bool {
        let queue = self.lock();
        queue.pushes == 0 && queue.lanes.is_empty()
    }

    /// Takes batches in. Those of an idempotent producer are judged here, in the order in which
    /// they'll be pushed.
    pub fn submit(self: &Arc<Self>, units: impl IntoIterator<Item = Unit>) {
        let now = self.shared.clock.monotonic();
        let mut queue = self.lock();
        for unit in units {
            // The window's lock is taken inside the queue's: verdicts and places agree.
            if let Some(unit) = self.shared.table.judge(now, self.lane, unit) {
                queue.enqueue(unit);
            }
        }
        let units = match queue.start(now) {
            Some(units) => units,
            // In a pause nobody else waits for its end.
            None if queue.pushes == 0 && !queue.ready.is_empty() => Vec::new(),
            None => return,
        };
        queue.pushes += 1;
        drop(queue);
        tokio::spawn(Arc::clone(self).run(units));
    }

    /// Keeps new pushes back until `until`: Queen said so.
    pub(super) fn pause(&self, until: Monotonic) {
        let mut queue = self.lock();
        queue.paused_until = queue.paused_until.max(Some(until));
    }

    /// One push after the other, until nothing is left that may start.
    async fn run(self: Arc<Self>, mut units: Vec<Unit>) {
        // Records that were taken in are stored before the node stops, whoever waits for them.
        let _guard = self.shared.shutdown.guard();
        loop {
            let lanes = lanes_of(&units);
            push::run(&self, units).await;
            let mut next = self.complete(lanes);
            units = loop {
                match next {
                    Next::Push(units) => break units,
                    Next::Nothing => return,
                    Next::Wait(pause) => {
                        tokio::time::sleep(pause).await;
                        next = self.complete(Vec::new());
                    }
                }
            };
        }
    }

    /// Frees the lanes of a push, and says what to do next.
    fn complete(&self, lanes: Vec<LaneKey>) -> Next {
        let now = self.shared.clock.monotonic();
        let mut queue = self.lock();
        for lane in lanes {
            queue.free(lane);
        }
        queue.pushes -= 1;
        let next = match queue.pause_left(now) {
            Some(_) if queue.ready.is_empty() => Next::Nothing,
            // Another push waits already, or will wait when it's done.
            Some(_) if queue.pushes > 0 => Next::Nothing,
            Some(left) => Next::Wait(queue.wait(now, left)),
            None => queue.start(now).map_or(Next::Nothing, Next::Push),
        };
        if !matches!(next, Next::Nothing) {
            queue.pushes += 1;
        }
        next
    }
}

impl Queue {
    fn enqueue(&mut self, unit: Unit) {
        let (bytes, items) = (unit.len_bytes(), unit.items());
        let key = unit.lane.clone();
        let lane = self.lanes.entry(key).or_default();
        let was_empty = lane.units.is_empty();
        lane.bytes += bytes;
        lane.items += items;
        let busy = lane.busy;
        if !busy && was_empty {
            self.ready.push_back(unit.lane.clone());
        }
        lane.units.push_back(unit);
        if !busy {
            self.ready_bytes += bytes;
            self.ready_items += items;
        }
    }

    /// The next push, if one should start beside those in flight.
    fn start(&mut self, now: Monotonic) -> Option<Vec<Unit>> {
        let worthwhile = match self.pushes {
            0 => true,
            1..MAX_PUSHES => {
                self.ready_bytes >= SECOND_PUSH_BYTES || self.ready_items >= SECOND_PUSH_ITEMS
            }
            _ => false,
        };
        if !worthwhile || self.ready.is_empty() || self.pause_left(now).is_some() {
            return None;
        }
        Some(self.take())
    }

    /// Batches for one body: whole lanes while they fit, and the front of one that doesn't.
    fn take(&mut self) -> Vec<Unit> {
        let mut body = Vec::new();
        let (mut bytes, mut items) = (BODY_OVERHEAD_BYTES, 0);
        while let Some(key) = self.ready.pop_front() {
            let Some(lane) = self.lanes.get_mut(&key) else {
                continue;
            };
            let before = body.len();
            while let Some(unit) = lane.units.front() {
                let fits = bytes + unit.len_bytes() <= MAX_PUSH_BYTES
                    && items + unit.items() <= MAX_PUSH_ITEMS;
                // A batch that fits into no body goes alone: it's Queen that knows its limit.
                if !fits && !body.is_empty() {
                    break;
                }
                bytes += unit.len_bytes();
                items += unit.items();
                lane.bytes -= unit.len_bytes();
                lane.items -= unit.items();
                self.ready_bytes -= unit.len_bytes();
                self.ready_items -= unit.items();
                body.extend(lane.units.pop_front());
            }
            if body.len() == before {
                self.ready.push_front(key);
                break;
            }
            lane.busy = true;
            // What's left of it isn't ready any more.
            self.ready_bytes -= lane.bytes;
            self.ready_items -= lane.items;
        }
        body
    }

    /// A lane's push has ended: what waits behind it is ready.
    fn free(&mut self, key: LaneKey) {
        let Some(lane) = self.lanes.get_mut(&key) else {
            return;
        };
        lane.busy = false;
        if lane.units.is_empty() {
            self.lanes.swap_remove(&key);
        } else {
            self.ready_bytes += lane.bytes;
            self.ready_items += lane.items;
            self.ready.push_back(key);
        }
    }

    fn pause_left(&self, now: Monotonic) -> Option<Duration> {
        self.paused_until
            .map(|until| until - now)
            .filter(|left| !left.is_zero())
    }

    /// How long to wait in a pause of `left`: not beyond the first deadline of a ready lane.
    fn wait(&mut self, now: Monotonic, left: Duration) -> Duration {
        let fronts = self.ready.iter().filter_map(|key| self.lanes.get(key));
        let deadlines = fronts.filter_map(|lane| lane.units.front().map(|unit| unit.deadline));
        match deadlines.min() {
            Some(first) if first - now < left => {
                // One push a little early costs less than leaving a client without its answer.
                self.paused_until = None;
                first - now
            }
            _ => left,
        }
    }
}

/// The lanes of a body, each once (its batches stand together).
fn lanes_of(units: &[Unit]) -> Vec<LaneKey> {
    let mut lanes: Vec<LaneKey> = Vec::new();
    for unit in units {
        if lanes.last() != Some(&unit.lane) {
            lanes.push(unit.lane.clone());
        }
    }
    lanes
}

/// Numbers gatherers apart.
#[derive(Debug, Default)]
pub(super) struct Lanes(u64);

impl Lanes {
    pub(super) fn next(&mut self) -> Lane {
        self.0 += 1;
        Lane(self.0)
    }
}
