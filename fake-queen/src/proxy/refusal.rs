//! Every way the proxy refuses, and its one rendering (contract section 8).

use http::StatusCode;
use serde_json::json;

use crate::http::reply::Reply;

/// A refusal. Its text is what the caller reads.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Refusal {
    /// No credential.
    #[error("missing bearer token")]
    NoCredential,
    /// One that nobody has, or has any more.
    #[error("unknown or revoked API key")]
    UnknownKey,
    /// One whose time is over.
    #[error("API key has expired")]
    ExpiredKey,
    /// A key on the host of a cluster that isn't its own.
    #[error("key/cluster mismatch")]
    Mismatch,
    /// A key chooses no cluster.
    #[error("API keys can't act for another cluster")]
    Acting,
    /// The key lacks the scope.
    #[error("operation not permitted for this credential: it needs the {0} scope")]
    Scope(&'static str),
    /// Not for keys at all.
    #[error("operation not permitted for this credential: operators only")]
    Operator,
    /// Nobody is called like that host.
    #[error("no such cluster")]
    UnknownCluster,
    /// The cluster is frozen.
    #[error("cluster is suspended")]
    Suspended,
    /// The plan lacks the feature.
    #[error("the plan does not include {0}")]
    Feature(&'static str),
    /// Too much is stored.
    #[error("storage quota exceeded")]
    StorageBlock,
    /// Too much was sent this month.
    #[error("monthly quota exceeded")]
    MonthlyBlock,
    /// Stopped by hand.
    #[error("pushes are blocked")]
    PushBlock,
    /// One queue, one partition, or longer retention, than the plan has.
    #[error("quota exceeded: {0}")]
    Quota(&'static str),
    /// No such route through here.
    #[error("route is not available")]
    Blocked,
    /// Too fast.
    #[error("rate limit exceeded")]
    RateLimited {
        /// Whole seconds; `None` when a storm is to come without the header.
        retry_after_s: Option<u64>,
    },
    /// The body, an item of it, or their number.
    #[error("payload too large: {0}")]
    TooLarge(&'static str),
    /// The body of a push can't be read, or stopped coming.
    #[error("invalid request: {0}")]
    Invalid(String),
    /// The body came too slowly, or stopped coming.
    #[error("the request's body came too slowly")]
    Slow,
    /// The broker is out of reach, or broke off.
    #[error("upstream is not reachable")]
    BadGateway,
    /// The broker said nothing in time.
    #[error("upstream timed out")]
    Timeout,
}

impl Refusal {
    /// Its status and its machine-readable code.
    pub const fn code(&self) -> (StatusCode, &'static str) {
        match self {
            Self::NoCredential | Self::UnknownKey | Self::ExpiredKey => {
                (StatusCode::UNAUTHORIZED, "unauthorized")
            }
            Self::Mismatch | Self::Acting | Self::Scope(_) | Self::Operator => {
                (StatusCode::FORBIDDEN, "forbidden")
            }
            Self::UnknownCluster => (StatusCode::MISDIRECTED_REQUEST, "cluster_unknown"),
            Self::Suspended => (StatusCode::FORBIDDEN, "cluster_suspended"),
            Self::Feature(_) => (StatusCode::FORBIDDEN, "feature_gated"),
            Self::StorageBlock => (StatusCode::FORBIDDEN, "storage_quota_exceeded"),
            Self::PushBlock => (StatusCode::FORBIDDEN, "push_blocked"),
            Self::MonthlyBlock | Self::Quota(_) => (StatusCode::FORBIDDEN, "quota_exceeded"),
            Self::Blocked => (StatusCode::NOT_FOUND, "route_blocked"),
            Self::RateLimited { .. } => (StatusCode::TOO_MANY_REQUESTS, "rate_limited"),
            Self::TooLarge(_) => (StatusCode::PAYLOAD_TOO_LARGE, "payload_too_large"),
            Self::Invalid(_) => (StatusCode::BAD_REQUEST, "invalid_request"),
            Self::Slow => (StatusCode::REQUEST_TIMEOUT, "request_timeout"),
            Self::BadGateway => (StatusCode::BAD_GATEWAY, "bad_gateway"),
            Self::Timeout => (StatusCode::GATEWAY_TIMEOUT, "upstream_timeout"),
        }
    }

    /// Whether it is only logged where limits aren't enforced.
    pub const fn is_advisory(&self) -> bool {
        matches!(self, Self::RateLimited { .. } | Self::Quota(_))
    }

    /// The answer.
    pub fn into_reply(self) -> Reply {
        let (status, code) = self.code();
        let body = json!({"error": self.to_string(), "code": code}).to_string();
        let mut reply = Reply::json(status, body);
        if let Self::RateLimited { retry_after_s } = self {
            reply.retry_after = retry_after_s.map(|seconds| seconds.to_string());
        }
        reply
    }
}
