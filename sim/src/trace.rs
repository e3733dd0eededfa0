//! What happened in a run, line by line: every write to a socket, every fault, every call of a
//! client. Two runs are the same when their traces are.

use std::fmt;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

/// The machines of a world, as names in the simulated network.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Node {
    /// Every client, each a task.
    Clients,
    /// Clients that mean no good, on a machine of their own.
    Strangers,
    /// The facade.
    Facade,
    /// The second facade, where there are several.
    Facade2,
    /// The third.
    Facade3,
    /// The HTTP relay between facades and Queen.
    Relay,
    /// Queen.
    Queen,
}

impl Node {
    /// All of them.
    pub const ALL: [Self; 7] = [
        Self::Clients,
        Self::Strangers,
        Self::Facade,
        Self::Facade2,
        Self::Facade3,
        Self::Relay,
        Self::Queen,
    ];

    /// Its name in the simulated network.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Clients => "clients",
            Self::Strangers => "strangers",
            Self::Facade => "facade",
            Self::Facade2 => "facade-2",
            Self::Facade3 => "facade-3",
            Self::Relay => "relay",
            Self::Queen => "queen",
        }
    }
}

impl fmt::Display for Node {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(self.name())
    }
}

#[derive(Debug, Default)]
struct Inner {
    lines: Vec<String>,
    sent_bytes: u64,
}

/// The trace of one run. Clones are the same one.
#[derive(Clone, Debug, Default)]
pub struct Trace(Arc<Mutex<Inner>>);

impl Trace {
    fn lock(&self) -> MutexGuard<'_, Inner> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Notes `what` happened on `node`, now in simulated time.
    pub fn note(&self, node: Node, what: fmt::Arguments<'_>) {
        self.note_at(now(), node.name(), what);
    }

    /// Notes what the world itself does `at` a time: faults come from outside every machine.
    pub fn note_at(&self, at: Duration, who: &str, what: fmt::Arguments<'_>) {
        let line = format!(
            "{:>7}.{:03} {who:<9} {what}",
            at.as_millis(),
            at.subsec_micros() % 1000
        );
        self.lock().lines.push(line);
    }

    /// Notes a write of `bytes` to a socket: length and checksum stand for the bytes.
    pub fn sent(&self, node: Node, to: fmt::Arguments<'_>, bytes: &[u8]) {
        self.lock().sent_bytes += bytes.len() as u64;
        let checksum = crc32c::crc32c(bytes);
        self.note(
            node,
            format_args!("> {to} {} bytes {checksum:08x}", bytes.len()),
        );
    }

    /// Bytes written to sockets so far.
    pub fn sent_bytes(&self) -> u64 {
        self.lock().sent_bytes
    }

    /// The lines so far.
    pub fn lines(&self) -> Vec<String> {
        self.lock().lines.clone()
    }
}

/// Simulated time, inside a machine; zero outside (nothing is left to be compared there).
pub fn now() -> Duration {
    turmoil::sim_elapsed().unwrap_or_default()
}
