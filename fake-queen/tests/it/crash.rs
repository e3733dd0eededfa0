//! The binary, killed with SIGKILL under load, over and over: what it acknowledged is there after
//! the next start, and nothing is there half.

use std::collections::BTreeSet;
use std::net::SocketAddr;
use std::process::{Child, Command, Stdio};
use std::sync::Arc;
use std::time::Duration;

use futures::FutureExt;
use futures::future::BoxFuture;
use host::net::{BoxStream, Connect, Net};
use host::os::OsNet;
use serde_json::{Value, json};
use std::io::{BufRead, BufReader};

use crate::client::{Client, Connection};

const ROUNDS: u64 = 10;
const WRITERS: u64 = 4;

#[derive(Debug)]
struct Tcp(SocketAddr);

impl Connect for Tcp {
    fn connect(&self) -> BoxFuture<'_, std::io::Result<BoxStream>> {
        async move { OsNet.connect(&self.0.ip().to_string(), self.0.port()).await }.boxed()
    }
}

struct Server {
    child: Child,
    client: Client,
}

impl Server {
    fn start(directory: &std::path::Path) -> Self {
        let mut child = Command::new(env!("CARGO_BIN_EXE_fake-queen"))
            .args([
                "serve",
                "--addr",
                "127.0.0.1:0",
                "--kv-write-rate",
                "1000000",
            ])
            .args(["--kv-write-burst", "1000000", "--dir"])
            .arg(directory)
            .stdout(Stdio::piped())
            .stderr(Stdio::inherit())
            .spawn()
            .unwrap();
        let mut line = String::new();
        BufReader::new(child.stdout.take().unwrap())
            .read_line(&mut line)
            .unwrap();
        let addr = line
            .trim()
            .strip_prefix("listening on ")
            .unwrap_or_else(|| panic!("{line:?}"))
            .parse()
            .unwrap();
        Self {
            child,
            client: Client(Arc::new(Tcp(addr))),
        }
    }

    fn kill(mut self) {
        // SIGKILL on unix.
        self.child.kill().unwrap();
        self.child.wait().unwrap();
    }
}

/// What one writer was told, and what it asked for last.
#[derive(Clone, Debug, Default)]
struct Told {
    /// Numbers whose push was acknowledged.
    pushed: BTreeSet<u64>,
    /// Numbers whose bundle was acknowledged.
    bundled: BTreeSet<u64>,
    /// Highest number asked for.
    asked: u64,
}

async fn post(connection: &mut Connection, route: &str, body: Value) -> Option<Value> {
    let answer = connection
        .call("POST", &format!("/api/v1/{route}"), &[], body.to_string())
        .await?;
    assert!(answer.status < 300, "{}", answer.text);
    Some(answer.json())
}

/// Pushes, then commits a bundle, with rising numbers, until the connection breaks.
async fn write(client: Client, writer: u64, mut told: Told) -> Told {
    let Some(mut connection) = client.connect().await else {
        return told;
    };
    let filler = "x".repeat(usize::try_from(writer * 700).unwrap());
    loop {
        let n = told.asked + 1;
        told.asked = n;
        let item = |queue: &str, lane: u64| {
            json!({"queue": queue, "partition": lane.to_string(),
            "payload": {"w": writer, "n": n, "filler": filler}})
        };
        let body = json!({"items": [item("pushed", writer), item("shared", 0)]});
        let Some(results) = post(&mut connection, "push", body).await else {
            return told;
        };
        assert_eq!(results[0]["status"], "queued");
        told.pushed.insert(n);
        let body = json!({
            "operations": [{"type": "push", "items": [item("a", writer), item("b", writer)]}],
            "kv": [{"op": "put", "ns": "n", "key": format!("w{writer}"), "value": n, "forever": true}],
        });
        let Some(done) = post(&mut connection, "transaction", body).await else {
            return told;
        };
        assert_eq!(done["success"], true);
        told.bundled.insert(n);
    }
}

/// Every payload of a lane in order, checking that offsets have no gap.
async fn log(client: &Client, queue: &str, lane: u64) -> Vec<Value> {
    let mut payloads: Vec<Value> = Vec::new();
    loop {
        let entry = client
            .fetch(queue, &lane.to_string(), payloads.len() as i64)
            .await;
        let records = entry["records"].as_array().unwrap();
        if records.is_empty() {
            assert_eq!(entry["highWatermark"], payloads.len());
            return payloads;
        }
        for record in records {
            assert_eq!(record["offset"], payloads.len());
            payloads.push(record["payload"].clone());
        }
    }
}

