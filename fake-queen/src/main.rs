//! `fake-queen serve`: a small Queen on its own, durable in a directory; with
//! `QUEEN_KAFKA_EMBEDDED=true` it keeps a facade beside it.
//! `fake-queen proxy`: the proxy of a cell before a Queen.
//! `fake-queen conformance`: whether a Queen, this one or a real broker, keeps the contract.

use std::ffi::OsString;
use std::io::IsTerminal;
use std::net::SocketAddr;
use std::path::PathBuf;
use std::process::ExitCode;
use std::sync::Arc;
use std::time::Duration;

use clap::{Parser, Subcommand};
use fake_queen::auth::Key;
use fake_queen::conformance::{self, Target};
use fake_queen::ids::TenantId;
use fake_queen::proxy::{self, Cell, CellFile, Proxy};
use fake_queen::{KafkaStatus, KvRates, Options, Queen, Storage};
use host::{Secret, files};
use tokio::signal::unix::{SignalKind, signal};
use uuid::Uuid;

#[derive(Parser)]
#[command(version, about)]
struct Arguments {
    #[command(subcommand)]
    command: Command,
}

#[derive(Subcommand)]
enum Command {
    /// Serve until SIGTERM or SIGINT.
    Serve(Serve),
    /// Check whether the Queen at an address keeps the contract. Exits with 1 when a check fails,
    /// with 2 when the address is none.
    Conformance(Conformance),
    /// Serve a cell's proxy before a Queen until SIGTERM or SIGINT; SIGHUP reads the cell again.
    Proxy(ProxyArguments),
    /// What a supervised facade is started through.
    #[command(hide = true, name = EMBEDDED_CHILD)]
    EmbeddedChild { parent: u32, bin: OsString },
}

/// The hidden command's name.
const EMBEDDED_CHILD: &str = "embedded-child";

#[derive(clap::Args)]
struct Conformance {
    /// Its base address: `http://host[:port][/prefix]`.
    #[arg(long)]
    url: String,
    /// Bearer token of the admin level; the checks delete the queues they made.
    #[arg(long, env = "QUEEN_TOKEN", hide_env_values = true)]
    token: Option<String>,
}

#[derive(clap::Args)]
struct ProxyArguments {
    /// The cell: clusters, plans and API keys, as JSON.
    #[arg(long)]
    cell: PathBuf,
    /// The Queen behind it: `http://host[:port][/prefix]`. It is to read the tenant of each call.
    #[arg(long, env = "QUEEN_URL")]
    queen: String,
    /// The cell's own token there.
    #[arg(long, env = "QUEEN_TOKEN", hide_env_values = true)]
    token: Option<String>,
    /// Where to listen.
    #[arg(long, default_value = "127.0.0.1:6711")]
    addr: SocketAddr,
    /// Hosts whose cluster the key tells, beside those of the cell.
    #[arg(long, env = "QUEEN_PROXY_SHARED_HOSTS", value_delimiter = ',')]
    shared_hosts: Vec<String>,
    /// Refuse what is over a rate or a quota; without it that is only logged.
    #[arg(long, env = "QUEEN_PROXY_ENFORCE", default_value_t = false, num_args = 0..=1,
        require_equals = true, default_missing_value = "true", action = clap::ArgAction::Set)]
    enforce: bool,
    /// Largest request body.
    #[arg(long, env = "QUEEN_PROXY_MAX_BODY_BYTES", default_value_t = proxy::Options::default().max_body_bytes)]
    max_body_bytes: usize,
    /// How long the Queen may take to answer.
    #[arg(
        long,
        env = "QUEEN_PROXY_UPSTREAM_TIMEOUT_MS",
        default_value_t = 35_000
    )]
    upstream_timeout_ms: u64,
}

