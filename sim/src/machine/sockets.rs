//! How the sockets of a killed program close: in the order they were opened.
//!
//! A runtime that is torn down drops its tasks in an order that depends on how many tasks the
//! process has ever started, and each socket that closes draws a latency: two identical runs in one
//! process would part at the first crash. So sockets of a dying program are kept, and closed in
//! order by the one future that is dropped after all others.

use std::collections::BTreeMap;
use std::sync::{Mutex, MutexGuard, PoisonError};

use turmoil::net::TcpStream;

use super::Machine;

/// The sockets of one machine, as far as they have to be known.
#[derive(Debug, Default)]
pub(super) struct Sockets(Mutex<Inner>);

#[derive(Debug, Default)]
struct Inner {
    opened: u64,
    dying: bool,
    kept: BTreeMap<u64, TcpStream>,
}

impl Sockets {
    fn lock(&self) -> MutexGuard<'_, Inner> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// The number of a socket that opens.
    pub(super) fn number(&self) -> u64 {
        let mut inner = self.lock();
        inner.opened += 1;
        inner.opened
    }

    /// From now on sockets that are dropped are kept.
    pub(super) fn keep(&self) {
        self.lock().dying = true;
    }

    /// A socket is dropped: closed now, or kept when its machine is `frozen` or dying.
    pub(super) fn dropped(&self, number: u64, stream: TcpStream, frozen: bool) {
        let mut inner = self.lock();
        if inner.dying || frozen {
            inner.kept.insert(number, stream);
        }
    }

    /// Closes what is kept.
    pub(super) fn close(&self) {
        let mut inner = self.lock();
        inner.dying = false;
        let kept = std::mem::take(&mut inner.kept);
        drop(inner);
        // In order of their numbers.
        kept.into_values().for_each(drop);
    }
}

/// Closes the kept sockets when it is dropped.
#[derive(Debug)]
pub struct Kernel(Machine);

impl Kernel {
    pub(super) fn new(machine: Machine) -> Self {
        Self(machine)
    }
}

impl Drop for Kernel {
    fn drop(&mut self) {
        self.0.0.sockets.close();
    }
}
