//! `fake-queen serve`: a small Queen on its own, durable in a directory.

use std::net::SocketAddr;
use std::path::PathBuf;
use std::process::ExitCode;

use clap::{Parser, Subcommand};
use fake_queen::{KvRates, Options, Queen, Storage};
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
    let Command::Serve(serve) = Arguments::parse().command;
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
    let options = Options {
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
