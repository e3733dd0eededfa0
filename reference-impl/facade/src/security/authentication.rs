//! What one connection has proved so far: Kafka's SASL server states, without any I/O.
//!
//! Before it has authenticated, a connection may negotiate versions and authenticate, and nothing
//! else. Re-authentication is KIP-368.

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use host::Monotonic;
use kafka_wire::{ApiKey, ErrorCode};

use crate::context::Session;

/// The mechanism that is served.
pub const PLAIN: &str = "PLAIN";

/// Where a connection stands.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Stage {
    /// The listener authenticates nobody.
    Open,
    /// Nothing is known; a SaslHandshake is expected.
    Handshake,
    /// The mechanism is agreed; its message is expected: bare behind SaslHandshake 0, in a
    /// SaslAuthenticate behind 1.
    Message {
        /// Without a request header.
        bare: bool,
    },
    /// The peer is known until `until`.
    Authenticated {
        /// When it must have authenticated again.
        until: Option<Monotonic>,
    },
    /// A peer that is known sent another SaslHandshake.
    Again,
    /// It is refused: the connection closes when it has been told.
    Refused,
}

/// The authentication of one connection, across the sessions that follow each other on it.
#[derive(Debug)]
pub struct Authentication(Mutex<Inner>);

#[derive(Debug)]
struct Inner {
    stage: Stage,
    username: Option<String>,
    /// The session of the requests to come, until the connection takes it.
    successor: Option<Arc<Session>>,
}

impl Authentication {
    /// Of a connection to a listener that authenticates, or not.
    pub fn new(required: bool) -> Arc<Self> {
        let stage = if required {
            Stage::Handshake
        } else {
            Stage::Open
        };
        Arc::new(Self(Mutex::new(Inner {
            stage,
            username: None,
            successor: None,
        })))
    }

    /// Where it stands.
    pub fn stage(&self) -> Stage {
        self.inner().stage
    }

    /// Whether the peer may ask for everything that is served.
    pub fn is_settled(&self) -> bool {
        matches!(self.stage(), Stage::Open | Stage::Authenticated { .. })
    }

    /// Who the peer says it is.
    pub fn username(&self) -> Option<String> {
        self.inner().username.clone()
    }

    /// Whether a request for `key` may be looked at; if not, the connection closes.
    pub fn admits(&self, key: ApiKey, now: Monotonic) -> bool {
        match self.stage() {
            Stage::Open => true,
            Stage::Handshake | Stage::Message { .. } => matches!(
                key,
                ApiKey::API_VERSIONS | ApiKey::SASL_HANDSHAKE | ApiKey::SASL_AUTHENTICATE
            ),
            Stage::Authenticated { until } => {
                key == ApiKey::SASL_HANDSHAKE || until.is_none_or(|until| now < until)
            }
            Stage::Again => key == ApiKey::SASL_AUTHENTICATE,
            Stage::Refused => false,
        }
    }

    /// A SaslHandshake of `version` for `mechanism`.
    ///
    /// # Errors
    ///
    /// `UNSUPPORTED_SASL_MECHANISM` (the client may try another), or `ILLEGAL_SASL_STATE` when none
    /// is due: no SASL here, one was agreed already, or re-authentication by version 0, which has
    /// no answer that names a lifetime.
    pub fn handshake(&self, version: i16, mechanism: &str) -> Result<(), ErrorCode> {
        let mut inner = self.inner();
        let next = match inner.stage {
            Stage::Handshake => Stage::Message { bare: version == 0 },
            Stage::Authenticated { .. } if version >= 1 => Stage::Again,
            _ => return Err(ErrorCode::IllegalSaslState),
        };
        if mechanism != PLAIN {
            return Err(ErrorCode::UnsupportedSaslMechanism);
        }
        inner.stage = next;
        Ok(())
    }

    /// Whether the mechanism's message is due.
    pub fn expects_message(&self) -> bool {
        matches!(self.stage(), Stage::Message { .. } | Stage::Again)
    }

