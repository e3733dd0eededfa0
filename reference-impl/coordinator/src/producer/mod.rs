//! Producer ids, epochs and sequence windows (KIP-98, KIP-360): which batch of an idempotent
//! producer is new, which was stored before, which comes too early.
//!
//! The rules are those of Apache Kafka's `ProducerStateManager`, with one addition: a log that is
//! reached over a network answers late, so batches wait *admitted* between their verdict and their
//! place in the log, and a pipelined batch is judged against them.
//!
//! # Calls
//!
//! Commands: [`ProducerStates::admit`] gives a verdict. Each [`Verdict::Admitted`] must be followed
//! by exactly one event, [`ProducerStates::acknowledge`] or [`ProducerStates::fail`]; one lane
//! resolves the tickets of a key in the order it got them. `fail` returns the tickets that stood
//! behind the failed batch in its epoch: they're withdrawn and must not reach the log.
//! [`ProducerStates::expire`] is housekeeping; `admit` does a little of it each time.

mod sequence;
mod window;

#[cfg(test)]
mod tests;

use std::hash::Hash;
use std::time::Duration;

use host::Monotonic;
use indexmap::IndexMap;

pub use sequence::{Sequence, SequenceRange};
pub use window::BATCHES_REMEMBERED;
use window::Window;

/// A producer's epoch, 0 or more. A higher one fences the lower ones.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct ProducerEpoch(i16);

impl ProducerEpoch {
    /// The first epoch of a producer id.
    pub const ZERO: Self = Self(0);

    /// The epoch on the wire; `None` for a negative one (no producer).
    pub fn new(wire: i16) -> Option<Self> {
        (wire >= 0).then_some(Self(wire))
    }

    /// The number as the wire has it.
    pub const fn get(self) -> i16 {
        self.0
    }

    /// The next epoch; `None` when the id is used up (Kafka leaves `i16::MAX` for fencing).
    pub const fn bump(self) -> Option<Self> {
        if self.0 >= i16::MAX - 1 {
            None
        } else {
            Some(Self(self.0 + 1))
        }
    }
}

/// An admitted batch, until it's resolved.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Ticket(u64);

/// An ordered path to the log. Two lanes may overtake each other, so a window whose batches wait in
/// one doesn't admit through another.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Lane(pub u64);

/// What becomes of a batch.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Verdict {
    /// New and next in sequence: append it, then resolve the ticket.
    Admitted(Ticket),
    /// Stored before; the answer is its original base offset.
    Duplicate {
        /// The offset of the batch's first record.
        base_offset: i64,
    },
    /// The same batch was admitted and isn't resolved: it shares that ticket's outcome.
    InFlight(Ticket),
    /// Next in sequence, but the batches before it wait in another lane: try again soon.
    Busy,
    /// Not to be appended.
    Refused(Refusal),
}

/// Why a batch isn't appended.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Refusal {
    /// A gap before it, or a new epoch that doesn't start at 0 (`OUT_OF_ORDER_SEQUENCE_NUMBER`).
    #[error("the batch isn't next in sequence")]
    OutOfOrderSequence,
    /// Stored before, too long ago to know its offset (`DUPLICATE_SEQUENCE_NUMBER`).
    #[error("the batch was stored before")]
    DuplicateSequence,
    /// A newer epoch of this producer was seen (`INVALID_PRODUCER_EPOCH`).
    #[error("the producer epoch was superseded")]
    InvalidProducerEpoch,
}

/// Bounds of [`ProducerStates`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Limits {
    /// Windows kept; the least recently written goes first. Windows with admitted batches don't
    /// count as evictable, so for a moment there may be as many more as batches are in flight.
    pub windows: usize,
    /// An idle window is forgotten after this (Kafka's `producer.id.expiration.ms`).
    pub expiration: Duration,
}

impl Default for Limits {
    /// 65,536 windows (about 15 MiB when full), one day as Kafka.
    fn default() -> Self {
        Self {
            windows: 65_536,
            expiration: Duration::from_secs(24 * 60 * 60),
        }
    }
}

