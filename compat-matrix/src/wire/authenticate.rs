//! SASL/PLAIN as a client speaks it: SaslHandshake v1 and SaslAuthenticate v1, which every broker since
//! Kafka 2.2 has (KIP-152, KIP-368).

use std::io;

use bytes::{Buf as _, BufMut as _, Bytes};
use kafka_wire::header::put_request_header;
use kafka_wire::{ApiKey, ErrorCode};

use super::access::Credentials;
use super::connection::{ANSWER_WITHIN, Connection, Reply};

/// What the requests are called; no request that is under test has it.
const CORRELATION: i32 = 0x5a51;
const CLIENT_ID: &str = "compat-matrix";

/// Why nobody was authenticated.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum AuthenticateError {
    /// The server says no.
    #[error("{}: {message}", name(*code))]
    Refused {
        /// Kafka's error code.
        code: i16,
        /// The server's words.
        message: String,
    },
    /// It says nothing that can be read.
    #[error("no answer to the authentication: {0}")]
    Broken(String),
}

fn name(code: i16) -> String {
    ErrorCode::from_code(code).map_or_else(|| code.to_string(), |code| code.name().to_owned())
}

impl From<AuthenticateError> for io::Error {
    fn from(error: AuthenticateError) -> Self {
        Self::new(io::ErrorKind::PermissionDenied, error)
    }
}

fn broken(what: impl ToString) -> AuthenticateError {
    AuthenticateError::Broken(what.to_string())
}

/// The frame of SaslHandshake v1.
pub fn handshake_frame(mechanism: &str) -> Vec<u8> {
    let mut frame = Vec::new();
    put_request_header(
        &mut frame,
        ApiKey::SASL_HANDSHAKE,
        1,
        CORRELATION,
        Some(CLIENT_ID),
    );
    // A mechanism's name is a few letters.
    frame.put_i16(mechanism.len() as i16);
    frame.put_slice(mechanism.as_bytes());
    frame
}

/// The frame of SaslAuthenticate v1 with PLAIN's one message.
///
/// # Errors
///
/// A password of 2 GiB.
pub fn plain_frame(who: &Credentials) -> io::Result<Vec<u8>> {
    let message = format!("\0{}\0{}", who.username, who.password.expose());
    let length = i32::try_from(message.len()).map_err(io::Error::other)?;
    let mut frame = Vec::new();
    put_request_header(
        &mut frame,
        ApiKey::SASL_AUTHENTICATE,
        1,
        CORRELATION,
        Some(CLIENT_ID),
    );
    frame.put_i32(length);
    frame.put_slice(message.as_bytes());
    Ok(frame)
}

impl Connection {
    /// Authenticates, or does it again; answers the session's lifetime in milliseconds, 0 for no end.
    ///
    /// # Errors
    ///
    /// [`AuthenticateError`].
    pub async fn authenticate(&mut self, who: &Credentials) -> Result<i64, AuthenticateError> {
        let mut answer = self.told(&handshake_frame("PLAIN")).await?;
        code(&mut answer, "SaslHandshake")?;
        let frame = plain_frame(who).map_err(broken)?;
        let mut answer = self.told(&frame).await?;
        // Message, bytes of the mechanism, lifetime.
        code(&mut answer, "")?;
        let message = answer.try_get_i16().map_err(broken)?;
        skip(&mut answer, i32::from(message))?;
        let bytes = answer.try_get_i32().map_err(broken)?;
        skip(&mut answer, bytes)?;
        answer.try_get_i64().map_err(broken)
    }

    /// One request, and its answer behind the correlation id.
    async fn told(&mut self, frame: &[u8]) -> Result<Bytes, AuthenticateError> {
        self.send(frame).await.map_err(broken)?;
        match self.reply(ANSWER_WITHIN).await {
            Reply::Frame(mut answer) if answer.starts_with(&CORRELATION.to_be_bytes()) => {
                answer.advance(4);
                Ok(answer)
            }
            Reply::Frame(_) => Err(broken("it is another's")),
            Reply::Closed(how) => Err(broken(how)),
            Reply::Silence => Err(broken("it did not come")),
        }
    }
}

/// Reads the code; one that is an error is followed by a message, or by something else where `silent`
/// says what it is of.
fn code(answer: &mut Bytes, silent: &str) -> Result<(), AuthenticateError> {
    let code = answer.try_get_i16().map_err(broken)?;
    if code == 0 {
        return Ok(());
    }
    let message = if silent.is_empty() {
        let length = usize::try_from(answer.try_get_i16().map_err(broken)?).unwrap_or_default();
        let said = answer.get(..length).unwrap_or_default();
        String::from_utf8_lossy(said).into_owned()
    } else {
        silent.to_owned()
    };
    Err(AuthenticateError::Refused { code, message })
}

fn skip(answer: &mut Bytes, length: i32) -> Result<(), AuthenticateError> {
    let length = usize::try_from(length).unwrap_or_default();
    if answer.len() < length {
        return Err(broken("it is cut short"));
    }
    answer.advance(length);
    Ok(())
}
