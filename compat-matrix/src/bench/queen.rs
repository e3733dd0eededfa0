//! A Queen on a socket, in a process of its own, for the raw side: this program under the hidden
//! command `serve-queen`. The same code that a node embeds.

use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::process::Stdio;
use std::time::Duration;

use fake_queen::{Options, Queen, Storage};
use tokio::io::{AsyncBufReadExt as _, BufReader};
use tokio::process::{Child, Command};

use crate::spec::Stop;

/// The hidden command.
pub(crate) const COMMAND: &str = "serve-queen";
/// How long it may take to listen.
const READY_WITHIN: Duration = Duration::from_secs(30);

fn failed(error: impl std::fmt::Display) -> Stop {
    Stop::fail(format!("the Queen of the raw side: {error}"))
}

/// A running one; killed when dropped.
#[derive(Debug)]
pub(super) struct QueenProcess {
    pub(super) addr: SocketAddr,
    child: Child,
}

impl QueenProcess {
    /// Starts one: in memory, or durable in `dir`.
    pub(super) async fn start(dir: Option<&Path>) -> Result<Self, Stop> {
        let mut command = Command::new(std::env::current_exe().map_err(failed)?);
        command.arg(COMMAND);
        if let Some(dir) = dir {
            command.arg("--dir").arg(dir);
        }
        let mut child = command
            .stdin(Stdio::null())
            .stdout(Stdio::piped())
            .kill_on_drop(true)
            .spawn()
            .map_err(failed)?;
        let stdout = child.stdout.take().ok_or_else(|| failed("no output"))?;
        let mut lines = BufReader::new(stdout).lines();
        let line = tokio::time::timeout(READY_WITHIN, lines.next_line())
            .await
            .map_err(failed)?
            .map_err(failed)?
            .ok_or_else(|| failed("it ended at once"))?;
        Ok(Self {
            addr: line.parse().map_err(failed)?,
            child,
        })
    }

    /// Its process id, while it runs.
    pub(super) fn pid(&self) -> Option<u32> {
        self.child.id()
    }
}

/// Serves until the process is killed, on a free loopback port that it prints.
pub(crate) async fn serve(dir: Option<PathBuf>) -> Result<(), Stop> {
    let host = host::os::host();
    let options = Options {
        storage: dir.map_or(Storage::Memory, Storage::Directory),
        ..Options::default()
    };
    let queen = Queen::start(host.clone(), options).await.map_err(failed)?;
    let any_port = SocketAddr::from(([127, 0, 0, 1], 0));
    let listener = host.net.bind(any_port).await.map_err(failed)?;
    println!("{}", listener.local_addr());
    queen.serve(listener);
    std::future::pending().await
}