#[derive(clap::Args)]
struct Serve {
    /// Where to keep data; in memory when absent.
    #[arg(long)]
    dir: Option<PathBuf>,
    /// Where to listen.
    #[arg(long, default_value = "127.0.0.1:6632")]
    addr: SocketAddr,
    /// Serve `POST /fake/faults`.
    #[arg(long)]
    faults: bool,
    /// Serve `POST /api/v1/fetch/offsets`, as the 2.x line does.
    #[arg(long)]
    fetch_offsets: bool,
    /// Calls need a JSON web token signed (HS256, HS384 or HS512) with the secret in this file.
    #[arg(long)]
    jwt_secret_file: Option<PathBuf>,
    /// Read the tenant of each call from `x-queen-tenant`, as behind a proxy.
    #[arg(long, env = "QUEEN_TENANCY_HEADER", default_value_t = false, num_args = 0..=1,
        require_equals = true, default_missing_value = "true", action = clap::ArgAction::Set)]
    tenancy_header: bool,
    /// Tenants that may write KV rows. A Queen that reads the tenant refuses them to all others.
    #[arg(long, value_delimiter = ',')]
    kv_grant: Vec<Uuid>,
    /// KV read calls per second.
    #[arg(long, env = "QUEEN_KV_READ_RATE", default_value_t = KvRates::default().reads_per_second)]
    kv_read_rate: u32,
    /// KV read calls that may come at once.
    #[arg(long, env = "QUEEN_KV_READ_BURST", default_value_t = KvRates::default().read_burst)]
    kv_read_burst: u32,
    /// KV write calls per second.
    #[arg(long, env = "QUEEN_KV_WRITE_RATE", default_value_t = KvRates::default().writes_per_second)]
    kv_write_rate: u32,
    /// KV write calls that may come at once.
    #[arg(long, env = "QUEEN_KV_WRITE_BURST", default_value_t = KvRates::default().write_burst)]
    kv_write_burst: u32,
}

#[tokio::main]
async fn main() -> ExitCode {
    tracing_subscriber::fmt()
        .with_env_filter(
            tracing_subscriber::EnvFilter::try_from_default_env()
                .unwrap_or_else(|_| tracing_subscriber::EnvFilter::new("info")),
        )
        .with_writer(std::io::stderr)
        .with_ansi(std::io::stderr().is_terminal())
        .init();
    let serve = match Arguments::parse().command {
        Command::Serve(serve) => serve,
        Command::Conformance(asked) => return check(asked).await,
        Command::EmbeddedChild { parent, bin } => {
            let error = supervisor::launch::run(parent, &bin);
            eprintln!("{}: {error}", bin.display());
            return ExitCode::from(127);
        }
        Command::Proxy(asked) => return ended(serve_proxy(asked).await),
    };
    ended(run(serve).await)
}

fn ended(result: Result<(), Box<dyn std::error::Error>>) -> ExitCode {
    match result {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            tracing::error!(error = %error, "fake-queen can't run");
            ExitCode::FAILURE
        }
    }
}

async fn run(serve: Serve) -> Result<(), Box<dyn std::error::Error>> {
    let host = host::os::host();
    let mut terminated = signal(SignalKind::terminate())?;
    let mut interrupted = signal(SignalKind::interrupt())?;
    let executable = std::env::current_exe()?;
    let settings = supervisor::Settings::read(|name| std::env::var_os(name), &executable)?;
    let kafka = supervisor::Status::default();
    let secret = serve.jwt_secret_file.map(read_secret).transpose()?;
    let options = Options {
        jwt: secret.map(|secret| Key::new(secret.expose())),
        storage: serve.dir.map_or(Storage::Memory, Storage::Directory),
        kv_rates: Some(KvRates {
            reads_per_second: serve.kv_read_rate,
            read_burst: serve.kv_read_burst,
            writes_per_second: serve.kv_write_rate,
            write_burst: serve.kv_write_burst,
            ..KvRates::default()
        }),
        faults_route: serve.faults,
        fetch_offsets: serve.fetch_offsets,
        kafka_status: settings.is_some().then(|| shown(kafka.clone())),
        tenancy_header: serve.tenancy_header,
        kv_require_grant: serve.tenancy_header,
        ..Options::default()
    };
    let asks_for_tokens = options.jwt.is_some();
    let queen = Queen::start(host.clone(), options).await?;
    for tenant in serve.kv_grant {
        queen.grant_kv(TenantId(tenant), true);
    }
    let listener = host.net.bind(serve.addr).await?;
    // For whoever started this with port 0.
    let bound = listener.local_addr();
    println!("listening on {bound}");
    queen.serve(listener);
    let stop = async {
        tokio::select! {
            _ = terminated.recv() => {}
            _ = interrupted.recv() => {}
        }
        tracing::info!("stopping");
    };
    match settings {
        None => stop.await,
        // Here, on the process's first thread. The facade ends first: what it is still pushing
        // finds its Queen.
        Some(settings) => {
            if let Some(warning) = settings.warning(asks_for_tokens) {
                tracing::warn!("{warning}");
            }
            let launcher = vec![executable.into_os_string(), EMBEDDED_CHILD.into()];
            let supervisor = supervisor::Supervisor::new(settings, launcher, kafka);
            supervisor.run(bound, stop).await;
        }
    }
    queen.stop().await;
    Ok(())
}

