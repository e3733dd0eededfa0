//! The checks' HTTP client: one connection per call, JSON in and out, patient with rate limits.

use std::sync::atomic::{AtomicU32, Ordering};
use std::sync::{Mutex, PoisonError};
use std::time::Duration;

use bytes::Bytes;
use host::Host;
use http::{Method, Request};
use http_body_util::{BodyExt, Full, Limited};
use hyper_util::rt::TokioIo;
use serde_json::{Value, json};

use super::Target;

/// How long a call may take: longer than the longest park.
const CALL_TIMEOUT: Duration = Duration::from_secs(45);
/// Largest answer that is read.
const MAX_ANSWER_BYTES: usize = 96 << 20;
/// How often a call that is throttled is repeated.
const THROTTLED_TRIES: u32 = 5;
/// Characters of an answer that a failure shows.
const SHOWN_CHARS: usize = 400;

/// Why a check failed.
#[derive(Debug, thiserror::Error)]
pub enum Failure {
    /// No connection.
    #[error("no connection: {0}")]
    Connect(#[from] std::io::Error),
    /// The exchange broke off.
    #[error("the exchange broke off: {0}")]
    Http(#[from] hyper::Error),
    /// The request can't be made.
    #[error("no request: {0}")]
    Request(#[from] http::Error),
    /// The answer is too large, or broke off.
    #[error("the answer can't be read: {0}")]
    Answer(Box<dyn std::error::Error + Send + Sync>),
    /// No answer in time.
    #[error("no answer within {}s", CALL_TIMEOUT.as_secs())]
    Late,
    /// The answer isn't what the contract says.
    #[error("{0}")]
    Unexpected(String),
}

/// Fails a check with what was seen unless it is what the contract says.
macro_rules! ensure {
    ($holds:expr, $($why:tt)+) => {
        if !$holds {
            return Err($crate::conformance::Failure::Unexpected(format!($($why)+)));
        }
    };
}
pub(super) use ensure;

/// An answer.
#[derive(Debug)]
pub struct Answer {
    pub status: u16,
    pub text: String,
}

impl Answer {
    /// Its JSON.
    pub fn json(&self) -> Result<Value, Failure> {
        serde_json::from_str(&self.text)
            .map_err(|error| Failure::Unexpected(format!("{error} in {}", cut(&self.text))))
    }
}

/// Text as a failure shows it.
pub fn cut(text: &str) -> String {
    text.chars().take(SHOWN_CHARS).collect()
}

/// Calls a target.
#[derive(Debug)]
pub struct Client(Target);

impl Client {
    pub fn new(target: Target) -> Self {
        Self(target)
    }

    /// One exchange; repeated when it is throttled.
    pub async fn call(&self, method: Method, path: &str, body: &str) -> Result<Answer, Failure> {
        for _ in 0..THROTTLED_TRIES {
            let exchange = self.exchange(method.clone(), path, body);
            let (answer, retry_after) = tokio::time::timeout(CALL_TIMEOUT, exchange)
                .await
                .map_err(|_| Failure::Late)??;
            if answer.status != 429 {
                return Ok(answer);
            }
            tokio::time::sleep(retry_after.unwrap_or(Duration::from_secs(1))).await;
        }
        Err(Failure::Unexpected(format!("{path}: throttled for good")))
    }

    async fn exchange(
        &self,
        method: Method,
        path: &str,
        body: &str,
    ) -> Result<(Answer, Option<Duration>), Failure> {
        let Target {
            connect,
            authority,
            prefix,
            bearer,
        } = &self.0;
        let stream = connect.connect().await?;
        let (mut sender, connection) =
            hyper::client::conn::http1::handshake(TokioIo::new(stream)).await?;
        // Ends with the sender.
        tokio::spawn(connection);
        let mut request = Request::builder()
            .method(method)
            .uri(format!("{prefix}{path}"))
            .header("host", authority)
            .header("content-type", "application/json");
        if let Some(token) = bearer {
            request = request.header("authorization", format!("Bearer {}", token.expose()));
        }
        let request = request.body(Full::new(Bytes::copy_from_slice(body.as_bytes())))?;
        let response = sender.send_request(request).await?;
        let status = response.status().as_u16();
        let retry_after = response
            .headers()
            .get("retry-after")
            .and_then(|value| value.to_str().ok()?.parse().ok())
            .map(Duration::from_secs);
        let body = Limited::new(response.into_body(), MAX_ANSWER_BYTES)
            .collect()
            .await
            .map_err(Failure::Answer)?;
        let text = String::from_utf8_lossy(&body.to_bytes()).into_owned();
        Ok((Answer { status, text }, retry_after))
    }
}

/// What a check works with.
#[derive(Debug)]
pub struct Probe {
    pub client: Client,
    run_id: String,
    made: AtomicU32,
    queues: Mutex<Vec<String>>,
}

impl Probe {
    /// A probe whose names nobody else has.
    pub fn new(client: Client, host: &Host) -> Self {
        let mut random = [0; 6];
        host.entropy.fill(&mut random);
        Self {
            client,
            run_id: random.iter().map(|byte| format!("{byte:02x}")).collect(),
            made: AtomicU32::new(0),
            queues: Mutex::default(),
        }
    }

    /// A name that was never used. A queue of that name is removed in the end.
    pub fn fresh(&self) -> String {
        let nth = self.made.fetch_add(1, Ordering::Relaxed);
        let name = format!("conformance-{}-{nth}", self.run_id);
        self.queues
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
            .push(name.clone());
        name
    }

    /// Removes the queues of every name drawn. What can't be removed stays.
    pub async fn clean_up(&self) {
        let queues =
            std::mem::take(&mut *self.queues.lock().unwrap_or_else(PoisonError::into_inner));
        for queue in queues {
            let path = format!("/api/v1/resources/queues/{queue}");
            let _ = self.client.call(Method::DELETE, &path, "").await;
        }
    }

    /// Calls a route under `/api/v1`, expecting a status.
    pub async fn expect(
        &self,
        method: Method,
        route: &str,
        status: u16,
        body: &Value,
    ) -> Result<Answer, Failure> {
        let path = format!("/api/v1/{route}");
        let body = if body.is_null() {
            String::new()
        } else {
            body.to_string()
        };
        let answer = self.client.call(method.clone(), &path, &body).await?;
        ensure!(
            answer.status == status,
            "{method} {path} {}: {} instead of {status}: {}",
            cut(&body),
            answer.status,
            cut(&answer.text)
        );
        Ok(answer)
    }

    /// POST, expecting a status and JSON.
    pub async fn post(&self, route: &str, status: u16, body: Value) -> Result<Value, Failure> {
        self.expect(Method::POST, route, status, &body)
            .await?
            .json()
    }

    /// GET, expecting 200 and JSON.
    pub async fn get(&self, route: &str) -> Result<Value, Failure> {
        self.expect(Method::GET, route, 200, &Value::Null)
            .await?
            .json()
    }

    /// Pushes payloads to one lane, returning the results.
    pub async fn push(
        &self,
        queue: &str,
        lane: &str,
        payloads: &[Value],
    ) -> Result<Vec<Value>, Failure> {
        let items: Vec<Value> = payloads
            .iter()
            .map(|payload| json!({"queue": queue, "partition": lane, "payload": payload}))
            .collect();
        let answer = self.post("push", 201, json!({ "items": items })).await?;
        match answer {
            Value::Array(results) if results.len() == payloads.len() => Ok(results),
            other => Err(Failure::Unexpected(format!(
                "push answered {} for {} items",
                cut(&other.to_string()),
                payloads.len()
            ))),
        }
    }

    /// Fetches one entry without waiting.
    pub async fn fetch(&self, queue: &str, lane: &str, offset: i64) -> Result<Value, Failure> {
        let entry = json!({"queue": queue, "partition": lane, "offset": offset});
        let answer = self
            .post("fetch", 200, json!({ "entries": [entry] }))
            .await?;
        Ok(answer["entries"][0].clone())
    }
}
