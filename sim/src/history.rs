//! The history of a simulated run: the crate `history`, with simulated time, and beside it the
//! trace.

use std::fmt;

pub use ::history::*;

use crate::trace::{self, Node, Trace};

/// The history of one run, while it grows. Clones are the same one.
#[derive(Clone, Debug)]
pub struct Recorder {
    history: ::history::Recorder,
    trace: Trace,
}

impl Recorder {
    /// An empty history, beside `trace`.
    pub fn new(trace: Trace) -> Self {
        let now = || u64::try_from(trace::now().as_millis()).unwrap_or(u64::MAX);
        Self {
            history: ::history::Recorder::new(now),
            trace,
        }
    }

    /// Records what `who` did or saw, now. Inside a machine.
    pub fn record(&self, who: &Name, event: Event) {
        self.history.record(who, event);
    }

    /// Records what the world does `at_ms`. Faults come from outside every machine, where there is
    /// no simulated clock.
    pub fn mark(&self, at_ms: u64, mark: Mark) {
        let world = Name::from("world");
        self.history.record_at(at_ms, &world, Event::Mark(mark));
    }

    /// An operation of `who` begins.
    pub fn begin(&self, who: &Name, call: Call, within_ms: Option<u64>) -> Operation {
        self.history.begin(who, call, within_ms)
    }

    /// A number for a new connection, unique in the run.
    pub fn connection(&self) -> u64 {
        self.history.connection()
    }

    /// Notes in the trace what `client` does.
    pub fn note(&self, client: &str, what: fmt::Arguments<'_>) {
        self.trace
            .note(Node::Clients, format_args!("{client} {what}"));
    }

    /// The entries so far.
    pub fn entries(&self) -> Vec<Entry> {
        self.history.entries()
    }
}
