//! What Queen holds, read from her over HTTP, past every door: the log that a history is judged
//! against besides what a fresh consumer reads.
//!
//! It reads the envelope of docs/queen-contract.md by itself: a door that stores one thing and
//! shows another must not be judged by its own reading.

use std::io;
use std::time::Duration;

use bytes::Bytes;
use fake_queen::ids::TenantId;
use host::Host;
use http::{Method, Request, StatusCode};
use http_body_util::{BodyExt, Full, Limited};
use hyper::client::conn::http1::handshake;
use hyper_util::rt::TokioIo;
use serde::Deserialize;
use serde_json::json;
use tokio::time::{sleep, timeout};

use crate::client::producer::digest;
use crate::history::{Event, Name, Recorder, Seen, Source, TopicPartition, Value};
use crate::trace::Node;
use crate::world::QUEEN_PORT;

/// The largest answer read.
const MAX_ANSWER_BYTES: usize = 64 << 20;
/// One exchange, on a healthy network.
const TIMEOUT: Duration = Duration::from_secs(5);
/// Between two tries.
const PAUSE: Duration = Duration::from_millis(200);
/// Who reads, in the history.
pub const READER: &str = "storage";

/// Why an exchange brought nothing. The next may.
#[derive(Debug, thiserror::Error)]
enum ReadError {
    #[error("no connection: {0}")]
    Connect(#[from] io::Error),
    #[error("no answer: {0}")]
    Http(#[from] hyper::Error),
    #[error("no answer in time")]
    TimedOut,
    #[error("answered {0}")]
    Status(StatusCode),
    #[error("an answer that doesn't read: {0}")]
    Json(#[from] serde_json::Error),
    #[error("a body that doesn't end well: {0}")]
    Body(Box<dyn std::error::Error + Send + Sync>),
    #[error("a request that can't be: {0}")]
    Request(#[from] http::Error),
    #[error("{0}")]
    Shape(&'static str),
}

#[derive(Deserialize)]
struct Answer {
    entries: Vec<Lane>,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct Lane {
    records: Vec<Record>,
    high_watermark: i64,
    log_start_offset: i64,
}

#[derive(Deserialize)]
struct Record {
    offset: i64,
    payload: Envelope,
}

/// Contract section 6.
#[derive(Deserialize)]
struct Envelope {
    k: Option<String>,
    #[serde(default)]
    t: Option<i64>,
    v: Option<String>,
}

/// Reads all of `partitions` partitions of `topic` into the history, of `tenant` where Queen keeps
/// several. Tries until it can: call it after the world has healed.
pub async fn read_all(
    host: &Host,
    recorder: &Recorder,
    topic: &Name,
    partitions: i32,
    tenant: Option<TenantId>,
) {
    let who = Name::from(READER);
    for partition in 0..partitions {
        let at = TopicPartition::new(topic.clone(), partition);
        let (records, start, end) = loop {
            match lane(host, &at, tenant).await {
                Ok(read) => break read,
                Err(error) => recorder.note(READER, format_args!("! {at}: {error}")),
            }
            sleep(PAUSE).await;
        };
        let source = Source::Storage;
        recorder.record(
            &who,
            Event::Log {
                source,
                at: at.clone(),
                records,
            },
        );
        recorder.record(
            &who,
            Event::LogEnd {
                source,
                at,
                start,
                end,
            },
        );
    }
}

async fn lane(
    host: &Host,
    at: &TopicPartition,
    tenant: Option<TenantId>,
) -> Result<(Vec<Seen>, i64, i64), ReadError> {
    let mut records = Vec::new();
    let (mut next, mut start) = (0, 0);
    loop {
        let body = json!({"entries": [{
            "queue": at.topic,
            "partition": at.partition.to_string(),
            "offset": next,
            "maxBytes": 8 << 20,
        }]});
        let answer = exchange(
            host,
            &Method::POST,
            "/api/v1/fetch",
            body.to_string(),
            tenant,
        )
        .await?;
        let answer: Answer = serde_json::from_slice(&answer)?;
        let lane = answer.entries.into_iter().next();
        let lane = lane.ok_or(ReadError::Shape("a fetch answered without its entry"))?;
        start = if next == 0 {
            lane.log_start_offset
        } else {
            start
        };
        for record in lane.records {
            records.push(seen(&record)?);
            next = record.offset + 1;
        }
        if next.max(lane.log_start_offset) >= lane.high_watermark {
            return Ok((records, start, lane.high_watermark));
        }
        next = next.max(lane.log_start_offset);
    }
}

fn seen(record: &Record) -> Result<Seen, ReadError> {
    let bytes = |text: &Option<String>| -> Result<Option<Vec<u8>>, ReadError> {
        let text = text.as_deref().map(str::as_bytes);
        let decoded = text.map(|text| base64_simd::STANDARD.decode_to_vec(text));
        decoded
            .transpose()
            .map_err(|_| ReadError::Shape("a key or a value that is no base64"))
    };
    let (key, value) = (bytes(&record.payload.k)?, bytes(&record.payload.v)?);
    let value = value.unwrap_or_default();
    let text = str::from_utf8(&value).map_err(|_| ReadError::Shape("a value that is no text"))?;
    let written: Value = text
        .parse()
        .map_err(|_| ReadError::Shape("a value that nobody wrote"))?;
    let timestamp = record.payload.t.unwrap_or(-1);
    Ok(Seen {
        offset: record.offset,
        value: written,
        digest: Some(digest(key.as_deref(), &value, timestamp)),
    })
}

/// One exchange with Queen on a connection of its own.
async fn exchange(
    host: &Host,
    method: &Method,
    path: &str,
    body: String,
    tenant: Option<TenantId>,
) -> Result<Bytes, ReadError> {
    let queen = (Node::Queen, QUEEN_PORT);
    timeout(TIMEOUT, ask(host, queen, method, path, body, tenant))
        .await
        .map_err(|_| ReadError::TimedOut)?
}

async fn ask(
    host: &Host,
    (node, port): (Node, u16),
    method: &Method,
    path: &str,
    body: String,
    tenant: Option<TenantId>,
) -> Result<Bytes, ReadError> {
    let stream = host.net.connect(node.name(), port).await?;
    let (mut sender, connection) = handshake(TokioIo::new(stream)).await?;
    let driver = tokio::spawn(async move {
        // Its end shows in the exchange.
        let _ = connection.await;
    });
    let mut request = Request::builder();
    if let Some(TenantId(tenant)) = tenant {
        request = request.header("x-queen-tenant", tenant.hyphenated().to_string());
    }
    let request = request
        .method(method)
        .uri(path)
        .header(http::header::HOST, node.name())
        .header(http::header::CONTENT_TYPE, "application/json")
        .body(Full::new(Bytes::from(body)))?;
    let answer = sender.send_request(request).await?;
    let status = answer.status();
    let body = Limited::new(answer.into_body(), MAX_ANSWER_BYTES)
        .collect()
        .await
        .map_err(ReadError::Body)?;
    driver.abort();
    match status {
        StatusCode::OK => Ok(body.to_bytes()),
        status => Err(ReadError::Status(status)),
    }
}

/// The bytes that the listeners of the facade on `node` hold, by its metrics.
pub async fn held_bytes(host: &Host, node: Node, port: u16) -> Option<u64> {
    let asked = ask(
        host,
        (node, port),
        &Method::GET,
        "/metrics",
        String::new(),
        None,
    );
    let text = timeout(TIMEOUT, asked).await.ok()?.ok()?;
    let text = str::from_utf8(&text).ok()?;
    let series = "queen_kafka_in_flight_bytes ";
    let line = text.lines().find_map(|line| line.strip_prefix(series))?;
    line.trim().parse().ok()
}
