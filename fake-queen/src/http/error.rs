//! Every way a route refuses, and its one rendering (contract sections 1.1, 5.4, 7.5).

use http::StatusCode;

use super::reply::Reply;
use crate::engine::kv::rules::BadCall;
use crate::engine::native::admin::AdminError;
use crate::engine::native::pop::PopError;
use crate::engine::queue_options::OptionError;
use crate::engine::writer::WriteError;
use crate::json;
use crate::store::StoreError;

/// A refusal.
#[derive(Debug, thiserror::Error)]
pub enum ApiError {
    /// The body doesn't parse as what the route takes.
    #[error("bad body: {0}")]
    BadBody(String),
    /// The body is understood and refused.
    #[error("{0}")]
    BadRequest(&'static str),
    /// The body is larger than the ceiling; refused in front of the handlers.
    #[error("body too large")]
    BodyTooLarge,
    /// `x-queen-tenant` isn't a UUID.
    #[error("invalid x-queen-tenant header (must be a UUID)")]
    BadTenant,
    /// The call's token, or its absence, in a broker's words.
    #[error("{0}")]
    Unauthenticated(&'static str),
    /// The token lacks the route's role.
    #[error("Insufficient permissions")]
    Forbidden,
    /// No such path under `/api`, or not with that method.
    #[error("Not Found")]
    NoSuchRoute,
    /// The thing named isn't there.
    #[error("{0}")]
    NotFound(&'static str),
    /// An option of `configure`.
    #[error("configure failed: {0}")]
    Configure(OptionError),
    /// A KV call broke a rule.
    #[error("kv_bad_request")]
    Kv(#[from] BadCall),
    /// A path-style KV call broke a rule of its own.
    #[error("kv_bad_request")]
    KvPath(&'static str),
    /// The tenant has no grant for KV.
    #[error("feature_gated")]
    FeatureGated,
    /// Too many KV calls.
    #[error("rate_limited")]
    RateLimited {
        /// Seconds until a token is there.
        retry_after_s: u64,
    },
    /// KV is switched off.
    #[error("kv_disabled")]
    KvDisabled,
    /// Nothing was written, or nobody knows: what a real Queen says when its database is out of
    /// reach.
    #[error("pool")]
    Write(#[from] WriteError),
    /// The same, of a KV call.
    #[error("kv_error")]
    KvWrite(WriteError),
    /// The body stopped coming.
    #[error("bad body: timed out")]
    BodyTimedOut,
    /// The store can't be read.
    #[error("fetch failed")]
    Read(#[from] StoreError),
    /// A stored segment doesn't unpack.
    #[error("fetch decode failed")]
    Decode,
    /// What a native consumer is to be handed can't be read.
    #[error("pop failed")]
    PopFailed,
}

impl From<PopError> for ApiError {
    fn from(error: PopError) -> Self {
        match error {
            PopError::Write(error) => Self::Write(error),
            PopError::Read(_) => Self::PopFailed,
        }
    }
}

impl From<AdminError> for ApiError {
    fn from(error: AdminError) -> Self {
        match error {
            AdminError::Write(error) => Self::Write(error),
            AdminError::Read(error) => Self::Read(error),
        }
    }
}

impl ApiError {
    /// The status it is answered with.
    pub fn status(&self) -> StatusCode {
        match self {
            Self::BadBody(_)
            | Self::BadRequest(_)
            | Self::BadTenant
            | Self::KvPath(_)
            | Self::Configure(OptionError::OutOfRange(_)) => StatusCode::BAD_REQUEST,
            Self::Kv(bad) if !bad.is_too_large() => StatusCode::BAD_REQUEST,
            Self::Kv(_) | Self::BodyTooLarge => StatusCode::PAYLOAD_TOO_LARGE,
            Self::NoSuchRoute | Self::NotFound(_) => StatusCode::NOT_FOUND,
            Self::BodyTimedOut => StatusCode::REQUEST_TIMEOUT,
            Self::Unauthenticated(_) => StatusCode::UNAUTHORIZED,
            Self::FeatureGated | Self::Forbidden => StatusCode::FORBIDDEN,
            Self::RateLimited { .. } => StatusCode::TOO_MANY_REQUESTS,
            Self::KvDisabled => StatusCode::SERVICE_UNAVAILABLE,
            Self::Configure(OptionError::WrongType(_))
            | Self::Write(_)
            | Self::KvWrite(_)
            | Self::Read(_)
            | Self::PopFailed
            | Self::Decode => StatusCode::INTERNAL_SERVER_ERROR,
        }
    }

    /// The answer.
    pub fn into_reply(self) -> Reply {
        let status = self.status();
        if let Self::BodyTooLarge = self {
            // Not from the broker's handlers: not the usual object either.
            return Reply::json(status, "length limit exceeded");
        }
        let mut out = b"{\"error\":".to_vec();
        match &self {
            Self::Kv(bad) if bad.is_too_large() => json::string(&mut out, "payload_too_large"),
            error => json::string(&mut out, &error.to_string()),
        }
        let mut field = |name: &str, value: &str| {
            out.extend_from_slice(b",\"");
            out.extend_from_slice(name.as_bytes());
            out.extend_from_slice(b"\":");
            json::string(&mut out, value);
        };
        match &self {
            Self::NoSuchRoute => field("code", "no_such_route"),
            Self::Configure(OptionError::OutOfRange(option)) => field("invalid", option),
            Self::Kv(bad) => {
                field("reason", bad.reason());
                field("detail", &bad.to_string());
            }
            Self::KvPath(reason) => field("reason", reason),
            Self::RateLimited { .. } => field("reason", "kv_rate"),
            _ => {}
        }
        out.push(b'}');
        let mut reply = Reply::json(status, out);
        if let Self::RateLimited { retry_after_s } = self {
            reply.retry_after = Some(retry_after_s.to_string());
        }
        reply
    }
}