    /// Whether the next frame has no request header.
    pub fn expects_bare_message(&self) -> bool {
        self.stage() == Stage::Message { bare: true }
    }

    /// The peer is `username` until `until`, and its requests run in `successor` from now on.
    pub fn succeed(&self, username: String, until: Option<Monotonic>, successor: Arc<Session>) {
        let mut inner = self.inner();
        inner.stage = Stage::Authenticated { until };
        inner.username = Some(username);
        inner.successor = Some(successor);
    }

    /// The peer is refused.
    pub fn refuse(&self) {
        self.inner().stage = Stage::Refused;
    }

    /// The session of the requests to come, when it is another one.
    pub fn take_successor(&self) -> Option<Arc<Session>> {
        self.inner().successor.take()
    }

    fn inner(&self) -> MutexGuard<'_, Inner> {
        // Every change leaves it whole.
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use rstest::rstest;

    use super::*;
    use crate::context::SessionId;

    fn session() -> Arc<Session> {
        Session::new(SessionId(1), ([127, 0, 0, 1], 1).into(), None)
    }

    fn at(ms: u64) -> Monotonic {
        Monotonic::default() + Duration::from_millis(ms)
    }

    const ANY: [ApiKey; 4] = [
        ApiKey::PRODUCE,
        ApiKey::API_VERSIONS,
        ApiKey::SASL_HANDSHAKE,
        ApiKey::SASL_AUTHENTICATE,
    ];

    fn admitted(authentication: &Authentication, now: Monotonic) -> Vec<ApiKey> {
        let admits = |key: &ApiKey| authentication.admits(*key, now);
        ANY.into_iter().filter(admits).collect()
    }

    #[test]
    fn an_open_listener_asks_nobody_and_has_no_sasl() {
        let open = Authentication::new(false);
        assert_eq!(admitted(&open, at(0)), ANY);
        assert!(open.is_settled() && !open.expects_message());
        assert_eq!(open.handshake(1, PLAIN), Err(ErrorCode::IllegalSaslState));
    }

    #[rstest]
    #[case(0, true)]
    #[case(1, false)]
    fn a_stranger_only_negotiates_and_authenticates(#[case] version: i16, #[case] bare: bool) {
        let it = Authentication::new(true);
        assert_eq!(admitted(&it, at(0)), ANY[1..]);
        assert_eq!(
            it.handshake(version, "GSSAPI"),
            Err(ErrorCode::UnsupportedSaslMechanism)
        );
        assert_eq!(it.stage(), Stage::Handshake, "another may be tried");
        it.handshake(version, PLAIN).unwrap();
        assert_eq!(it.expects_bare_message(), bare);
        assert_eq!(
            it.handshake(version, PLAIN),
            Err(ErrorCode::IllegalSaslState)
        );
        assert!(it.expects_message() && !it.is_settled());
        it.succeed("a".into(), None, session());
        assert!(it.is_settled() && it.take_successor().is_some());
        assert!(it.take_successor().is_none());
        assert_eq!(admitted(&it, at(u64::MAX >> 32)), ANY);
    }

    #[test]
    fn who_is_refused_gets_nothing() {
        let it = Authentication::new(true);
        it.refuse();
        assert_eq!(admitted(&it, at(0)), []);
    }

    #[test]
    fn behind_its_time_a_session_may_only_authenticate_again() {
        let it = Authentication::new(true);
        it.handshake(1, PLAIN).unwrap();
        it.succeed("a".into(), Some(at(10)), session());
        assert_eq!(admitted(&it, at(9)), ANY);
        assert_eq!(admitted(&it, at(10)), [ApiKey::SASL_HANDSHAKE]);
        assert_eq!(it.handshake(0, PLAIN), Err(ErrorCode::IllegalSaslState));
        it.handshake(1, PLAIN).unwrap();
        assert_eq!(admitted(&it, at(10)), [ApiKey::SASL_AUTHENTICATE]);
        it.succeed("a".into(), Some(at(20)), session());
        assert_eq!(admitted(&it, at(19)), ANY);
    }
}
