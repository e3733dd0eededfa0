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
    /// The proxy of a cell, before Queen.
    Proxy,
    /// Queen.
    Queen,
}

impl Node {
    /// All of them.
    pub const ALL: [Self; 8] = [
        Self::Clients,
        Self::Strangers,
        Self::Facade,
        Self::Facade2,
        Self::Facade3,
        Self::Relay,
        Self::Proxy,
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
            Self::Proxy => "proxy",
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
    /// What goes to and from this port is encrypted.
    concealed: Option<u16>,
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

    /// From now on bytes to and from `port` are ciphertext, which differs from run to run: of it
    /// the sizes of its TLS records are noted alone.
    pub fn conceal(&self, port: u16) {
        self.lock().concealed = Some(port);
    }

    /// Notes a write of `bytes` to a socket with these two `ports`: length and checksum stand for
    /// the bytes.
    pub fn sent(&self, node: Node, to: fmt::Arguments<'_>, ports: [u16; 2], bytes: &[u8]) {
        let concealed = {
            let mut inner = self.lock();
            inner.sent_bytes += bytes.len() as u64;
            inner.concealed.is_some_and(|port| ports.contains(&port))
        };
        if concealed {
            let records = record_sizes(bytes);
            self.note(
                node,
                format_args!("> {to} {} bytes of TLS {records:?}", bytes.len()),
            );
            return;
        }
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

/// The sizes of the TLS records in `bytes`, each with its header; the last one may end in a later
/// write. Nothing of what is no TLS.
fn record_sizes(mut bytes: &[u8]) -> Vec<usize> {
    const HEADER: usize = 5;
    let mut sizes = Vec::new();
    while let [20..=23, 3, _, high, low, ..] = bytes {
        let size = HEADER + usize::from(u16::from_be_bytes([*high, *low]));
        sizes.push(size);
        bytes = bytes.get(size..).unwrap_or_default();
    }
    sizes
}

/// Simulated time, inside a machine; zero outside (nothing is left to be compared there).
pub fn now() -> Duration {
    turmoil::sim_elapsed().unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn of_ciphertext_the_sizes_are_noted() {
        assert_eq!(
            record_sizes(&[22, 3, 1, 0, 2, 9, 9, 23, 3, 3, 1, 0]),
            [7, 261]
        );
        assert!(record_sizes(b"GET / HTTP/1.1").is_empty());
        let lines = |byte: u8| {
            let trace = Trace::default();
            trace.conceal(9092);
            for ports in [[4000, 9092], [4000, 80]] {
                trace.sent(
                    Node::Facade,
                    format_args!("x"),
                    ports,
                    &[23, 3, 3, 0, 1, byte],
                );
            }
            trace.lines()
        };
        let (one, other) = (lines(1), lines(2));
        assert_eq!(one[0], other[0], "encrypted");
        assert!(one[0].ends_with("6 bytes of TLS [6]"), "{}", one[0]);
        assert_ne!(one[1], other[1], "in the clear");
    }
}
