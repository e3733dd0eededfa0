//! One child in a process group of its own: started, signalled, waited for. Dropped, its group is
//! killed.

use std::ffi::OsString;
use std::io;
use std::path::Path;
use std::process::{ExitStatus, Stdio};
use std::time::Duration;

use rustix::process::{Pid, Signal, kill_process_group};
use tokio::process::{Child, ChildStderr, ChildStdout, Command};

use crate::settings::STRIPPED;

/// How the child is started.
#[derive(Clone, Debug)]
pub struct Launcher {
    /// The broker's own executable and the words that make it call [`crate::launch::run`].
    pub command: Vec<OsString>,
}

/// A running child.
#[derive(Debug)]
pub struct Running {
    child: Child,
    group: Option<Pid>,
    /// For the log.
    pub pid: u32,
}

impl Running {
    /// Starts `bin` through the launcher. The environment is the broker's but for its secrets.
    pub fn start(
        launcher: &Launcher,
        bin: &Path,
        queen_url: &str,
    ) -> io::Result<(Self, ChildStdout, ChildStderr)> {
        let (program, words) = launcher
            .command
            .split_first()
            .ok_or_else(|| io::Error::other("no launcher"))?;
        let mut command = Command::new(program);
        command
            .args(words)
            .arg(std::process::id().to_string())
            .arg(bin)
            .env("QUEEN_URL", queen_url)
            .stdin(Stdio::null())
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .process_group(0)
            .kill_on_drop(true);
        for secret in STRIPPED {
            command.env_remove(secret);
        }
        let mut child = command.spawn()?;
        let gone = || io::Error::other("the child has no output");
        let (stdout, stderr) = (
            child.stdout.take().ok_or_else(gone)?,
            child.stderr.take().ok_or_else(gone)?,
        );
        let pid = child.id().ok_or_else(gone)?;
        // Its own leader.
        let group = i32::try_from(pid).ok().and_then(Pid::from_raw);
        let running = Self { child, group, pid };
        Ok((running, stdout, stderr))
    }

    /// Waits until it has ended.
    pub async fn ended(&mut self) -> io::Result<ExitStatus> {
        let status = self.child.wait().await?;
        // What it left behind would keep its port.
        self.signal(Signal::KILL);
        self.group = None;
        Ok(status)
    }

    /// SIGTERM to the group, SIGKILL when it has not ended within `grace`.
    pub async fn stop(&mut self, grace: Duration) -> io::Result<ExitStatus> {
        self.signal(Signal::TERM);
        if let Ok(ended) = tokio::time::timeout(grace, self.ended()).await {
            return ended;
        }
        tracing::warn!(
            pid = self.pid,
            "the facade did not stop in time and is killed"
        );
        self.signal(Signal::KILL);
        self.ended().await
    }

    fn signal(&self, signal: Signal) {
        if let Some(group) = self.group {
            // A group that is gone is what was wanted.
            let _ = kill_process_group(group, signal);
        }
    }
}

impl Drop for Running {
    fn drop(&mut self) {
        self.signal(Signal::KILL);
    }
}

#[cfg(test)]
mod tests {
    use rustix::process::test_kill_process;

    use super::*;

    #[tokio::test]
    async fn a_handle_that_is_dropped_takes_the_child_along() {
        let words = ["/bin/sh", "-c", "echo up; exec \"$2\" 600", "sh"];
        let launcher = Launcher {
            command: words.map(OsString::from).to_vec(),
        };
        let started = Running::start(&launcher, Path::new("sleep"), "http://queen");
        let (running, mut stdout, _) = started.unwrap();
        let mut up = [0; 3];
        tokio::io::AsyncReadExt::read_exact(&mut stdout, &mut up)
            .await
            .unwrap();
        let pid = running.group.unwrap();
        assert!(test_kill_process(pid).is_ok());
        drop(running);
        let gone = async {
            // The runtime waits for it once it hears of its end.
            while test_kill_process(pid).is_ok() {
                tokio::time::sleep(Duration::from_millis(10)).await;
            }
        };
        tokio::time::timeout(Duration::from_secs(30), gone)
            .await
            .unwrap();
    }
}
