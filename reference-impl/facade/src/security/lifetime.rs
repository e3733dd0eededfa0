//! How long a bearer lasts, as it says itself.

use serde::Deserialize;

/// The longest token that is looked into.
const MAX_TOKEN_BYTES: usize = 16 * 1024;

#[derive(Deserialize)]
struct Claims {
    #[serde(default)]
    exp: Option<f64>,
}

/// The `exp` of a JWT (RFC 7519), in milliseconds since the epoch; `None` for any other token.
///
/// Nothing is verified: Queen does that. It only tells a client when to authenticate again, so a
/// forged one harms nobody but its owner.
pub fn expiry(bearer: &str) -> Option<i64> {
    if bearer.len() > MAX_TOKEN_BYTES {
        return None;
    }
    let mut parts = bearer.split('.');
    let (Some(_), Some(claims), Some(_), None) =
        (parts.next(), parts.next(), parts.next(), parts.next())
    else {
        return None;
    };
    let claims = base64_simd::URL_SAFE_NO_PAD.decode_to_vec(claims).ok()?;
    let Claims { exp } = serde_json::from_slice(&claims).ok()?;
    // A cast saturates: a date beyond all dates is one.
    exp.filter(|exp| *exp > 0.0)
        .map(|exp| (exp * 1000.0) as i64)
}

#[cfg(test)]
mod tests {
    use rstest::rstest;

    use super::*;

    fn jwt(claims: &str) -> String {
        let claims = base64_simd::URL_SAFE_NO_PAD.encode_to_string(claims);
        format!("eyJhbGciOiJIUzI1NiJ9.{claims}.c2ln")
    }

    #[rstest]
    #[case(r#"{"exp":1700000000}"#, Some(1_700_000_000_000))]
    #[case(r#"{"exp":1700000000.5,"sub":"a"}"#, Some(1_700_000_000_500))]
    #[case(r#"{"exp":1e300}"#, Some(i64::MAX))]
    #[case(r#"{"exp":0}"#, None)]
    #[case(r#"{"exp":-5}"#, None)]
    #[case(r#"{"exp":"soon"}"#, None)]
    #[case(r#"{"sub":"a"}"#, None)]
    #[case("[]", None)]
    fn exp_is_read(#[case] claims: &str, #[case] expected: Option<i64>) {
        assert_eq!(expiry(&jwt(claims)), expected);
    }

    #[rstest]
    #[case("opaque")]
    #[case("a.b.c.d")]
    #[case("..")]
    #[case("a.\u{e4}.c")]
    fn other_tokens_do_not_say(#[case] token: &str) {
        assert_eq!(expiry(token), None);
        assert_eq!(
            expiry(&format!("{}.{token}.", "x".repeat(MAX_TOKEN_BYTES))),
            None
        );
    }
}
