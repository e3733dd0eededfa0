//! What can go wrong with a call to Queen, and what is then known about its effect.
//!
//! Two questions matter to a caller: may the call have been applied ([`Error::effect`]), and what
//! kind of refusal is it ([`Error::class`]). Kafka codes are chosen in `upstream_errors` alone.

use std::time::Duration;

use host::text::visible;
use http::StatusCode;

/// Characters of a server's text that reach a Kafka `error_message`.
pub const MAX_ERROR_TEXT_CHARS: usize = 256;

/// Why a call to Queen failed.
#[derive(Clone, Debug, thiserror::Error)]
pub enum Error {
    /// No connection: refused, unresolvable, or not made in time. The call never left.
    #[error("cannot reach Queen: {0}")]
    Unreachable(String),
    /// Every connection of the pool stayed busy for the whole time the call had. It never left.
    #[error("all connections to Queen are busy")]
    Busy,
    /// The call breaks a limit that Queen is known to refuse; it was not sent.
    #[error("call not sent: {0}")]
    Unsendable(&'static str),
    /// Queen answered with a status other than success.
    #[error("{0}")]
    Refused(Refusal),
    /// The connection ended after the call left and before its whole answer arrived.
    #[error("answer lost: {0}")]
    Lost(String),
    /// The call left, and its answer did not arrive in time.
    #[error("no answer within {0:?}")]
    TimedOut(Duration),
    /// The answer is not what the contract says, so the effect is not known.
    #[error("unreadable answer: {0}")]
    Unreadable(String),
}

/// An answer with a status other than success.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Refusal {
    /// The HTTP status.
    pub status: StatusCode,
    /// The delta-seconds form of `Retry-After`; the date form is ignored.
    pub retry_after: Option<Duration>,
    /// Machine-readable reason: the proxy's `code`, else a KV error's `error` token.
    pub code: Option<String>,
    /// What the server said, scrubbed and cut to [`MAX_ERROR_TEXT_CHARS`].
    pub text: Option<String>,
}

impl std::fmt::Display for Refusal {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "Queen answered {}", self.status.as_u16())?;
        match &self.text {
            Some(text) => write!(f, ": {text}"),
            None => Ok(()),
        }
    }
}

/// Whether a failed call may have changed anything in Queen.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Effect {
    /// Certainly nothing: it never left, or Queen refused it as a whole.
    None,
    /// Not known. Only a repetition that Queen recognises as one is safe.
    Unknown,
}

/// The kinds of failure that callers answer differently.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Class {
    /// 401: Queen does not accept the credential.
    Unauthenticated,
    /// 403, 421: the credential may not do this here.
    Forbidden,
    /// 413: the body, or an item of it, is too large.
    TooLarge,
    /// 429: later, after `Retry-After`.
    Throttled,
    /// 404: what the call names, or the route itself, does not exist.
    NotFound,
    /// 400 and every other refusal that a repetition will meet again.
    Rejected,
    /// Certainly not applied, and a repetition may succeed: unreachable, busy, 503, 507.
    Unavailable,
    /// Effect not known: lost or late answer, 408, 500, 502, 504, unreadable.
    Unknown,
}

impl Class {
    /// All of them.
    pub const ALL: [Self; 8] = [
        Self::Unauthenticated,
        Self::Forbidden,
        Self::TooLarge,
        Self::Throttled,
        Self::NotFound,
        Self::Rejected,
        Self::Unavailable,
        Self::Unknown,
    ];
}

impl Error {
    /// The kind of failure.
    pub fn class(&self) -> Class {
        match self {
            Self::Unreachable(_) | Self::Busy => Class::Unavailable,
            Self::Unsendable(_) => Class::Rejected,
            Self::Lost(_) | Self::TimedOut(_) | Self::Unreadable(_) => Class::Unknown,
            Self::Refused(refusal) => match refusal.status.as_u16() {
                401 => Class::Unauthenticated,
                403 | 421 => Class::Forbidden,
                404 => Class::NotFound,
                408 => Class::Unknown,
                413 => Class::TooLarge,
                429 => Class::Throttled,
                503 | 507 => Class::Unavailable,
                400..=499 => Class::Rejected,
                _ => Class::Unknown,
            },
        }
    }

