//! The lines around operations: the greeting, the bounds of a session, and the three kinds of answer.

use serde::{Deserialize, Serialize};

use crate::wire::Credentials;

/// The protocol's version. A driver that speaks another is not used.
pub const PROTOCOL: u32 = 1;

/// What is said outside of a session's operations.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(tag = "op", rename_all = "snake_case")]
pub enum Control {
    /// The first line. Answer: [`Hello`].
    Hello {
        /// [`PROTOCOL`].
        protocol: u32,
    },
    /// Begins a session. Answer: `{}`.
    Begin(Begin),
    /// Ends the session: everything that is open is closed. Answer: `{}`.
    End,
}

/// How a driver introduces itself.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Hello {
    /// The protocol's version that it speaks.
    pub protocol: u32,
    /// The client's name, as its makers write it: `kafka-clients`.
    pub client: String,
    /// Its version, asked of the client itself where it tells.
    pub version: String,
    /// See [`super::Capabilities`].
    pub can: Vec<String>,
}

/// What all clients of a session are configured with.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Begin {
    /// `host:port`.
    pub bootstrap: String,
    /// The client id of each request.
    pub client_id: String,
    /// TLS, when asked for.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub tls: Option<Tls>,
    /// SASL, when asked for.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub sasl: Option<Sasl>,
}

/// How to speak TLS.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Tls {
    /// A PEM file with the certificates to trust.
    pub ca_file: String,
}

/// Who to be.
#[derive(Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Sasl {
    /// `PLAIN`, `SCRAM-SHA-256`, `SCRAM-SHA-512`.
    pub mechanism: String,
    /// User name.
    pub username: String,
    /// Password, of a user that only the check knows.
    pub password: String,
}

impl Sasl {
    /// By PLAIN.
    pub fn plain(who: &Credentials) -> Self {
        Self {
            mechanism: "PLAIN".into(),
            username: who.username.clone(),
            password: who.password.expose().clone(),
        }
    }
}

/// Without the password.
impl std::fmt::Debug for Sasl {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Sasl")
            .field("mechanism", &self.mechanism)
            .field("username", &self.username)
            .finish_non_exhaustive()
    }
}

/// The line that answers a line.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Answer {
    /// It is done; the operation says with what.
    Ok(serde_json::Value),
    /// The client reported a failure.
    Error {
        /// The Kafka error code's name where the client tells it: `TOPIC_ALREADY_EXISTS`.
        #[serde(default)]
        code: Option<String>,
        /// The client's own words.
        message: String,
    },
    /// The client has no way to do it; why.
    Unsupported(String),
}

#[cfg(test)]
mod tests {
    use super::{Answer, Begin, Control};

    #[test]
    fn lines_are_as_documented() {
        let line = |control: &Control| serde_json::to_string(control).unwrap();
        assert_eq!(
            line(&Control::Hello { protocol: 1 }),
            r#"{"op":"hello","protocol":1}"#
        );
        assert_eq!(line(&Control::End), r#"{"op":"end"}"#);
        assert_eq!(
            line(&Control::Begin(Begin {
                bootstrap: "h:1".into(),
                client_id: "c".into(),
                ..Begin::default()
            })),
            r#"{"op":"begin","bootstrap":"h:1","client_id":"c"}"#
        );
        for (text, answer) in [
            (r#"{"ok":{"a":1}}"#, Answer::Ok(serde_json::json!({"a": 1}))),
            (
                r#"{"error":{"message":"m"}}"#,
                Answer::Error {
                    code: None,
                    message: "m".into(),
                },
            ),
            (
                r#"{"unsupported":"no zstd"}"#,
                Answer::Unsupported("no zstd".into()),
            ),
        ] {
            assert_eq!(serde_json::from_str::<Answer>(text).unwrap(), answer);
        }
    }
}
