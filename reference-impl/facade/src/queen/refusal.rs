//! Reads what Queen, its proxy or a balancer before them say in a refusal.

use std::borrow::Cow;
use std::time::Duration;

use http::StatusCode;
use serde::Deserialize;

use super::error::{Refusal, scrub};

/// Longest machine-readable reason kept.
const MAX_CODE_BYTES: usize = 64;
/// Bytes of a body that is not the usual error object looked at for its text.
const MAX_PLAIN_TEXT_BYTES: usize = 1024;

#[derive(Deserialize)]
struct ErrorBody<'a> {
    #[serde(borrow, default)]
    error: Option<Cow<'a, str>>,
    #[serde(borrow, default)]
    code: Option<Cow<'a, str>>,
    #[serde(borrow, default)]
    reason: Option<Cow<'a, str>>,
    #[serde(borrow, default)]
    detail: Option<Cow<'a, str>>,
}

/// The refusal with this status, header and body.
pub(super) fn parse(status: StatusCode, retry_after: Option<Duration>, body: &[u8]) -> Refusal {
    let (code, text) = match serde_json::from_slice::<ErrorBody<'_>>(body) {
        Ok(body) => (code_of(&body), text_of(&body)),
        Err(_) => (None, plain_text(body)),
    };
    Refusal {
        status,
        retry_after,
        code,
        text: text.filter(|text| !text.is_empty()),
    }
}

/// The proxy's `code`; else `error` when it is a token (KV errors); else `reason` (bundles).
fn code_of(body: &ErrorBody<'_>) -> Option<String> {
    [&body.code, &body.error, &body.reason]
        .into_iter()
        .flatten()
        .find(|text| is_token(text))
        .map(|token| token.to_string())
}

fn text_of(body: &ErrorBody<'_>) -> Option<String> {
    let mut parts: Vec<&str> = Vec::new();
    for part in [&body.error, &body.reason, &body.detail]
        .into_iter()
        .flatten()
    {
        if !parts.contains(&part.as_ref()) {
            parts.push(part);
        }
    }
    (!parts.is_empty()).then(|| scrub(&parts.join(": ")))
}

fn is_token(text: &str) -> bool {
    !text.is_empty()
        && text.len() <= MAX_CODE_BYTES
        && text
            .bytes()
            .all(|byte| byte.is_ascii_lowercase() || byte.is_ascii_digit() || byte == b'_')
}

/// The text of a body that is not JSON, unless it is a page for a browser.
fn plain_text(body: &[u8]) -> Option<String> {
    let text = String::from_utf8_lossy(&body[..body.len().min(MAX_PLAIN_TEXT_BYTES)]);
    let text = text.trim_start();
    (!text.starts_with(['<', '{', '['])).then(|| scrub(text))
}

#[cfg(test)]
mod tests {
    use super::*;
    use rstest::rstest;

    #[rstest]
    #[case::broker(
        r#"{"error":"Insufficient permissions"}"#,
        None,
        Some("Insufficient permissions")
    )]
    #[case::proxy(
        r#"{"error":"slow down","code":"rate_limited"}"#,
        Some("rate_limited"),
        Some("slow down")
    )]
    #[case::kv(
        r#"{"error":"kv_bad_request","reason":"kv_bad_ttl","detail":"ttl"}"#,
        Some("kv_bad_request"),
        Some("kv_bad_request: kv_bad_ttl: ttl")
    )]
    #[case::bundle(
        r#"{"transactionId":"x","success":false,"reason":"kv_unavailable","error":"Store is away","results":[]}"#,
        Some("kv_unavailable"),
        Some("kv_unavailable")
    )]
    #[case::plain("Payload Too Large", None, Some("Payload Too Large"))]
    #[case::page("<html><body>502</body></html>", None, None)]
    #[case::empty("", None, None)]
    #[case::wrong_types(r#"{"error":{"deep":1}}"#, None, None)]
    #[case::not_an_object("[1,2]", None, None)]
    #[case::controls(r#"{"error":"a\u001b[31mb\u0000c"}"#, None, Some("abc"))]
    fn reads(#[case] body: &str, #[case] code: Option<&str>, #[case] text: Option<&str>) {
        let refusal = parse(StatusCode::FORBIDDEN, None, body.as_bytes());
        assert_eq!(refusal.code.as_deref(), code);
        match (refusal.text.as_deref(), text) {
            // A bundle's token comes first, its sentence is kept behind it.
            (Some(seen), Some(wanted)) => assert!(seen.contains(wanted), "{seen}"),
            (seen, wanted) => assert_eq!(seen, wanted),
        }
    }

    #[test]
    fn invalid_utf8_is_not_an_error() {
        let refusal = parse(StatusCode::BAD_GATEWAY, None, b"\xff\xfe gone");
        assert!(refusal.text.is_some_and(|text| text.ends_with("gone")));
    }
}
