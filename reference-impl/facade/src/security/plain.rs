//! The one message of SASL/PLAIN (RFC 4616): `[authzid] NUL authcid NUL passwd`.

use host::Secret;

/// What a client says it is, and its proof.
#[derive(Debug, PartialEq, Eq)]
pub struct Plain {
    /// A label for logs: nothing here could check it.
    pub username: String,
    /// A Queen bearer token.
    pub password: Secret<String>,
}

/// Why the bytes are no PLAIN message. The texts are Kafka's.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum PlainError {
    /// Not three fields, or not UTF-8.
    #[error("Invalid SASL/PLAIN response: expected 3 tokens")]
    Shape,
    /// The second field is empty.
    #[error("Authentication failed: username not specified")]
    NoUsername,
    /// The third field is empty.
    #[error("Authentication failed: password not specified")]
    NoPassword,
    /// The client wants to act as somebody else.
    #[error(
        "Authentication failed: Client requested an authorization id that is different from username"
    )]
    OtherAuthorizationId,
}

impl Plain {
    /// Reads the message.
    ///
    /// # Errors
    ///
    /// [`PlainError`].
    pub fn parse(message: &[u8]) -> Result<Self, PlainError> {
        let text = std::str::from_utf8(message).map_err(|_| PlainError::Shape)?;
        let mut fields = text.split('\0');
        let (Some(authorization_id), Some(username), Some(password), None) =
            (fields.next(), fields.next(), fields.next(), fields.next())
        else {
            return Err(PlainError::Shape);
        };
        if username.is_empty() {
            return Err(PlainError::NoUsername);
        }
        if password.is_empty() {
            return Err(PlainError::NoPassword);
        }
        if !authorization_id.is_empty() && authorization_id != username {
            return Err(PlainError::OtherAuthorizationId);
        }
        Ok(Self {
            username: username.to_owned(),
            password: Secret::new(password.to_owned()),
        })
    }
}

#[cfg(test)]
mod tests {
    use rstest::rstest;

    use super::*;

    #[rstest]
    #[case(b"\0user\0token")]
    #[case(b"user\0user\0token")]
    fn a_message_is_read(#[case] message: &[u8]) {
        let plain = Plain::parse(message).unwrap();
        assert_eq!(plain.username, "user");
        assert_eq!(plain.password.expose(), "token");
        assert!(!format!("{plain:?}").contains("token"));
    }

    #[rstest]
    #[case(b"", PlainError::Shape)]
    #[case(b"user\0token", PlainError::Shape)]
    #[case(b"\0user\0token\0", PlainError::Shape)]
    #[case(b"\0user\0\xff", PlainError::Shape)]
    #[case(b"\0\0token", PlainError::NoUsername)]
    #[case(b"\0user\0", PlainError::NoPassword)]
    #[case(b"admin\0user\0token", PlainError::OtherAuthorizationId)]
    fn other_messages_are_refused(#[case] message: &[u8], #[case] why: PlainError) {
        assert_eq!(Plain::parse(message), Err(why));
    }
}
