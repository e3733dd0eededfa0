//! How a connection ended, and what is said about it.

use std::net::SocketAddr;

use host::frame::{ReadError, WriteError};
use kafka_wire::ApiKey;
use kafka_wire::header::HeaderError;

use super::Shared;
use crate::context::{Session, SessionId};
use crate::dispatch::Refusal;
use crate::logging::printable;

/// Why a connection ended.
#[derive(Debug, thiserror::Error)]
pub(super) enum End {
    #[error("closed by the client")]
    Peer,
    #[error("the node drains")]
    Drained,
    #[error(transparent)]
    Read(ReadError),
    #[error(transparent)]
    Write(#[from] WriteError),
    #[error(transparent)]
    Header(#[from] HeaderError),
    #[error("version {version} of {key} is not served")]
    Unserved { key: ApiKey, version: i16 },
    #[error("version {version} of {key}: {refusal}")]
    Refused {
        key: ApiKey,
        version: i16,
        refusal: Refusal,
    },
    #[error("{key} before authentication, or behind its end")]
    Unauthenticated { key: ApiKey },
    #[error("authentication was refused")]
    AuthenticationRefused,
    #[error("Queen no longer accepts the credential")]
    CredentialRejected,
    #[error("the peer kept memory that others waited for")]
    Evicted,
    #[error("{key}: {reason}")]
    Handler { key: ApiKey, reason: &'static str },
}

/// A kind of ending, as it is sampled: label, key, version.
pub(super) type Kind = (&'static str, i16, i16);

impl End {
    /// The label in metrics.
    fn label(&self) -> &'static str {
        match self {
            Self::Peer => "peer",
            Self::Drained => "drained",
            Self::Read(ReadError::Idle) => "idle",
            Self::Read(ReadError::Negative(_) | ReadError::TooLong { .. }) => "frame_length",
            Self::Read(ReadError::Stalled) => "stalled_frame",
            Self::Read(ReadError::Truncated) => "half_frame",
            Self::Read(ReadError::Io(_)) | Self::Write(WriteError::Io(_)) => "io",
            Self::Write(WriteError::Stalled) => "unread_response",
            Self::Header(_) => "header",
            Self::Unserved { .. } => "unserved",
            Self::Refused { .. } => "malformed",
            Self::Unauthenticated { .. } => "unauthenticated",
            Self::AuthenticationRefused => "authentication_refused",
            Self::CredentialRejected => "credential_rejected",
            Self::Evicted => "evicted",
            Self::Handler { .. } => "handler",
        }
    }

    /// What is sampled together: each API and version that is not served is told.
    fn kind(&self) -> Kind {
        match self {
            Self::Unserved { key, version } => (self.label(), key.0, *version),
            Self::Unauthenticated { key } => (self.label(), key.0, 0),
            _ => (self.label(), 0, 0),
        }
    }

    /// Whether an operator wants to know: a client that only comes and goes is no news.
    fn is_news(&self) -> bool {
        !matches!(
            self,
            Self::Peer
                | Self::Drained
                // Its handler has said more.
                | Self::AuthenticationRefused
                | Self::Read(ReadError::Idle | ReadError::Io(_))
        ) && !matches!(self, Self::Write(WriteError::Io(_)))
    }

    /// Counts the end, and logs it: sampled when it is news, since a client can cause it at will.
    pub(super) fn report(&self, shared: &Shared, session: &Session, client_id: Option<&str>) {
        shared.node.metrics.closed(self.label());
        let (id, peer) = (session.id, session.peer);
        if !self.is_news() {
            tracing::debug!(session = %id, %peer, reason = %self, "connection closed");
            return;
        }
        let now = shared.node.host.clock.monotonic();
        let Some(suppressed) = shared.complaints.pass(self.kind(), now) else {
            return;
        };
        let software = session.software.get();
        let (name, version) = match software {
            Some(software) => (software.name.as_str(), software.version.as_str()),
            None => ("unknown", ""),
        };
        let user = session.authentication.username();
        let user = user.as_deref().map(printable).unwrap_or_default();
        let client_id = client_id.map(printable);
        let client_id = client_id.as_deref().unwrap_or("");
        tracing::warn!(
            session = %id, %peer, user, client_id, software = name, software_version = version,
            reason = %self, suppressed, "connection closed"
        );
    }
}

/// Counts a TLS handshake that failed, and logs it: most often a client that speaks plaintext, or one
/// that does not trust the certificate.
pub(super) fn report_handshake(
    shared: &Shared,
    id: SessionId,
    peer: SocketAddr,
    error: &std::io::Error,
) {
    const LABEL: &str = "tls_handshake";
    shared.node.metrics.closed(LABEL);
    let now = shared.node.host.clock.monotonic();
    if let Some(suppressed) = shared.complaints.pass((LABEL, 0, 0), now) {
        tracing::warn!(session = %id, %peer, reason = %error, suppressed, "TLS handshake failed");
    }
}
