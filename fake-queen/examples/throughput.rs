//! Records per second through the HTTP surface over an in-memory pipe, as an embedded Queen is
//! used: several connections push batches, then several fetch them back.
//!
//! `cargo run --release -p fake-queen --example throughput -- [--dir DIR] [--writers N] …`

use std::error::Error;
use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use bytes::Bytes;
use clap::Parser;
use host::{Connect, Entropy};
use http::Request;
use http_body_util::{BodyExt, Full};
use hyper::client::conn::http1::SendRequest;
use hyper_util::rt::TokioIo;
use tokio::time::Instant;

#[derive(Clone, Parser)]
struct Arguments {
    /// Durable in this directory; in memory when absent.
    #[arg(long)]
    dir: Option<PathBuf>,
    /// Connections that push, then as many that fetch.
    #[arg(long, default_value_t = 8)]
    writers: usize,
    /// Records of a push.
    #[arg(long, default_value_t = 100)]
    batch: usize,
    /// Bytes of a record's value before base64.
    #[arg(long, default_value_t = 1024)]
    value_bytes: usize,
    /// Of these, how many are random; the rest repeats.
    #[arg(long, default_value_t = 512)]
    random_bytes: usize,
    /// Items carry transaction ids that count up, as an idempotent producer's do.
    #[arg(long)]
    ids: bool,
    /// Seconds of pushing.
    #[arg(long, default_value_t = 5)]
    seconds: u64,
}

const ALPHABET: &[u8; 64] = b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";

type Result<T> = std::result::Result<T, Box<dyn Error + Send + Sync>>;

struct Connection(SendRequest<Full<Bytes>>);

impl Connection {
    async fn new(connector: &dyn Connect) -> Result<Self> {
        let stream = connector.connect().await?;
        let (sender, connection) =
            hyper::client::conn::http1::handshake(TokioIo::new(stream)).await?;
        tokio::spawn(connection);
        Ok(Self(sender))
    }

    async fn post(&mut self, path: &str, body: Bytes) -> Result<Bytes> {
        let request = Request::post(path)
            .header("host", "queen")
            .body(Full::new(body))?;
        self.0.ready().await?;
        let response = self.0.send_request(request).await?;
        if !response.status().is_success() {
            return Err(response.status().to_string().into());
        }
        Ok(response.into_body().collect().await?.to_bytes())
    }
}

fn value(arguments: &Arguments) -> String {
    let mut random = vec![0; arguments.random_bytes];
    host::os::OsEntropy.fill(&mut random);
    let encoded = arguments.value_bytes.div_ceil(3) * 4;
    let random_text = random
        .iter()
        .map(|byte| ALPHABET[usize::from(byte & 63)] as char);
    random_text
        .chain("VGhlIHJlc3QgcmVwZWF0cyBpdHNlbGYg".chars().cycle())
        .take(encoded)
        .collect()
}

/// An id as the Kafka facade names an idempotent producer's record: base64 that counts up.
fn id(lane: usize, n: u64) -> String {
    let digits = (0..7)
        .rev()
        .map(|at| ALPHABET[(n >> (6 * at)) as usize & 63] as char);
    format!("AAAAAAAAAAAAAA{lane:03}")
        .chars()
        .chain(digits)
        .collect()
}

