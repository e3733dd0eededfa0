//! One server process: this binary re-executed as `queen-kafka`, or somebody else's address.

use std::ffi::OsStr;
use std::fs::File;
use std::path::{Path, PathBuf};
use std::process::{ExitStatus, Stdio};
use std::time::Duration;

use tokio::process::{Child, Command};
use tokio::sync::Mutex;
use tokio::time::{Instant, sleep};

use super::outfit::{Equipment, Outfit};
use super::queen::QueenProcess;
use crate::cx::last_lines;
use crate::spec::Stop;
use crate::wire::{Access, Connection};

/// How long a node may take to answer its first request.
const READY_WITHIN: Duration = Duration::from_secs(30);
/// How long a server that runs already may take, before an address is taken for a wrong one.
const ANSWERS_WITHIN: Duration = Duration::from_secs(5);
/// How long a node may take to end after it was asked to.
const END_WITHIN: Duration = Duration::from_secs(10);
/// Between two looks at a node that is not ready yet.
const LOOK_EVERY: Duration = Duration::from_millis(20);

/// The name under which this program is a node.
const NODE_NAME: &str = "queen-kafka";

/// Whether a program that was started as `arg0` is to be a node.
pub fn called_as_node(arg0: Option<&OsStr>) -> bool {
    arg0.is_some_and(|arg0| Path::new(arg0).file_name() == Some(OsStr::new(NODE_NAME)))
}

/// What the matrix sets for every node it starts. Few partitions, no initial join delay and quick
/// heartbeats, because checks make hundreds of topics and groups and their subject is not the wait.
const DEFAULT_SETTINGS: &[(&str, &str)] = &[
    ("QUEEN_KAFKA_DEFAULT_PARTITIONS", "4"),
    ("QUEEN_KAFKA_GROUP_JOIN_DELAY_MS", "0"),
    ("QUEEN_KAFKA_GROUP_CONSUMER_HEARTBEAT_INTERVAL_MS", "200"),
    ("QUEEN_KAFKA_GROUP_CONSUMER_SESSION_TIMEOUT_MS", "6000"),
];

/// A server under test.
#[derive(Debug)]
pub struct Node {
    access: Access,
    /// `None` for a server that somebody else started.
    own: Option<Own>,
}

/// What is needed to start a node again as it was.
#[derive(Debug)]
struct Own {
    /// What is run under the name [`NODE_NAME`].
    program: PathBuf,
    folder: PathBuf,
    settings: Vec<(String, String)>,
    process: Mutex<Option<Child>>,
    /// The Queen behind it, where it has one of its own process.
    _queen: Option<QueenProcess>,
}

/// Memory of a process as its kernel counts it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Memory {
    /// Resident now (`VmRSS`), in KiB.
    pub resident_kib: u64,
    /// The most that ever was resident (`VmHWM`), in KiB.
    pub peak_kib: u64,
}

impl Node {
    /// Takes a running server and waits until it answers.
    pub(super) async fn at(access: Access) -> Result<Self, Stop> {
        Self::just_started(access, ANSWERS_WITHIN).await
    }

    /// As [`Node::at`], with another patience.
    pub(super) async fn just_started(access: Access, within: Duration) -> Result<Self, Stop> {
        let node = Self { access, own: None };
        node.ready(within).await?;
        Ok(node)
    }

    /// Starts a node over an empty Queen in `folder` and waits until it answers.
    pub(super) async fn launch(
        folder: PathBuf,
        settings: &[(&str, &str)],
        outfit: &Outfit,
    ) -> Result<Self, Stop> {
        let program = std::env::current_exe()
            .map_err(|error| Stop::fail(format!("cannot find this program: {error}")))?;
        let equipment = outfit.equip(&folder).await?;
        Self::launch_over(program, folder, settings, equipment).await
    }

    /// As [`Node::launch`], with another build of `queen-kafka` than the one in this program.
    pub(crate) async fn launch_program(
        program: PathBuf,
        folder: PathBuf,
        settings: &[(&str, &str)],
    ) -> Result<Self, Stop> {
        Self::launch_over(program, folder, settings, Equipment::default()).await
    }