const NIL: usize = usize::MAX;

#[derive(Debug)]
struct Slot {
    window: Window,
    touched: Monotonic,
    /// Neighbours in the list of idle windows, by position in the map; `NIL` at its ends.
    older: usize,
    newer: usize,
    idle: bool,
}

/// The windows of every producer. `K` names one: whose it is, producer id, topic, partition.
#[derive(Debug)]
pub struct ProducerStates<K> {
    slots: IndexMap<K, Slot>,
    /// Ends of the list of idle windows, least recently written first.
    oldest: usize,
    newest: usize,
    limits: Limits,
    next_ticket: u64,
    evictions: u64,
}

impl<K: Clone + Eq + Hash> ProducerStates<K> {
    /// No windows yet.
    pub fn new(limits: Limits) -> Self {
        Self {
            slots: IndexMap::new(),
            oldest: NIL,
            newest: NIL,
            limits,
            next_ticket: 0,
            evictions: 0,
        }
    }

    /// How many windows are kept.
    pub fn len(&self) -> usize {
        self.slots.len()
    }

    /// Whether no window is kept.
    pub fn is_empty(&self) -> bool {
        self.slots.is_empty()
    }

    /// Windows dropped for room since the start; expired ones aren't counted.
    pub const fn evictions(&self) -> u64 {
        self.evictions
    }

    /// Every window in which something is stored: its key, epoch and last sequence, in no
    /// particular order.
    pub fn stored(&self) -> impl Iterator<Item = (&K, ProducerEpoch, Sequence)> {
        self.slots.iter().filter_map(|(key, slot)| {
            let (epoch, last) = slot.window.stored()?;
            Some((key, epoch, last))
        })
    }

    /// Judges the batch `range` of `key`'s producer at `epoch`, to be appended through `lane`.
    pub fn admit(
        &mut self,
        now: Monotonic,
        key: &K,
        lane: Lane,
        epoch: ProducerEpoch,
        range: SequenceRange,
    ) -> Verdict {
        // One more than the call may add, so that a full table of dead windows drains.
        self.expire_some(now, 2);
        let ticket = Ticket(self.next_ticket);
        let at = match self.slots.get_index_of(key) {
            Some(at) => at,
            None => self.insert(key.clone(), now),
        };
        let slot = &mut self.slots[at];
        let verdict = slot.window.admit(lane, epoch, range, ticket);
        if let Verdict::Admitted(_) = verdict {
            self.next_ticket += 1;
            self.unlink(at);
            self.slots[at].touched = now;
        }
        verdict
    }

    /// Whether a batch can be judged by what is known here, even where other nodes append batches
    /// of the same producer. If not, the log has to be read first, and [`ProducerStates::resume`]
    /// or [`ProducerStates::forget`] told what it shows.
    pub fn knows(&self, key: &K, epoch: ProducerEpoch, range: SequenceRange) -> bool {
        match self.slots.get(key) {
            Some(slot) => slot.window.knows(epoch, range),
            None => range.first() == Sequence::ZERO,
        }
    }

    /// The last record of `key`'s producer in the log is of `epoch`, and `next` is the sequence
    /// after it. Does nothing while batches are admitted: then the log is about to change.
    pub fn resume(&mut self, now: Monotonic, key: &K, epoch: ProducerEpoch, next: Sequence) {
        let at = match self.slots.get_index_of(key) {
            Some(at) => at,
            None => self.insert(key.clone(), now),
        };
        if self.slots[at].window.is_idle() {
            self.slots[at].window.resume(epoch, next);
            self.settle(at, now);
        }
    }

    /// The log shows nothing of `key`'s producer: its next batch may be any. Does nothing while
    /// batches are admitted.
    pub fn forget(&mut self, key: &K) {
        if let Some(at) = self.slots.get_index_of(key)
            && self.slots[at].window.is_idle()
        {
            self.remove(at);
        }
    }

