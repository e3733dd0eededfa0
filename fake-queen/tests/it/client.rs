//! A small HTTP client over `host::Connect`.

use std::sync::Arc;

use bytes::Bytes;
use host::Connect;
use http::{Method, Request};
use http_body_util::{BodyExt, Full};
use hyper::client::conn::http1::SendRequest;
use hyper_util::rt::TokioIo;
use serde_json::Value;

/// Makes a connection for each call.
#[derive(Clone, Debug)]
pub struct Client(pub Arc<dyn Connect>);

/// One connection.
pub struct Connection(SendRequest<Full<Bytes>>);

#[derive(Debug)]
pub struct Answer {
    pub status: u16,
    pub retry_after: Option<String>,
    pub etag: Option<String>,
    pub text: String,
}

impl Answer {
    pub fn json(&self) -> Value {
        serde_json::from_str(&self.text).unwrap_or_else(|e| panic!("{e}: {}", self.text))
    }
}

impl Connection {
    /// `None`: the connection was cut.
    pub async fn call(
        &mut self,
        method: &str,
        path: &str,
        headers: &[(&str, &str)],
        body: impl Into<Bytes>,
    ) -> Option<Answer> {
        let mut request = Request::builder()
            .method(method.parse::<Method>().unwrap())
            .uri(path);
        if !headers.iter().any(|(name, _)| *name == "host") {
            request = request.header("host", "queen");
        }
        for (name, value) in headers {
            request = request.header(*name, *value);
        }
        let request = request.body(Full::new(body.into())).unwrap();
        self.0.ready().await.ok()?;
        let response = self.0.send_request(request).await.ok()?;
        let header = |name: &str| {
            response
                .headers()
                .get(name)
                .map(|value| value.to_str().unwrap().to_owned())
        };
        Some(Answer {
            status: response.status().as_u16(),
            retry_after: header("retry-after"),
            etag: header("etag"),
            text: String::from_utf8(
                response
                    .into_body()
                    .collect()
                    .await
                    .ok()?
                    .to_bytes()
                    .to_vec(),
            )
            .unwrap(),
        })
    }
}

impl Client {
    pub async fn connect(&self) -> Option<Connection> {
        let stream = self.0.connect().await.ok()?;
        let (sender, connection) = hyper::client::conn::http1::handshake(TokioIo::new(stream))
            .await
            .ok()?;
        tokio::spawn(connection);
        Some(Connection(sender))
    }

    /// `None`: the connection was cut.
    pub async fn try_call(&self, method: &str, path: &str, body: &str) -> Option<Answer> {
        let mut connection = self.connect().await?;
        connection.call(method, path, &[], body.to_owned()).await
    }

    pub async fn call(&self, method: &str, path: &str, body: &Value) -> Answer {
        let body = if body.is_null() {
            String::new()
        } else {
            body.to_string()
        };
        self.try_call(method, path, &body).await.expect("an answer")
    }

    /// POST under `/api/v1`, expecting a status.
    pub async fn post(&self, route: &str, status: u16, body: Value) -> Value {
        let answer = self.call("POST", &format!("/api/v1/{route}"), &body).await;
        assert_eq!(answer.status, status, "{route} {body}: {}", answer.text);
        answer.json()
    }

    /// GET under `/api/v1`, expecting 200.
    pub async fn get(&self, route: &str) -> Value {
        let answer = self
            .call("GET", &format!("/api/v1/{route}"), &Value::Null)
            .await;
        assert_eq!(answer.status, 200, "{route}: {}", answer.text);
        answer.json()
    }

    /// One entry of a fetch that doesn't wait.
    pub async fn fetch(&self, queue: &str, lane: &str, offset: i64) -> Value {
        let entry = serde_json::json!({"queue": queue, "partition": lane, "offset": offset,
            "maxBytes": 8 << 20});
        let body = serde_json::json!({"entries": [entry]});
        self.post("fetch", 200, body).await["entries"][0].clone()
    }

    /// Pushes one item, returning its result.
    pub async fn push(&self, queue: &str, lane: &str, payload: Value) -> Value {
        let item = serde_json::json!({"queue": queue, "partition": lane, "payload": payload});
        let body = serde_json::json!({ "items": [item] });
        self.post("push", 201, body).await[0].clone()
    }
}
