//! Which names a topic may have.

/// Longest topic name.
pub const MAX_NAME_CHARS: usize = 249;
/// Names that begin so are hidden from Kafka clients.
const INTERNAL_PREFIX: &str = "__";

/// Why a name is none of a topic.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum NameError {
    /// Kafka itself refuses it.
    #[error("{0}")]
    Illegal(&'static str),
    /// Legal, but kept from Kafka clients: such a queue counts as absent.
    #[error("names that begin with \"__\" are reserved")]
    Internal,
}

/// Checks a topic name by Kafka's rule: 1 to [`MAX_NAME_CHARS`] of `[A-Za-z0-9._-]`, not `.` or
/// `..`; and keeps names that begin with `__` from clients.
///
/// # Errors
///
/// [`NameError`].
pub fn check_name(name: &str) -> Result<(), NameError> {
    if name.is_empty() {
        return Err(NameError::Illegal("Topic name is empty"));
    }
    if name == "." || name == ".." {
        return Err(NameError::Illegal("Topic name cannot be \".\" or \"..\""));
    }
    if name.len() > MAX_NAME_CHARS {
        return Err(NameError::Illegal(
            "Topic name is longer than 249 characters",
        ));
    }
    let legal = |byte: u8| byte.is_ascii_alphanumeric() || matches!(byte, b'.' | b'_' | b'-');
    if !name.bytes().all(legal) {
        return Err(NameError::Illegal(
            "Topic name has characters other than ASCII letters, digits, '.', '_' and '-'",
        ));
    }
    if name.starts_with(INTERNAL_PREFIX) {
        return Err(NameError::Internal);
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;
    use rstest::rstest;

    #[rstest]
    #[case("orders")]
    #[case("a")]
    #[case("...")]
    #[case("_x")]
    #[case("A.b_c-9")]
    fn legal(#[case] name: &str) {
        assert_eq!(check_name(name), Ok(()));
    }

    #[test]
    fn the_longest_is_249() {
        assert_eq!(check_name(&"x".repeat(249)), Ok(()));
        assert!(matches!(
            check_name(&"x".repeat(250)),
            Err(NameError::Illegal(_))
        ));
    }

    #[rstest]
    #[case("")]
    #[case(".")]
    #[case("..")]
    #[case("a b")]
    #[case("a/b")]
    #[case("a:b")]
    #[case("é")]
    #[case("a\0")]
    fn illegal(#[case] name: &str) {
        assert!(matches!(check_name(name), Err(NameError::Illegal(_))));
    }

    #[rstest]
    #[case("__")]
    #[case("__consumer_offsets")]
    fn internal(#[case] name: &str) {
        assert_eq!(check_name(name), Err(NameError::Internal));
    }
}