    /// The batch is in the log, its first record at `base_offset`. `false` when the ticket is
    /// unknown (resolved before, or withdrawn).
    pub fn acknowledge(
        &mut self,
        now: Monotonic,
        key: &K,
        ticket: Ticket,
        base_offset: i64,
    ) -> bool {
        let Some(at) = self.slots.get_index_of(key) else {
            return false;
        };
        let known = self.slots[at].window.acknowledge(ticket, base_offset);
        self.settle(at, now);
        known
    }

    /// The batch isn't in the log, or nobody knows. Returns the tickets admitted behind it in its
    /// epoch, withdrawn by this call: were they appended, the log would have a gap.
    pub fn fail(&mut self, now: Monotonic, key: &K, ticket: Ticket) -> Vec<Ticket> {
        let Some(at) = self.slots.get_index_of(key) else {
            return Vec::new();
        };
        let doomed = self.slots[at].window.fail(ticket);
        self.settle(at, now);
        doomed
    }

    /// Forgets every window that was idle for too long. Costs the windows it forgets.
    pub fn expire(&mut self, now: Monotonic) {
        self.expire_some(now, usize::MAX);
    }

    fn expire_some(&mut self, now: Monotonic, at_most: usize) {
        for _ in 0..at_most {
            match self.slots.get_index(self.oldest) {
                Some((_, slot)) if now - slot.touched >= self.limits.expiration => {
                    self.remove(self.oldest);
                }
                _ => return,
            }
        }
    }

    /// Puts a window whose last admitted batch was resolved back among the idle ones.
    fn settle(&mut self, at: usize, now: Monotonic) {
        let slot = &self.slots[at];
        if slot.window.is_blank() {
            self.remove(at);
        } else if slot.window.is_idle() && !slot.idle {
            self.slots[at].touched = now;
            self.link_newest(at);
            self.make_room();
        }
    }

    fn insert(&mut self, key: K, now: Monotonic) -> usize {
        let (at, _) = self.slots.insert_full(
            key,
            Slot {
                window: Window::default(),
                touched: now,
                older: NIL,
                newer: NIL,
                idle: false,
            },
        );
        // The new window isn't linked yet, so it can't be the one that goes; it may move, though.
        if self.slots.len() > self.limits.windows && self.oldest != NIL {
            let evicted = self.oldest;
            self.remove(evicted);
            self.evictions += 1;
            return if at == self.slots.len() { evicted } else { at };
        }
        at
    }

    /// Drops idle windows beyond the limit (those that grew past it while in flight).
    fn make_room(&mut self) {
        while self.slots.len() > self.limits.windows && self.oldest != NIL {
            self.remove(self.oldest);
            self.evictions += 1;
        }
    }

    fn link_newest(&mut self, at: usize) {
        let before = self.newest;
        let slot = &mut self.slots[at];
        slot.idle = true;
        slot.older = before;
        slot.newer = NIL;
        match self.slots.get_index_mut(before) {
            Some((_, slot)) => slot.newer = at,
            None => self.oldest = at,
        }
        self.newest = at;
    }

    fn unlink(&mut self, at: usize) {
        let slot = &mut self.slots[at];
        if !slot.idle {
            return;
        }
        slot.idle = false;
        let (older, newer) = (slot.older, slot.newer);
        match self.slots.get_index_mut(older) {
            Some((_, slot)) => slot.newer = newer,
            None => self.oldest = newer,
        }
        match self.slots.get_index_mut(newer) {
            Some((_, slot)) => slot.older = older,
            None => self.newest = older,
        }
    }

    /// Removes a window; the map's last one takes its position, so its neighbours learn that.
    fn remove(&mut self, at: usize) {
        self.unlink(at);
        self.slots.swap_remove_index(at);
        let Some((_, moved)) = self.slots.get_index(at) else {
            return;
        };
        if !moved.idle {
            return;
        }
        let (older, newer) = (moved.older, moved.newer);
        match self.slots.get_index_mut(older) {
            Some((_, slot)) => slot.newer = at,
            None => self.oldest = at,
        }
        match self.slots.get_index_mut(newer) {
            Some((_, slot)) => slot.older = at,
            None => self.newest = at,
        }
    }
}
