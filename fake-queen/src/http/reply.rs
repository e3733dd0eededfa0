//! An answer before it is bytes.

use bytes::Bytes;
use http::header::{CONTENT_TYPE, ETAG, RETRY_AFTER};
use http::{HeaderValue, Response, StatusCode};
use http_body_util::Full;

/// What a route answers.
#[derive(Clone, Debug)]
pub struct Reply {
    /// Its status.
    pub status: StatusCode,
    /// JSON, or nothing with 204.
    pub body: Bytes,
    /// `Retry-After`.
    pub retry_after: Option<String>,
    /// `ETag`.
    pub etag: Option<String>,
}

impl Reply {
    /// JSON with a status.
    pub fn json(status: StatusCode, body: impl Into<Bytes>) -> Self {
        Self {
            status,
            body: body.into(),
            retry_after: None,
            etag: None,
        }
    }

    /// 200 with JSON.
    pub fn ok(body: impl Into<Bytes>) -> Self {
        Self::json(StatusCode::OK, body)
    }

    /// 200 with a value rendered by serde.
    pub fn value(value: &serde_json::Value) -> Self {
        Self::ok(value.to_string())
    }

    /// As hyper sends it.
    pub fn into_response(self) -> Response<Full<Bytes>> {
        let has_body = !self.body.is_empty();
        let mut response = Response::new(Full::new(self.body));
        *response.status_mut() = self.status;
        let headers = response.headers_mut();
        if has_body {
            headers.insert(CONTENT_TYPE, HeaderValue::from_static("application/json"));
        }
        for (name, value) in [(RETRY_AFTER, self.retry_after), (ETAG, self.etag)] {
            // What isn't a header value is left out; both are made of ASCII here.
            if let Some(value) = value.and_then(|value| HeaderValue::try_from(value).ok()) {
                headers.insert(name, value);
            }
        }
        response
    }
}