fn numbers(payloads: &[Value]) -> Vec<u64> {
    payloads.iter().map(|p| p["n"].as_u64().unwrap()).collect()
}

async fn verify(client: &Client, told: &[Told]) {
    let shared = log(client, "shared", 0).await;
    for (writer, told) in (0..).zip(told) {
        let pushed = numbers(&log(client, "pushed", writer).await);
        assert_rising_and_complete(&pushed, &told.pushed, told.asked);
        let in_shared: Vec<Value> = shared
            .iter()
            .filter(|p| p["w"] == writer)
            .cloned()
            .collect();
        assert_rising_and_complete(&numbers(&in_shared), &told.pushed, told.asked);

        let (a, b) = (
            log(client, "a", writer).await,
            log(client, "b", writer).await,
        );
        assert_eq!(
            numbers(&a),
            numbers(&b),
            "a bundle is in both lanes or in none"
        );
        assert_rising_and_complete(&numbers(&a), &told.bundled, told.asked);
        let get = json!([{"op": "get", "ns": "n", "key": format!("w{writer}")}]);
        let row = client.post("kv", 200, get).await["results"][0].clone();
        assert_eq!(
            row.get("value").and_then(Value::as_u64),
            numbers(&a).last().copied()
        );
    }
}

/// Each number at most once, in order, all that was acknowledged, nothing that wasn't asked for.
/// A number that got no answer may be missing: the next round goes on behind it.
fn assert_rising_and_complete(numbers: &[u64], acknowledged: &BTreeSet<u64>, asked: u64) {
    assert!(numbers.is_sorted_by(|a, b| a < b), "{numbers:?}");
    let there: BTreeSet<u64> = numbers.iter().copied().collect();
    let lost: Vec<_> = acknowledged.difference(&there).collect();
    assert!(lost.is_empty(), "acknowledged and lost: {lost:?}");
    assert!(numbers.last().copied().unwrap_or(0) <= asked);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn what_was_acknowledged_survives_sigkill() {
    let directory = tempfile::tempdir().unwrap();
    let mut told = vec![Told::default(); usize::try_from(WRITERS).unwrap()];
    let mut total_before = 0;
    for round in 0..ROUNDS {
        let server = Server::start(directory.path());
        verify(&server.client, &told).await;
        let writers: Vec<_> = (0..)
            .zip(&told)
            .map(|(writer, told)| tokio::spawn(write(server.client.clone(), writer, told.clone())))
            .collect();
        let mut random = [0; 8];
        host::Entropy::fill(&host::os::OsEntropy, &mut random);
        let wait = Duration::from_millis(30 + u64::from_le_bytes(random) % 150);
        tokio::time::sleep(wait).await;
        server.kill();
        for (told, writer) in told.iter_mut().zip(writers) {
            *told = writer.await.unwrap();
        }
        let total: usize = told.iter().map(|told| told.pushed.len()).sum();
        assert!(
            total > total_before,
            "round {round} wrote nothing in {wait:?}"
        );
        total_before = total;
    }
    let server = Server::start(directory.path());
    verify(&server.client, &told).await;
    server.kill();
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn sigterm_answers_what_is_in_flight_and_ends() {
    let directory = tempfile::tempdir().unwrap();
    let mut server = Server::start(directory.path());
    server.client.push("q", "0", json!(1)).await;
    let parked = tokio::spawn({
        let client = server.client.clone();
        async move {
            let body = json!({"entries": [{"queue": "q", "partition": "0", "offset": 1}], "maxWaitMs": 30_000});
            client.post("fetch", 200, body).await
        }
    });
    tokio::time::sleep(Duration::from_millis(100)).await;
    let pid = server.child.id().to_string();
    assert!(
        Command::new("kill")
            .args(["-TERM", &pid])
            .status()
            .unwrap()
            .success()
    );
    assert_eq!(parked.await.unwrap()["entries"][0]["highWatermark"], 1);
    assert!(server.child.wait().unwrap().success());
    let server = Server::start(directory.path());
    assert_eq!(server.client.fetch("q", "0", 0).await["highWatermark"], 1);
    server.kill();
}