    pub(super) async fn launch_over(
        program: PathBuf,
        folder: PathBuf,
        settings: &[(&str, &str)],
        equipment: Equipment,
    ) -> Result<Self, Stop> {
        let port = free_port().map_err(|error| Stop::fail(format!("no free port: {error}")))?;
        let bootstrap = format!("127.0.0.1:{port}");
        let mut all: Vec<(String, String)> = vec![
            (
                "QUEEN_URL".into(),
                format!("embedded:{}", folder.join("data").display()),
            ),
            ("QUEEN_KAFKA_ADDR".into(), bootstrap.clone()),
            ("QUEEN_KAFKA_ADVERTISED_ADDR".into(), bootstrap.clone()),
        ];
        let equipped = equipment.settings.iter();
        let equipped = equipped.map(|(name, value)| (name.as_str(), value.as_str()));
        let given = DEFAULT_SETTINGS.iter().copied().chain(equipped);
        for (name, value) in given.chain(settings.iter().copied()) {
            all.retain(|(known, _)| known != name);
            all.push((name.to_owned(), value.to_owned()));
        }
        let node = Self {
            access: Access::new(bootstrap, equipment.security),
            own: Some(Own {
                program,
                folder,
                settings: all,
                process: Mutex::new(None),
                _queen: equipment.queen,
            }),
        };
        node.start().await?;
        Ok(node)
    }

    /// Where clients bootstrap from, and how.
    pub const fn bootstrap(&self) -> &Access {
        &self.access
    }

    /// The folder of the node's data and log; `None` for a server that somebody else started.
    pub fn folder(&self) -> Option<&Path> {
        self.own.as_ref().map(|own| own.folder.as_path())
    }

    /// The process id, while the node runs and is ours.
    pub async fn pid(&self) -> Option<u32> {
        self.own.as_ref()?.process.lock().await.as_ref()?.id()
    }

    /// Starts the process again, on the same port over the same store, and waits until it answers.
    /// Does nothing while it runs.
    ///
    /// # Errors
    ///
    /// A node that cannot be started, ends at once, or does not answer in time.
    pub async fn start(&self) -> Result<(), Stop> {
        let own = self.own()?;
        {
            let mut process = own.process.lock().await;
            if process.is_none() {
                *process = Some(own.spawn()?);
            }
        }
        self.ready(READY_WITHIN).await
    }

    /// Ends the process at once, as a power cut would (SIGKILL).
    ///
    /// # Errors
    ///
    /// A node that is not ours, or a kernel that refuses.
    pub async fn kill(&self) -> Result<(), Stop> {
        if let Some(mut child) = self.own()?.process.lock().await.take() {
            child
                .kill()
                .await
                .map_err(|error| Stop::fail(format!("cannot kill the node: {error}")))?;
        }
        Ok(())
    }

    /// Asks the process to end (SIGTERM) and waits for it.
    ///
    /// # Errors
    ///
    /// A node that is not ours, or that does not end in time: it is killed then.
    pub async fn terminate(&self) -> Result<Option<ExitStatus>, Stop> {
        let Some(mut child) = self.own()?.process.lock().await.take() else {
            return Ok(None);
        };
        if let Some(pid) = child.id().and_then(process_id) {
            rustix::process::kill_process(pid, rustix::process::Signal::TERM)
                .map_err(|error| Stop::fail(format!("cannot stop the node: {error}")))?;
        }
        match tokio::time::timeout(END_WITHIN, child.wait()).await {
            Ok(Ok(status)) => Ok(Some(status)),
            Ok(Err(error)) => Err(Stop::fail(format!("cannot wait for the node: {error}"))),
            Err(_) => {
                // It is being dropped: a second failure to kill it has nobody to be told.
                let _ = child.kill().await;
                Err(Stop::fail(format!(
                    "the node was still running {} s after SIGTERM",
                    END_WITHIN.as_secs()
                )))
            }
        }
    }

    /// Stops the process where it stands (SIGSTOP), sockets open, until [`Node::resume`].
    ///
    /// # Errors
    ///
    /// A node that is not ours or does not run.
    pub async fn pause(&self) -> Result<(), Stop> {
        self.signal(rustix::process::Signal::STOP).await
    }

    /// Lets a paused process go on (SIGCONT).
    ///
    /// # Errors
    ///
    /// A node that is not ours or does not run.
    pub async fn resume(&self) -> Result<(), Stop> {
        self.signal(rustix::process::Signal::CONT).await
    }

    /// Tells the process to read its certificate again (SIGHUP).
    ///
    /// # Errors
    ///
    /// A node that is not ours or does not run.
    pub async fn hang_up(&self) -> Result<(), Stop> {
        self.signal(rustix::process::Signal::HUP).await
    }

    async fn signal(&self, signal: rustix::process::Signal) -> Result<(), Stop> {
        let pid = self
            .pid()
            .await
            .and_then(process_id)
            .ok_or_else(|| Stop::fail("the node does not run"))?;
        rustix::process::kill_process(pid, signal)
            .map_err(|error| Stop::fail(format!("cannot signal the node: {error}")))
    }

