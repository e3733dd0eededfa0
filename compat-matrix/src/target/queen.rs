//! A Queen on a socket, in a process of its own: this program under the hidden command `serve-queen`.
//! The same code that a node embeds, and before it the proxy of a cell where one is asked for.

use std::fs::File;
use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::process::Stdio;
use std::time::Duration;

use fake_queen::auth::Key;
use fake_queen::ids::TenantId;
use fake_queen::proxy::{self, Cell, CellFile, Proxy};
use fake_queen::{Options, Queen, Storage};
use host::Host;
use tokio::io::{AsyncBufReadExt as _, BufReader};
use tokio::process::{Child, Command};
use uuid::Uuid;

use crate::spec::Stop;

/// The hidden command.
pub(crate) const COMMAND: &str = "serve-queen";
/// How long it may take to listen.
const READY_WITHIN: Duration = Duration::from_secs(30);

fn failed(error: impl std::fmt::Display) -> Stop {
    Stop::fail(format!("the Queen of a process of its own: {error}"))
}

/// How it is to be.
#[derive(Clone, Debug, Default, clap::Args)]
pub(crate) struct QueenOptions {
    /// Where it stores; in memory when absent.
    #[arg(long)]
    pub(crate) dir: Option<PathBuf>,
    /// Calls need a token that is signed with the secret in this file.
    #[arg(long)]
    pub(crate) jwt_secret_file: Option<PathBuf>,
    /// It is the Queen of the cell in this file, and the port is the cell's proxy.
    #[arg(long)]
    pub(crate) cell: Option<PathBuf>,
    /// Tenants of the cell that may write KV rows.
    #[arg(long, value_delimiter = ',')]
    pub(crate) kv_grant: Vec<Uuid>,
}

/// A running one; killed when dropped.
#[derive(Debug)]
pub(crate) struct QueenProcess {
    pub(crate) addr: SocketAddr,
    child: Child,
}

impl QueenProcess {
    /// Starts one.
    pub(crate) async fn start(asked: &QueenOptions, log: Option<&Path>) -> Result<Self, Stop> {
        let mut command = Command::new(std::env::current_exe().map_err(failed)?);
        command.arg(COMMAND);
        if let Some(dir) = &asked.dir {
            command.arg("--dir").arg(dir);
        }
        if let Some(file) = &asked.jwt_secret_file {
            command.arg("--jwt-secret-file").arg(file);
        }
        if let Some(file) = &asked.cell {
            command.arg("--cell").arg(file);
        }
        for tenant in &asked.kv_grant {
            command.arg("--kv-grant").arg(tenant.to_string());
        }
        if let Some(log) = log {
            command.stderr(File::create(log).map_err(failed)?);
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
    pub(crate) fn pid(&self) -> Option<u32> {
        self.child.id()
    }
}

/// Serves until the process is killed, on a free loopback port that it prints.
pub(crate) async fn serve(asked: QueenOptions) -> Result<(), Stop> {
    let host = host::os::host();
    let secret = asked.jwt_secret_file.map(std::fs::read).transpose();
    let options = Options {
        jwt: secret
            .map_err(failed)?
            .map(|secret| Key::new(secret.trim_ascii_end())),
        storage: asked.dir.map_or(Storage::Memory, Storage::Directory),
        tenancy_header: asked.cell.is_some(),
        kv_require_grant: asked.cell.is_some(),
        ..Options::default()
    };
    let queen = Queen::start(host.clone(), options).await.map_err(failed)?;
    for tenant in asked.kv_grant {
        queen.grant_kv(TenantId(tenant), true);
    }
    let proxy = match asked.cell {
        Some(file) => Some(proxy(&host, &file, &queen)?),
        None => None,
    };
    let any_port = SocketAddr::from(([127, 0, 0, 1], 0));
    let listener = host.net.bind(any_port).await.map_err(failed)?;
    println!("{}", listener.local_addr());
    match &proxy {
        Some(proxy) => proxy.serve(listener),
        None => queen.serve(listener),
    }
    std::future::pending().await
}

/// The proxy before `queen` of the cell in `file`.
fn proxy(host: &Host, file: &Path, queen: &Queen) -> Result<Proxy, Stop> {
    let cell = Cell::new(host.clone());
    let text = std::fs::read(file).map_err(failed)?;
    let described = CellFile::parse(&text).map_err(failed)?;
    described.apply(&cell).map_err(failed)?;
    let upstream = queen.clone().in_process().connector;
    let options = proxy::Options::default();
    Proxy::new(host.clone(), cell, upstream, options).map_err(failed)
}
