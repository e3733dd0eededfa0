//! A frozen machine: nothing goes in or out of its sockets.
//!
//! turmoil can't stop the tasks of a host, so timers run on while it is frozen. What they lead to
//! leaves the machine when it thaws: the same that a process shows which was stopped between
//! deciding and writing. What it doesn't show is input that beats timers overdue since the freeze.

use std::sync::{Mutex, MutexGuard, PoisonError};
use std::task::{Context, Poll, Waker};

/// Which freeze: a later one isn't ended by the end of an earlier one.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Freeze(u64);

/// Open, or shut while the machine is frozen.
#[derive(Debug, Default)]
pub(super) struct Gate(Mutex<Inner>);

#[derive(Debug, Default)]
struct Inner {
    frozen: bool,
    freezes: u64,
    waiting: Vec<Waker>,
}

impl Gate {
    fn lock(&self) -> MutexGuard<'_, Inner> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Ready while the gate is open.
    pub(super) fn poll_open(&self, cx: &Context<'_>) -> Poll<()> {
        let mut inner = self.lock();
        if !inner.frozen {
            return Poll::Ready(());
        }
        if !inner
            .waiting
            .iter()
            .any(|known| known.will_wake(cx.waker()))
        {
            inner.waiting.push(cx.waker().clone());
        }
        Poll::Pending
    }

    /// Ends when the gate is open.
    pub(super) async fn open(&self) {
        std::future::poll_fn(|cx| self.poll_open(cx)).await;
    }

    pub(super) fn is_shut(&self) -> bool {
        self.lock().frozen
    }

    pub(super) fn shut(&self) -> Freeze {
        let mut inner = self.lock();
        inner.frozen = true;
        inner.freezes += 1;
        Freeze(inner.freezes)
    }

    /// Opens the gate when `freeze` is what shut it. Whether it did.
    pub(super) fn end(&self, freeze: Freeze) -> bool {
        let mut inner = self.lock();
        if !inner.frozen || freeze.0 != inner.freezes {
            return false;
        }
        inner.frozen = false;
        let waiting = std::mem::take(&mut inner.waiting);
        drop(inner);
        waiting.into_iter().for_each(Waker::wake);
        true
    }

    /// The program is gone, and whoever waited with it.
    pub(super) fn reset(&self) {
        let mut inner = self.lock();
        inner.frozen = false;
        inner.waiting.clear();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_freeze_is_ended_by_its_own_end_alone() {
        let gate = Gate::default();
        let cx = Context::from_waker(Waker::noop());
        assert!(gate.poll_open(&cx).is_ready());
        let first = gate.shut();
        let second = gate.shut();
        assert!(!gate.end(first) && gate.poll_open(&cx).is_pending());
        assert!(gate.end(second) && gate.poll_open(&cx).is_ready());
        assert!(!gate.end(second));
        let third = gate.shut();
        gate.reset();
        assert!(!gate.is_shut() && !gate.end(third));
    }
}
