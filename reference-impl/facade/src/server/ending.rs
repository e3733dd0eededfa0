//! How a connection ended, and what is said about it.

use host::frame::{ReadError, WriteError};
use kafka_wire::ApiKey;
use kafka_wire::header::HeaderError;

use super::Shared;
use crate::context::Session;
use crate::dispatch::Refusal;

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
            Self::Handler { .. } => "handler",
        }
    }

    /// What is sampled together: each API and version that is not served is told.
    fn kind(&self) -> Kind {
        match self {
            Self::Unserved { key, version } => (self.label(), key.0, *version),
            _ => (self.label(), 0, 0),
        }
    }

    /// Whether an operator wants to know: a client that only comes and goes is no news.
    fn is_news(&self) -> bool {
        !matches!(
            self,
            Self::Peer | Self::Drained | Self::Read(ReadError::Idle | ReadError::Io(_))
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
        let client_id = client_id.map(printable);
        let client_id = client_id.as_deref().unwrap_or("");
        tracing::warn!(
            session = %id, %peer, client_id, software = name, software_version = version,
            reason = %self, suppressed, "connection closed"
        );
    }
}

/// The first characters of what a client said, without control characters.
fn printable(text: &str) -> String {
    let shown = text.chars().take(64);
    shown.filter(|c| !c.is_control()).collect()
}
