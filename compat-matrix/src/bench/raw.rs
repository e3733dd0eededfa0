//! The other side of P6: an HTTP client that pushes and fetches the same JSON at the same kind of
//! Queen, with nothing of Kafka in between.
//!
//! It reads its answers as any client must: the verdict of each item, the offset of each record.

use std::net::SocketAddr;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use bytes::Bytes;
use http::{Request, header};
use http_body_util::{BodyExt as _, Full};
use hyper::client::conn::http1::{self, SendRequest};
use hyper_util::rt::TokioIo;
use serde::Deserialize;
use tokio::net::TcpStream;
use tokio::time::{Instant, sleep_until};

use super::kafka::{PARTITION_MAX_BYTES, Pace};
use super::load;
use crate::spec::Stop;

/// Connections of a client that sends at intended times.
const OPEN_LOOP_CONNECTIONS: usize = 16;

fn failed(error: impl std::fmt::Display) -> Stop {
    Stop::fail(format!("the raw side: {error}"))
}

struct Client(SendRequest<Full<Bytes>>);

impl Client {
    async fn connect(queen: SocketAddr) -> Result<Self, Stop> {
        let stream = TcpStream::connect(queen).await.map_err(failed)?;
        stream.set_nodelay(true).map_err(failed)?;
        let (sender, connection) = http1::handshake(TokioIo::new(stream))
            .await
            .map_err(failed)?;
        tokio::spawn(connection);
        Ok(Self(sender))
    }

    async fn post(&mut self, path: &'static str, body: Bytes) -> Result<Bytes, Stop> {
        let request = Request::post(path)
            .header(header::HOST, "queen")
            .header(header::CONTENT_TYPE, "application/json")
            .body(Full::new(body))
            .map_err(failed)?;
        self.0.ready().await.map_err(failed)?;
        let response = self.0.send_request(request).await.map_err(failed)?;
        let status = response.status();
        let body = response.into_body().collect().await.map_err(failed)?;
        if !status.is_success() {
            return Err(failed(format!("{path} was answered with {status}")));
        }
        Ok(body.to_bytes())
    }
}

/// Makes the queue of the load as the facade makes topics: Queen compares the names of records.
pub(super) async fn create_queue(queen: SocketAddr) -> Result<(), Stop> {
    let body = serde_json::json!({
        "queue": load::TOPIC,
        "dedupWindowSeconds": facade::topics::DEDUP_WINDOW_SECONDS,
    });
    let mut client = Client::connect(queen).await?;
    client
        .post("/api/v1/configure", body.to_string().into())
        .await
        .map(drop)
}

#[derive(Deserialize)]
struct ItemVerdict<'a> {
    #[serde(borrow)]
    status: &'a str,
}

async fn push(client: &mut Client, body: Bytes) -> Result<(), Stop> {
    let answer = client.post("/api/v1/push", body).await?;
    let verdicts: Vec<ItemVerdict<'_>> = serde_json::from_slice(&answer).map_err(failed)?;
    let stored = verdicts.len() == load::RECORDS_PER_REQUEST
        && verdicts.iter().all(|verdict| verdict.status == "queued");
    if stored {
        Ok(())
    } else {
        Err(failed("an item was not queued"))
    }
}

/// Sends `requests` of `pushes` in turn over as many connections as requests may be in flight; the
/// time each took from its intended start.
pub(super) async fn produce(
    queen: SocketAddr,
    pushes: &[load::Push],
    requests: usize,
    pace: Pace,
) -> Result<Vec<Duration>, Stop> {
    let connections = match pace {
        Pace::InFlight(places) => places,
        Pace::Every(_) => OPEN_LOOP_CONNECTIONS,
    };
    let next = AtomicUsize::new(0);
    let began = Instant::now();
    let workers = (0..connections).map(|_| async {
        let mut client = Client::connect(queen).await?;
        let mut took = Vec::new();
        loop {
            let number = next.fetch_add(1, Ordering::Relaxed);
            if number >= requests {
                return Ok::<_, Stop>(took);
            }
            let at = match pace {
                Pace::InFlight(_) => Instant::now(),
                Pace::Every(interval) => {
                    let at = began + interval * u32::try_from(number).unwrap_or(u32::MAX);
                    sleep_until(at).await;
                    at
                }
            };
            let body = pushes[number % pushes.len()].numbered(number);
            push(&mut client, body).await?;
            took.push(at.elapsed());
        }
    });
    let took = futures::future::try_join_all(workers).await?;
    Ok(took.concat())
}

#[derive(Deserialize)]
struct Answer {
    entries: Vec<Entry>,
}

#[derive(Deserialize)]
struct Entry {
    records: Vec<Record>,
    #[serde(default)]
    error: Option<String>,
}

#[derive(Deserialize)]
struct Record {
    offset: i64,
}

/// Fetches `lanes` from their beginnings until `records` have come; how many bytes of answers.
pub(super) async fn fetch(
    queen: SocketAddr,
    lanes: &[usize],
    records: usize,
) -> Result<usize, Stop> {
    let mut client = Client::connect(queen).await?;
    let mut next: Vec<i64> = vec![0; lanes.len()];
    let (mut seen, mut bytes) = (0, 0);
    while seen < records {
        let entries = lanes.iter().zip(&next).map(|(lane, offset)| {
            serde_json::json!({
                "queue": load::TOPIC,
                "partition": lane.to_string(),
                "offset": offset,
                "maxBytes": PARTITION_MAX_BYTES,
            })
        });
        let request = serde_json::json!({
            "entries": entries.collect::<Vec<_>>(),
            "maxWaitMs": 500,
            "minBytes": 1,
        });
        let answer = client
            .post("/api/v1/fetch", request.to_string().into())
            .await?;
        bytes += answer.len();
        let answer: Answer = serde_json::from_slice(&answer).map_err(failed)?;
        for (entry, next) in answer.entries.iter().zip(&mut next) {
            if let Some(error) = &entry.error {
                return Err(failed(format!("a lane was answered with {error}")));
            }
            seen += entry.records.len();
            if let Some(last) = entry.records.last() {
                *next = last.offset + 1;
            }
        }
    }
    if seen != records {
        return Err(failed(format!("{seen} records came instead of {records}")));
    }
    Ok(bytes)
}
