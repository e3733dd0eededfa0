//! Writes a history while it happens.

use std::fmt;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use crate::call::{Call, Failure, Producer, Reply};
use crate::event::{Entry, Event, Op};
use crate::value::Name;

/// A clock: milliseconds since the start of the history.
type Now = Arc<dyn Fn() -> u64 + Send + Sync>;

/// The history of one run, while it grows. Clones are the same one.
#[derive(Clone)]
pub struct Recorder {
    inner: Arc<Mutex<Inner>>,
    now: Now,
}

#[derive(Debug, Default)]
struct Inner {
    entries: Vec<Entry>,
    ops: u64,
    connections: u64,
}

impl fmt::Debug for Recorder {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Recorder").finish_non_exhaustive()
    }
}

impl Recorder {
    /// An empty history whose entries get their time from `now`, in milliseconds.
    pub fn new(now: impl Fn() -> u64 + Send + Sync + 'static) -> Self {
        Self {
            inner: Arc::default(),
            now: Arc::new(now),
        }
    }

    fn lock(&self) -> MutexGuard<'_, Inner> {
        self.inner.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Records what `who` did or saw, now.
    pub fn record(&self, who: &Name, event: Event) {
        let at_ms = (self.now)();
        self.record_at(at_ms, who, event);
    }

    /// Records what happened at a time that the recorder's clock doesn't show. A time before the
    /// last entry's becomes that.
    pub fn record_at(&self, at_ms: u64, who: &Name, event: Event) {
        let mut inner = self.lock();
        let before_ms = inner.entries.last().map_or(0, |last| last.at_ms);
        inner.entries.push(Entry {
            at_ms: at_ms.max(before_ms),
            who: who.clone(),
            event,
        });
    }

    /// An operation of `who` begins; it is to end within so many milliseconds, when it has a bound.
    /// Dropping what this returns leaves it open, as a crash does.
    pub fn begin(&self, who: &Name, call: Call, within_ms: Option<u64>) -> Operation {
        let op = {
            let mut inner = self.lock();
            inner.ops += 1;
            Op(inner.ops)
        };
        let event = Event::Invoke {
            op,
            call,
            within_ms,
        };
        self.record(who, event);
        Operation {
            op,
            who: who.clone(),
            recorder: self.clone(),
        }
    }

    /// A number for a new connection, unique in the history.
    pub fn connection(&self) -> u64 {
        let mut inner = self.lock();
        inner.connections += 1;
        inner.connections
    }

    /// The entries so far.
    pub fn entries(&self) -> Vec<Entry> {
        self.lock().entries.clone()
    }
}

/// An operation that has begun.
#[derive(Debug)]
#[must_use = "an operation that is dropped never ends"]
pub struct Operation {
    op: Op,
    who: Name,
    recorder: Recorder,
}

impl Operation {
    /// Its number.
    pub fn op(&self) -> Op {
        self.op
    }

    /// A batch goes out, for the `attempt`th time (the first is 1), under this identity and
    /// sequence; or a commit, which has no sequence, and an identity only in a transaction.
    pub fn attempt(&self, attempt: u32, producer: Option<Producer>, sequence: Option<i32>) {
        let event = Event::Attempt {
            op: self.op,
            attempt,
            producer,
            sequence,
        };
        self.recorder.record(&self.who, event);
    }

    /// It took effect.
    pub fn ok(self, reply: Reply) {
        self.end(Event::Ok { op: self.op, reply });
    }

    /// It took no effect, and never will.
    pub fn fail(self, failure: Failure) {
        self.end(Event::Fail {
            op: self.op,
            failure,
        });
    }

    /// Nobody knows whether it took effect.
    pub fn unknown(self, failure: Failure) {
        self.end(Event::Unknown {
            op: self.op,
            failure,
        });
    }

    fn end(&self, event: Event) {
        self.recorder.record(&self.who, event);
    }
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::{AtomicU64, Ordering};

    use super::*;
    use crate::event::Mark;

    #[test]
    fn entries_have_their_time_and_operations_their_number() {
        let clock = Arc::new(AtomicU64::new(3));
        let recorder = {
            let clock = Arc::clone(&clock);
            Recorder::new(move || clock.load(Ordering::Relaxed))
        };
        let who = Name::from("a");
        let first = recorder.begin(&who, Call::Begin { transaction: 0 }, None);
        let second = recorder.begin(&who, Call::Begin { transaction: 1 }, None);
        assert_ne!(first.op(), second.op());
        clock.store(9, Ordering::Relaxed);
        second.ok(Reply::Done);
        recorder.record_at(7, &"world".into(), Event::Mark(Mark::Heal));
        let times: Vec<_> = recorder.entries().iter().map(|entry| entry.at_ms).collect();
        assert_eq!(times, [3, 3, 9, 9], "time never goes back");
    }
}