/// The block of `GET /status`.
fn shown(status: supervisor::Status) -> KafkaStatus {
    let ms = |time: Duration| u64::try_from(time.as_millis()).unwrap_or(u64::MAX);
    KafkaStatus(Arc::new(move || {
        let report = status.report();
        serde_json::json!({
            "mode": "embedded",
            "phase": report.phase.name(),
            "pid": report.pid,
            "restarts": report.restarts,
            "lastExit": report.last_exit,
            "uptimeMs": report.uptime.map(ms),
            "backoffMs": report.backoff.map(ms),
        })
    }))
}

async fn serve_proxy(asked: ProxyArguments) -> Result<(), Box<dyn std::error::Error>> {
    let host = host::os::host();
    let mut terminated = signal(SignalKind::terminate())?;
    let mut interrupted = signal(SignalKind::interrupt())?;
    let mut hung_up = signal(SignalKind::hangup())?;
    let target =
        Target::of_url(&host, &asked.queen).map_err(|error| format!("--queen: {error}"))?;
    let cell = Cell::new(host.clone());
    for shared in asked.shared_hosts.iter().filter(|name| !name.is_empty()) {
        cell.share_host(shared);
    }
    read_cell(&asked.cell, &cell)?;
    let options = proxy::Options {
        enforce: asked.enforce,
        max_body_bytes: asked.max_body_bytes,
        upstream_timeout: Duration::from_millis(asked.upstream_timeout_ms),
        upstream_authority: target.authority.parse()?,
        upstream_base_path: target.prefix,
        upstream_token: asked.token.map(Secret::new),
        ..proxy::Options::default()
    };
    let proxy = Proxy::new(host.clone(), cell.clone(), target.connect, options)?;
    let listener = host.net.bind(asked.addr).await?;
    // For whoever started this with port 0.
    println!("listening on {}", listener.local_addr());
    proxy.serve(listener);
    loop {
        tokio::select! {
            _ = terminated.recv() => break,
            _ = interrupted.recv() => break,
            _ = hung_up.recv() => match read_cell(&asked.cell, &cell) {
                Ok(()) => tracing::info!("the cell was read again"),
                Err(error) => tracing::error!(%error, "the cell stays as it was"),
            }
        }
    }
    tracing::info!("stopping");
    proxy.stop().await;
    Ok(())
}

/// The longest secret, and the largest cell: some ten thousand keys.
const MAX_SECRET_BYTES: u64 = 64 << 10;
const MAX_CELL_BYTES: u64 = 16 << 20;

/// A secret without the white space at the end of its file. One of nothing would let in whoever
/// signs with nothing.
fn read_secret(path: PathBuf) -> Result<Secret<Vec<u8>>, Box<dyn std::error::Error>> {
    let named = |error: &dyn std::fmt::Display| format!("{}: {error}", path.display());
    let secret = files::read(&path, MAX_SECRET_BYTES).map_err(|error| named(&error))?;
    let secret = secret.trim_ascii_end();
    if secret.is_empty() {
        return Err(named(&"holds no secret").into());
    }
    Ok(Secret::new(secret.to_vec()))
}

fn read_cell(path: &std::path::Path, cell: &Cell) -> Result<(), Box<dyn std::error::Error>> {
    let named = |error: &dyn std::fmt::Display| format!("{}: {error}", path.display());
    let text = files::read(path, MAX_CELL_BYTES).map_err(|error| named(&error))?;
    let file = CellFile::parse(&text).map_err(|error| named(&error))?;
    file.apply(cell)?;
    Ok(())
}

async fn check(asked: Conformance) -> ExitCode {
    let host = host::os::host();
    let mut target = match Target::of_url(&host, &asked.url) {
        Ok(target) => target,
        Err(error) => {
            eprintln!("--url: {error}");
            return ExitCode::from(2);
        }
    };
    target.bearer = asked.token.map(Secret::new);
    let outcomes = conformance::run(&target, &host, |outcome| {
        let (group, title, ms) = (outcome.group, outcome.title, outcome.took.as_millis());
        match &outcome.result {
            Ok(()) => println!("pass  {group:>2}  {title} ({ms} ms)"),
            Err(failure) => println!("FAIL  {group:>2}  {title} ({ms} ms)\n          {failure}"),
        }
    })
    .await;
    let failed = outcomes.iter().filter(|outcome| outcome.result.is_err());
    let failed = failed.count();
    println!("{} passed, {failed} failed", outcomes.len() - failed);
    ExitCode::from(u8::from(failed > 0))
}
