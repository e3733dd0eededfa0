//! How the child is, for `GET /status`. Shared data, no processes.

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use tokio::time::Instant;

/// What the supervisor is doing.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Phase {
    /// Nothing was started yet.
    #[default]
    Starting,
    /// The child runs.
    Running,
    /// It died and is brought back after a wait.
    Backoff,
    /// It has been told to stop.
    Stopping,
    /// It is gone for good.
    Stopped,
}

impl Phase {
    /// As it is shown.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Starting => "starting",
            Self::Running => "running",
            Self::Backoff => "backoff",
            Self::Stopping => "stopping",
            Self::Stopped => "stopped",
        }
    }
}

/// The child at one moment.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Report {
    /// What is done about it.
    pub phase: Phase,
    /// Of the running child.
    pub pid: Option<u32>,
    /// Starts after the first.
    pub restarts: u64,
    /// How the last one ended.
    pub last_exit: Option<String>,
    /// How long this one runs.
    pub uptime: Option<Duration>,
    /// How long the wait now is.
    pub backoff: Option<Duration>,
}

/// Shared by the supervisor and whoever shows it.
#[derive(Clone, Debug, Default)]
pub struct Status(Arc<Mutex<Inner>>);

#[derive(Debug, Default)]
struct Inner {
    report: Report,
    since: Option<Instant>,
}

impl Status {
    /// How it is now.
    pub fn report(&self) -> Report {
        let inner = self.lock();
        Report {
            uptime: inner.since.map(|since| since.elapsed()),
            ..inner.report.clone()
        }
    }

    pub(crate) fn running(&self, pid: u32, since: Instant, restarts: u64) {
        let mut inner = self.lock();
        inner.since = Some(since);
        let report = &mut inner.report;
        (report.phase, report.pid) = (Phase::Running, Some(pid));
        (report.restarts, report.backoff) = (restarts, None);
    }

    pub(crate) fn exited(&self, how: String) {
        let mut inner = self.lock();
        inner.since = None;
        (inner.report.pid, inner.report.last_exit) = (None, Some(how));
    }

    pub(crate) fn backing_off(&self, wait: Duration) {
        let mut inner = self.lock();
        (inner.report.phase, inner.report.backoff) = (Phase::Backoff, Some(wait));
    }

    pub(crate) fn phase(&self, phase: Phase) {
        let mut inner = self.lock();
        (inner.report.phase, inner.report.backoff) = (phase, None);
    }

    fn lock(&self) -> MutexGuard<'_, Inner> {
        // Every change under the lock is complete in itself.
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
