//! How a node stops: it drains what is in flight for a bounded time, then closes what is left.
//!
//! One [`Trigger`] per node; every task that must end holds a [`Shutdown`] to hear it and a
//! [`Guard`] to be waited for.

use std::sync::Arc;
use std::time::Duration;

use tokio::sync::watch;
use tokio::time::timeout;

/// How long closed tasks get to notice: they only have to return, not to wait for anything.
const CLOSING: Duration = Duration::from_secs(1);

/// Where a node stands.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Phase {
    /// Serving.
    Running,
    /// Nothing new is accepted or parked; what is in flight is finished.
    Draining,
    /// Everything ends now.
    Closed,
}

/// A new pair in the running phase.
pub fn shutdown() -> (Trigger, Shutdown) {
    let (sender, phase) = watch::channel(Phase::Running);
    let guards = Arc::new(watch::channel(()).0);
    let trigger = Trigger {
        phase: sender,
        guards: Arc::clone(&guards),
    };
    (trigger, Shutdown { phase, guards })
}

/// Stops a node. Dropped without [`Trigger::stop`], it closes the node at once.
#[derive(Debug)]
pub struct Trigger {
    phase: watch::Sender<Phase>,
    guards: Arc<watch::Sender<()>>,
}

impl Trigger {
    /// Drains for at most `drain`, then closes. Returns whether everything ended inside `drain`.
    pub async fn stop(self, drain: Duration) -> bool {
        self.phase.send_replace(Phase::Draining);
        let drained = timeout(drain, self.guards.closed()).await.is_ok();
        self.phase.send_replace(Phase::Closed);
        // A task that misses this holds no promise to anybody: the process may end under it.
        let _ = timeout(CLOSING, self.guards.closed()).await;
        drained
    }
}

/// Hears the stop of its node. Cheap to clone.
#[derive(Clone, Debug)]
pub struct Shutdown {
    phase: watch::Receiver<Phase>,
    guards: Arc<watch::Sender<()>>,
}

impl Shutdown {
    /// The phase now.
    pub fn phase(&self) -> Phase {
        if self.phase.has_changed().is_err() {
            return Phase::Closed;
        }
        *self.phase.borrow()
    }

    /// Ends when the node drains (or is closed).
    pub async fn draining(&self) {
        self.reached(Phase::Draining).await;
    }

    /// Ends when the node is closed.
    pub async fn closed(&self) {
        self.reached(Phase::Closed).await;
    }

    /// Something the stop waits for until it is dropped.
    pub fn guard(&self) -> Guard {
        Guard {
            _alive: self.guards.subscribe(),
        }
    }

    async fn reached(&self, phase: Phase) {
        // An error says that the trigger is gone, which closes the node.
        let _ = self.phase.clone().wait_for(|now| *now >= phase).await;
    }
}

/// Keeps the stop waiting, at most for the drain time, until it is dropped.
#[derive(Debug)]
pub struct Guard {
    _alive: watch::Receiver<()>,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test(start_paused = true)]
    async fn a_stop_waits_for_guards_and_no_longer_than_the_drain() {
        let (trigger, shutdown) = shutdown();
        assert_eq!(shutdown.phase(), Phase::Running);
        let guard = shutdown.guard();
        let hears = shutdown.clone();
        let worker = tokio::spawn(async move {
            hears.draining().await;
            tokio::time::sleep(Duration::from_millis(500)).await;
            drop(guard);
        });
        let started = tokio::time::Instant::now();
        assert!(trigger.stop(Duration::from_secs(2)).await);
        assert_eq!(started.elapsed(), Duration::from_millis(500));
        assert_eq!(shutdown.phase(), Phase::Closed);
        worker.await.unwrap();
    }

    #[tokio::test(start_paused = true)]
    async fn a_task_that_does_not_end_is_closed_after_the_drain() {
        let (trigger, shutdown) = shutdown();
        let guard = shutdown.guard();
        let hears = shutdown.clone();
        tokio::spawn(async move {
            hears.closed().await;
            drop(guard);
        });
        let started = tokio::time::Instant::now();
        assert!(!trigger.stop(Duration::from_secs(2)).await);
        assert_eq!(started.elapsed(), Duration::from_secs(2));
    }

    #[tokio::test]
    async fn a_dropped_trigger_closes_the_node() {
        let (trigger, shutdown) = shutdown();
        drop(trigger);
        shutdown.closed().await;
        assert_eq!(shutdown.phase(), Phase::Closed);
    }
}