fn body(arguments: &Arguments, values: &[String], lane: usize, first: u64) -> Bytes {
    let mut items = String::with_capacity(arguments.batch * arguments.value_bytes * 3 / 2);
    for (n, value) in (first..).zip(values) {
        let separator = if n == first { "" } else { "," };
        let id = if arguments.ids {
            format!(r#","transactionId":"{}""#, id(lane, n))
        } else {
            String::new()
        };
        items.push_str(&format!(
            r#"{separator}{{"queue":"bench","partition":"{lane}","payload":{{"k":null,"t":1700000000000,"v":"{value}"}}{id}}}"#
        ));
    }
    Bytes::from(format!(r#"{{"items":[{items}]}}"#))
}

async fn push(
    connector: Arc<dyn Connect>,
    arguments: Arguments,
    lane: usize,
    pushed: Arc<AtomicU64>,
) -> Result<()> {
    let mut connection = Connection::new(&*connector).await?;
    let values: Vec<String> = (0..arguments.batch).map(|_| value(&arguments)).collect();
    let mut body_again = body(&arguments, &values, lane, 0);
    let until = Instant::now() + Duration::from_secs(arguments.seconds);
    let mut next = 0;
    while Instant::now() < until {
        if arguments.ids {
            body_again = body(&arguments, &values, lane, next);
        }
        connection.post("/api/v1/push", body_again.clone()).await?;
        next += arguments.batch as u64;
        pushed.fetch_add(arguments.batch as u64, Ordering::Relaxed);
    }
    Ok(())
}

async fn fetch(connector: Arc<dyn Connect>, lane: usize, fetched: Arc<AtomicU64>) -> Result<u64> {
    let mut connection = Connection::new(&*connector).await?;
    let (mut offset, mut bytes) = (0, 0);
    loop {
        let body = format!(
            r#"{{"entries":[{{"queue":"bench","partition":"{lane}","offset":{offset},"maxBytes":1048576}}]}}"#
        );
        let answer = connection.post("/api/v1/fetch", body.into()).await?;
        bytes += answer.len() as u64;
        // Offsets aren't parsed: each record names its `ts` once.
        let records = memchr_count(&answer, b"\"ts\":\"");
        if records == 0 {
            return Ok(bytes);
        }
        offset += records;
        fetched.fetch_add(records, Ordering::Relaxed);
    }
}

fn memchr_count(haystack: &[u8], needle: &[u8]) -> u64 {
    haystack
        .windows(needle.len())
        .filter(|window| *window == needle)
        .count() as u64
}

fn resident_mib() -> u64 {
    let status = std::fs::read_to_string("/proc/self/status").unwrap_or_default();
    let line = status.lines().find(|line| line.starts_with("VmRSS"));
    line.and_then(|line| line.split_whitespace().nth(1)?.parse::<u64>().ok())
        .unwrap_or(0)
        / 1024
}

#[tokio::main]
async fn main() -> Result<()> {
    let arguments = Arguments::parse();
    let service = fake_queen::embed(host::os::host(), arguments.dir.clone()).await?;
    println!("idle: {} MiB resident", resident_mib());
    let pushed = Arc::new(AtomicU64::new(0));
    let started = Instant::now();
    let tasks: Vec<_> = (0..arguments.writers)
        .map(|lane| {
            let connector = Arc::clone(&service.connector);
            tokio::spawn(push(
                connector,
                arguments.clone(),
                lane,
                Arc::clone(&pushed),
            ))
        })
        .collect();
    for task in tasks {
        task.await??;
    }
    let (records, seconds) = (
        pushed.load(Ordering::Relaxed),
        started.elapsed().as_secs_f64(),
    );
    println!(
        "push: {:.0} records/s ({records} in {seconds:.1} s), {} MiB resident",
        records as f64 / seconds,
        resident_mib()
    );
    let fetched = Arc::new(AtomicU64::new(0));
    let started = Instant::now();
    let tasks: Vec<_> = (0..arguments.writers)
        .map(|lane| {
            tokio::spawn(fetch(
                Arc::clone(&service.connector),
                lane,
                Arc::clone(&fetched),
            ))
        })
        .collect();
    let mut bytes = 0;
    for task in tasks {
        bytes += task.await??;
    }
    let (records, seconds) = (
        fetched.load(Ordering::Relaxed),
        started.elapsed().as_secs_f64(),
    );
    println!(
        "fetch: {:.0} records/s, {:.0} MB/s of JSON ({records} in {seconds:.1} s), {} MiB resident",
        records as f64 / seconds,
        bytes as f64 / seconds / 1e6,
        resident_mib()
    );
    (service.stop)().await;
    Ok(())
}