    /// Whether the call may have been applied.
    pub fn effect(&self) -> Effect {
        match self.class() {
            Class::Unknown => Effect::Unknown,
            _ => Effect::None,
        }
    }

    /// Whether the same call may succeed later without anybody changing anything.
    pub fn is_transient(&self) -> bool {
        matches!(
            self.class(),
            Class::Throttled | Class::Unavailable | Class::Unknown
        )
    }

    /// How long Queen asked to wait.
    pub fn retry_after(&self) -> Option<Duration> {
        match self {
            Self::Refused(refusal) => refusal.retry_after,
            _ => None,
        }
    }

    /// The machine-readable reason of a refusal.
    pub fn code(&self) -> Option<&str> {
        match self {
            Self::Refused(refusal) => refusal.code.as_deref(),
            _ => None,
        }
    }

    /// The server's own sentence, safe to hand to a client.
    pub fn server_text(&self) -> Option<&str> {
        match self {
            Self::Refused(refusal) => refusal.text.as_deref(),
            _ => None,
        }
    }

    /// An [`Error::Unreadable`] that says what was expected.
    pub(crate) fn unreadable(what: impl std::fmt::Display) -> Self {
        Self::Unreadable(scrub(&what.to_string()))
    }
}

/// Makes a server's text printable: what a terminal only shows, runs of white space as one space, the
/// rest cut to [`MAX_ERROR_TEXT_CHARS`].
pub fn scrub(text: &str) -> String {
    let mut clean = String::new();
    let mut room = MAX_ERROR_TEXT_CHARS;
    for character in visible(text) {
        if room == 0 {
            break;
        }
        if !character.is_whitespace() {
            clean.push(character);
            room -= 1;
        } else if !clean.is_empty() && !clean.ends_with(' ') {
            clean.push(' ');
            room -= 1;
        }
    }
    clean.truncate(clean.trim_end().len());
    clean
}

#[cfg(test)]
mod tests {
    use super::*;
    use rstest::rstest;

    #[rstest]
    #[case::plain("forbidden", "forbidden")]
    #[case::colour("\u{1b}[31mred\u{1b}[0m text", "red text")]
    #[case::lines("  one\r\n\ttwo ", "one two")]
    fn scrubs(#[case] dirty: &str, #[case] clean: &str) {
        assert_eq!(scrub(dirty), clean);
    }

    #[test]
    fn cuts_at_characters_not_bytes() {
        let text = "é".repeat(1000);
        assert_eq!(scrub(&text).chars().count(), MAX_ERROR_TEXT_CHARS);
    }

    #[rstest]
    #[case(400, Class::Rejected, Effect::None)]
    #[case(401, Class::Unauthenticated, Effect::None)]
    #[case(403, Class::Forbidden, Effect::None)]
    #[case(404, Class::NotFound, Effect::None)]
    #[case(408, Class::Unknown, Effect::Unknown)]
    #[case(409, Class::Rejected, Effect::None)]
    #[case(413, Class::TooLarge, Effect::None)]
    #[case(421, Class::Forbidden, Effect::None)]
    #[case(429, Class::Throttled, Effect::None)]
    #[case(500, Class::Unknown, Effect::Unknown)]
    #[case(502, Class::Unknown, Effect::Unknown)]
    #[case(503, Class::Unavailable, Effect::None)]
    #[case(504, Class::Unknown, Effect::Unknown)]
    #[case(507, Class::Unavailable, Effect::None)]
    #[case(302, Class::Unknown, Effect::Unknown)]
    fn a_status_has_one_class(#[case] status: u16, #[case] class: Class, #[case] effect: Effect) {
        let error = Error::Refused(Refusal {
            status: StatusCode::from_u16(status).expect("a status of the table"),
            retry_after: None,
            code: None,
            text: None,
        });
        assert_eq!((error.class(), error.effect()), (class, effect));
    }
}
