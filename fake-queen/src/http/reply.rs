//! An answer before it is bytes.

use bytes::Bytes;
use http::header::{
    CACHE_CONTROL, CONTENT_SECURITY_POLICY, CONTENT_TYPE, ETAG, REFERRER_POLICY, RETRY_AFTER,
    X_CONTENT_TYPE_OPTIONS,
};
use http::{HeaderValue, Response, StatusCode};
use http_body_util::Full;

/// A page has its style in itself and loads nothing.
const PAGE_POLICY: &str = "default-src 'none'; style-src 'unsafe-inline'; base-uri 'none'; \
     form-action 'none'; frame-ancestors 'none'";

/// What a route answers.
#[derive(Clone, Debug)]
pub struct Reply {
    /// Its status.
    pub status: StatusCode,
    /// JSON, or nothing with 204, or a page.
    pub body: Bytes,
    /// The body is a page for people.
    pub page: bool,
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
            page: false,
            retry_after: None,
            etag: None,
        }
    }

    /// 200 with JSON.
    pub fn ok(body: impl Into<Bytes>) -> Self {
        Self::json(StatusCode::OK, body)
    }

    /// 200 with a page that holds all it needs and may load nothing.
    pub fn page(body: impl Into<Bytes>) -> Self {
        Self {
            page: true,
            ..Self::ok(body)
        }
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
        if self.page {
            let of_page = [
                (CONTENT_TYPE, "text/html; charset=utf-8"),
                (CONTENT_SECURITY_POLICY, PAGE_POLICY),
                (CACHE_CONTROL, "no-store"),
                (REFERRER_POLICY, "no-referrer"),
                (X_CONTENT_TYPE_OPTIONS, "nosniff"),
            ];
            for (name, value) in of_page {
                headers.insert(name, HeaderValue::from_static(value));
            }
        } else if has_body {
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