    /// The memory of the process; `None` where it is not ours or the system has no `/proc`.
    pub async fn memory(&self) -> Option<Memory> {
        let status = std::fs::read_to_string(format!("/proc/{}/status", self.pid().await?)).ok()?;
        Memory::parse(&status)
    }

    /// The last `lines` lines of the node's log.
    pub fn log_tail(&self, lines: usize) -> Vec<String> {
        let text = self
            .log_path()
            .and_then(|path| std::fs::read_to_string(path).ok())
            .unwrap_or_default();
        last_lines(&text, lines)
            .into_iter()
            .map(String::from)
            .collect()
    }

    /// The node's log; `None` for a server that somebody else started.
    pub fn log_path(&self) -> Option<PathBuf> {
        self.own.as_ref().map(Own::log_path)
    }

    /// Waits until the node answers ApiVersions.
    async fn ready(&self, within: Duration) -> Result<(), Stop> {
        let began = Instant::now();
        loop {
            let why = match Connection::ask_api_versions(&self.access).await {
                Ok(()) => return Ok(()),
                Err(why) => why,
            };
            if let Some(own) = &self.own
                && let Some(child) = own.process.lock().await.as_mut()
                && let Ok(Some(status)) = child.try_wait()
            {
                return Err(Stop::fail(format!(
                    "the node ended with {status} before it was ready: {}",
                    self.log_tail(5).join(" | ")
                )));
            }
            if began.elapsed() > within {
                return Err(Stop::fail(format!(
                    "{} did not answer within {} s: {why}",
                    self.access,
                    within.as_secs()
                )));
            }
            sleep(LOOK_EVERY).await;
        }
    }

    fn own(&self) -> Result<&Own, Stop> {
        self.own
            .as_ref()
            .ok_or_else(|| Stop::skip("this server was started by somebody else"))
    }
}

impl Own {
    fn log_path(&self) -> PathBuf {
        self.folder.join("node.log")
    }

    fn spawn(&self) -> Result<Child, Stop> {
        let failed = |error: std::io::Error| Stop::fail(format!("cannot start a node: {error}"));
        let log = File::options()
            .create(true)
            .append(true)
            .open(self.log_path())
            .map_err(failed)?;
        let mut command = Command::new(&self.program);
        command
            .arg0(NODE_NAME)
            .stdin(Stdio::null())
            .stdout(log.try_clone().map_err(failed)?)
            .stderr(log)
            .kill_on_drop(true);
        // What the caller's shell says about some queen-kafka of his is not about this node.
        for (name, _) in std::env::vars_os() {
            if name.to_string_lossy().starts_with("QUEEN_") {
                command.env_remove(name);
            }
        }
        command.envs(self.settings.iter().map(|(name, value)| (name, value)));
        command.spawn().map_err(failed)
    }
}

impl Memory {
    /// Reads the text of `/proc/PID/status`.
    fn parse(status: &str) -> Option<Self> {
        let field = |name: &str| {
            status
                .lines()
                .find_map(|line| line.strip_prefix(name))?
                .trim_start_matches(':')
                .split_whitespace()
                .next()?
                .parse()
                .ok()
        };
        Some(Self {
            resident_kib: field("VmRSS")?,
            peak_kib: field("VmHWM")?,
        })
    }
}

fn process_id(pid: u32) -> Option<rustix::process::Pid> {
    rustix::process::Pid::from_raw(i32::try_from(pid).ok()?)
}

/// A port that was free a moment ago. A node must know its port before it binds, to advertise it and
/// to come back on it.
pub(crate) fn free_port() -> std::io::Result<u16> {
    Ok(std::net::TcpListener::bind(("127.0.0.1", 0))?
        .local_addr()?
        .port())
}

#[cfg(test)]
mod tests {
    use std::ffi::OsStr;

    use super::{Memory, called_as_node};

    #[test]
    fn a_node_is_known_by_its_name() {
        for (name, node) in [
            ("queen-kafka", true),
            ("/usr/bin/queen-kafka", true),
            ("target/release/compat-matrix", false),
            ("queen-kafka/compat-matrix", false),
        ] {
            assert_eq!(called_as_node(Some(OsStr::new(name))), node, "{name}");
        }
        assert!(!called_as_node(None));
    }

    #[test]
    fn memory_is_read_from_the_kernels_words() {
        let status = "Name:\tx\nVmPeak:\t  999 kB\nVmHWM:\t   5120 kB\nVmRSS:\t   4096 kB\n";
        assert_eq!(
            Memory::parse(status),
            Some(Memory {
                resident_kib: 4096,
                peak_kib: 5120
            })
        );
        assert_eq!(Memory::parse("Name:\tzombie\n"), None);
    }
}
