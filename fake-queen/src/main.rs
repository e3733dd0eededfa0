//! `fake-queen serve`: a small Queen on its own, durable in a directory.
//! `fake-queen conformance`: whether a Queen, this one or a real broker, keeps the contract.

use std::net::SocketAddr;
use std::path::PathBuf;
use std::process::ExitCode;

use clap::{Parser, Subcommand};
use fake_queen::auth::Key;
use fake_queen::conformance::{self, Target};
use fake_queen::{KvRates, Options, Queen, Storage};
use host::Secret;
use tokio::signal::unix::{SignalKind, signal};

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
}

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
        .init();
    let serve = match Arguments::parse().command {
        Command::Serve(serve) => serve,
        Command::Conformance(asked) => return check(asked).await,
    };
    match run(serve).await {
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
    let secret = serve.jwt_secret_file.map(std::fs::read).transpose()?;
    let options = Options {
        jwt: secret.map(|secret| Key::new(secret.trim_ascii_end())),
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
        ..Options::default()
    };
    let queen = Queen::start(host.clone(), options).await?;
    let listener = host.net.bind(serve.addr).await?;
    // For whoever started this with port 0.
    println!("listening on {}", listener.local_addr());
    queen.serve(listener);
    tokio::select! {
        _ = terminated.recv() => {}
        _ = interrupted.recv() => {}
    }
    tracing::info!("stopping");
    queen.stop().await;
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
