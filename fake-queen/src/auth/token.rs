//! JSON web tokens (RFC 7519) signed with HMAC. Pure.

use std::fmt;

use ring::hmac;
use serde::Deserialize;
use serde_json::{Value, json};

use super::level::Role;
use crate::http::error::ApiError;

/// The longest token that is looked into.
const MAX_TOKEN_BYTES: usize = 16 << 10;

/// The secret that tokens are signed with.
#[derive(Clone)]
pub struct Key(Box<[u8]>);

impl fmt::Debug for Key {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Key([secret])")
    }
}

/// What of a token's claims counts here.
#[derive(Debug, PartialEq, Eq)]
pub struct Claims {
    /// `role` and `roles`.
    pub roles: Vec<Role>,
}

#[derive(Deserialize)]
struct Header {
    alg: String,
}

#[derive(Deserialize)]
struct Body {
    #[serde(default)]
    exp: Option<f64>,
    #[serde(default)]
    nbf: Option<f64>,
    #[serde(default)]
    role: Option<Value>,
    #[serde(default)]
    roles: Vec<Value>,
}

impl Key {
    /// The key of `secret`.
    pub fn new(secret: &[u8]) -> Self {
        Self(secret.into())
    }

    /// A token with these claims, signed with HS256: `{"role": "admin", "exp": 1700000000}`.
    pub fn sign(&self, claims: &Value) -> String {
        let base64 = base64_simd::URL_SAFE_NO_PAD;
        let header = base64.encode_to_string(json!({"alg": "HS256", "typ": "JWT"}).to_string());
        let signed = format!("{header}.{}", base64.encode_to_string(claims.to_string()));
        let tag = hmac::sign(
            &hmac::Key::new(hmac::HMAC_SHA256, &self.0),
            signed.as_bytes(),
        );
        format!("{signed}.{}", base64.encode_to_string(tag))
    }

    /// The claims of `token`, when it is ours and of this time.
    ///
    /// # Errors
    /// [`ApiError::Unauthenticated`].
    pub fn verify(&self, token: &str, now_ms: i64) -> Result<Claims, ApiError> {
        let bad = || ApiError::Unauthenticated("Bad token header");
        if token.len() > MAX_TOKEN_BYTES {
            return Err(bad());
        }
        let (signed, tag) = token.rsplit_once('.').ok_or_else(bad)?;
        let (header, body) = signed.split_once('.').ok_or_else(bad)?;
        let base64 = base64_simd::URL_SAFE_NO_PAD;
        let decode = |part: &str| base64.decode_to_vec(part).map_err(|_| bad());
        let header: Header = serde_json::from_slice(&decode(header)?).map_err(|_| bad())?;
        let algorithm = match header.alg.as_str() {
            "HS256" => hmac::HMAC_SHA256,
            "HS384" => hmac::HMAC_SHA384,
            "HS512" => hmac::HMAC_SHA512,
            _ => return Err(ApiError::Unauthenticated("Unsupported token algorithm")),
        };
        let key = hmac::Key::new(algorithm, &self.0);
        hmac::verify(&key, signed.as_bytes(), &decode(tag)?)
            .map_err(|_| ApiError::Unauthenticated("Invalid token signature"))?;
        let body: Body = serde_json::from_slice(&decode(body)?).map_err(|_| bad())?;
        let now_s = now_ms as f64 / 1000.0;
        if body.exp.is_some_and(|exp| exp <= now_s) {
            return Err(ApiError::Unauthenticated("Token has expired"));
        }
        if body.nbf.is_some_and(|nbf| nbf > now_s) {
            return Err(ApiError::Unauthenticated("Token not yet valid"));
        }
        let named = body.role.into_iter().chain(body.roles);
        Ok(Claims {
            // A word that is no role gives no right.
            roles: named
                .filter_map(|role| serde_json::from_value(role).ok())
                .collect(),
        })
    }
}

#[cfg(test)]
mod tests {
    use rstest::rstest;

    use super::*;

    const NOW_MS: i64 = 1_700_000_000_000;

    fn said(token: &str) -> Result<Vec<Role>, String> {
        let verified = Key::new(b"secret").verify(token, NOW_MS);
        verified
            .map(|claims| claims.roles)
            .map_err(|error| error.to_string())
    }

    #[rstest]
    #[case(json!({"role": "admin"}), Ok(vec![Role::Admin]))]
    #[case(json!({"role": "none", "roles": ["read-only", 7, "write-only"]}),
        Ok(vec![Role::ReadOnly, Role::WriteOnly]))]
    #[case(json!({"exp": 1_700_000_001}), Ok(vec![]))]
    #[case(json!({"exp": 1_700_000_000}), Err("Token has expired"))]
    #[case(json!({"nbf": 1_700_000_001}), Err("Token not yet valid"))]
    fn claims_are_read(#[case] claims: Value, #[case] expected: Result<Vec<Role>, &str>) {
        let token = Key::new(b"secret").sign(&claims);
        assert_eq!(said(&token), expected.map_err(str::to_owned));
    }

    #[test]
    fn other_tokens_are_refused() {
        let theirs = Key::new(b"other").sign(&json!({"role": "admin"}));
        assert_eq!(said(&theirs), Err("Invalid token signature".into()));
        let base64 = base64_simd::URL_SAFE_NO_PAD;
        let none = base64.encode_to_string(r#"{"alg":"none"}"#);
        let none = format!("{none}.{}.", base64.encode_to_string("{}"));
        assert_eq!(said(&none), Err("Unsupported token algorithm".into()));
        for token in [
            "",
            "opaque",
            "a.b",
            "a.b.c",
            "..",
            &"x".repeat(MAX_TOKEN_BYTES + 1),
        ] {
            assert_eq!(said(token), Err("Bad token header".into()), "{token:.20}");
        }
    }
}
