//! A small HTTP client over `host::Connect`: one connection per call.

use std::sync::Arc;

use bytes::Bytes;
use host::Connect;
use http::{Method, Request, Response};
use http_body_util::{BodyExt, Full};
use hyper_util::rt::TokioIo;
use serde_json::Value;

#[derive(Clone, Debug)]
pub struct Client(pub Arc<dyn Connect>);

#[derive(Debug)]
pub struct Answer {
    pub status: u16,
    pub retry_after: Option<String>,
    pub text: String,
}

impl Answer {
    pub fn json(&self) -> Value {
        serde_json::from_str(&self.text).unwrap_or_else(|e| panic!("{e}: {}", self.text))
    }
}

impl Client {
    /// `None`: the connection was cut.
    pub async fn try_call(&self, method: &str, path: &str, body: &str) -> Option<Answer> {
        let stream = self.0.connect().await.ok()?;
        let (mut sender, connection) = hyper::client::conn::http1::handshake(TokioIo::new(stream))
            .await
            .ok()?;
        let connection = tokio::spawn(connection);
        let request = Request::builder()
            .method(method.parse::<Method>().unwrap())
            .uri(path)
            .header("host", "queen")
            .body(Full::new(Bytes::from(body.to_owned())))
            .unwrap();
        let response: Response<_> = sender.send_request(request).await.ok()?;
        let answer = Answer {
            status: response.status().as_u16(),
            retry_after: response
                .headers()
                .get("retry-after")
                .map(|value| value.to_str().unwrap().to_owned()),
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
        };
        drop(sender);
        let _ = connection.await;
        Some(answer)
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
}
