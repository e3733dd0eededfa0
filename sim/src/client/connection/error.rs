//! Why a call has no good answer, and what that says of its effect.

use std::io;

use kafka_wire::{ApiKey, ErrorCode};

/// Why a call has no good answer.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum CallError {
    /// No connection: nothing was asked.
    #[error("cannot connect: {0}")]
    Connect(io::ErrorKind),
    /// The connection ended. Whether the request was carried out is unknown.
    #[error("connection lost: {0}")]
    Lost(String),
    /// No answer in time. Whether the request was carried out is unknown.
    #[error("no answer in time")]
    TimedOut,
    /// Answered with an error.
    #[error("refused: {0:?}")]
    Refused(ErrorCode),
    /// The broker offers no version of the API that the client speaks: nothing was asked.
    #[error("{0} is not offered")]
    NotOffered(ApiKey),
    /// Nobody to ask: no broker with this number is known.
    #[error("broker {0} is unknown")]
    NoBroker(i32),
    /// The answer isn't Kafka's protocol, or not what was asked for.
    #[error("malformed: {0}")]
    Malformed(String),
}

impl CallError {
    pub(in crate::client) fn malformed(what: impl Into<String>) -> Self {
        Self::Malformed(what.into())
    }

    /// The broker's error code, if it said one.
    pub const fn code(&self) -> Option<ErrorCode> {
        match self {
            Self::Refused(code) => Some(*code),
            _ => None,
        }
    }

    /// Whether the request certainly had no effect. A refusal by the broker is such a certainty
    /// unless it is its own timeout.
    pub const fn has_no_effect(&self) -> bool {
        match self {
            Self::Connect(_) | Self::NotOffered(_) | Self::NoBroker(_) => true,
            Self::Refused(code) => !matches!(code, ErrorCode::RequestTimedOut),
            Self::Lost(_) | Self::TimedOut | Self::Malformed(_) => false,
        }
    }
}
