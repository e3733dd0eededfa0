//! The loop: start, relay, wait, back off, start again; stop when told to.

use std::future::Future;
use std::net::SocketAddr;
use std::os::unix::process::ExitStatusExt;
use std::process::ExitStatus;
use std::time::Duration;

use tokio::task::JoinHandle;
use tokio::time::Instant;

use crate::backoff::Backoff;
use crate::child::{Launcher, Running};
use crate::relay::relay;
use crate::settings::{Settings, shown_url};
use crate::status::{Phase, Status};

/// How long the last lines of a child that ended are waited for.
const LAST_LINES: Duration = Duration::from_secs(1);

/// Supervises one facade.
#[derive(Debug)]
pub struct Supervisor {
    settings: Settings,
    launcher: Launcher,
    status: Status,
}

impl Supervisor {
    /// One that starts nothing yet. `launcher` is the broker's own executable and the words behind
    /// which it calls [`crate::launch::run`] with the two that follow: its parent and the facade.
    pub fn new(settings: Settings, launcher: Vec<std::ffi::OsString>, status: Status) -> Self {
        Self {
            settings,
            launcher: Launcher { command: launcher },
            status,
        }
    }

    /// Keeps the facade running until `stop` ends, then ends it: SIGTERM to its group, SIGKILL
    /// behind the grace. `bound` is where the broker listens.
    ///
    /// Await it on the thread that lives as long as the process (`main`'s own), because the kernel
    /// ends the child with the thread that started it. Dropped, the child's group is killed.
    pub async fn run(self, bound: SocketAddr, stop: impl Future<Output = ()>) {
        let mut stop = std::pin::pin!(stop);
        let mut backoff = Backoff::default();
        let mut restarts = 0;
        loop {
            let started = Instant::now();
            match self.start(bound) {
                Ok((mut child, relaying)) => {
                    self.status.running(child.pid, started, restarts);
                    let ended = tokio::select! {
                        biased;
                        () = stop.as_mut() => {
                            self.status.phase(Phase::Stopping);
                            self.exited(child.stop(self.settings.grace).await);
                            finish(relaying).await;
                            break;
                        }
                        ended = child.ended() => ended,
                    };
                    finish(relaying).await;
                    self.exited(ended);
                }
                Err(error) => self.exited(Err(error)),
            }
            let wait = backoff.after(started.elapsed());
            self.status.backing_off(wait);
            tracing::warn!(
                last_exit = self.status.report().last_exit,
                backoff_ms = u64::try_from(wait.as_millis()).unwrap_or(u64::MAX),
                "queen-kafka facade ended and is started again",
            );
            tokio::select! {
                biased;
                () = stop.as_mut() => break,
                () = tokio::time::sleep(wait) => restarts += 1,
            }
        }
        self.status.phase(Phase::Stopped);
    }

    fn start(&self, bound: SocketAddr) -> std::io::Result<(Running, JoinHandle<()>)> {
        let (url, from) = self.settings.child_url(bound);
        let (child, stdout, stderr) = Running::start(&self.launcher, &self.settings.bin, &url)?;
        tracing::info!(
            pid = child.pid,
            bin = %self.settings.bin.display(),
            queen_url = shown_url(&url),
            queen_url_from = from,
            "queen-kafka facade started (embedded)",
        );
        let relaying = tokio::spawn(relay(stdout, stderr, |line| {
            tracing::info!(target: "queen_kafka", "{line}");
        }));
        Ok((child, relaying))
    }

    fn exited(&self, how: std::io::Result<ExitStatus>) {
        let how = match how {
            Ok(status) => match (status.code(), status.signal()) {
                (Some(code), _) => format!("exit code {code}"),
                (None, Some(signal)) => format!("signal {signal}"),
                (None, None) => status.to_string(),
            },
            Err(error) => error.to_string(),
        };
        self.status.exited(how);
    }
}

/// Somebody outside the group may hold the child's output open for ever.
async fn finish(mut relaying: JoinHandle<()>) {
    let last = tokio::time::timeout(LAST_LINES, &mut relaying);
    if last.await.is_err() {
        relaying.abort();
    }
}
