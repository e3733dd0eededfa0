//! SaslHandshake, versions 0 and 1.
//!
//! - PLAIN is the one mechanism; another is `UNSUPPORTED_SASL_MECHANISM` with the list, and the
//!   client may try again.
//! - `ILLEGAL_SASL_STATE` on a listener without SASL, and where no handshake is due: without the list.
//! - On a connection that has authenticated it begins re-authentication (KIP-368).
//!
//! v0 is followed by the bare message of the mechanism, v1 by SaslAuthenticate (KIP-152).

use kafka_protocol::messages::{SaslHandshakeRequest, SaslHandshakeResponse};
use kafka_protocol::protocol::StrBytes;
use kafka_wire::ErrorCode;

use crate::context::Context;
use crate::security::PLAIN;

/// Answers a SaslHandshake request.
pub async fn handle(cx: &Context, request: SaslHandshakeRequest) -> SaslHandshakeResponse {
    let authentication = &cx.session.authentication;
    let code = match authentication.handshake(cx.version, &request.mechanism) {
        Ok(()) => ErrorCode::None,
        Err(code) => code,
    };
    let mechanisms: &[&'static str] = match code {
        ErrorCode::IllegalSaslState => &[],
        _ => &[PLAIN],
    };
    let mechanisms = mechanisms.iter().copied().map(StrBytes::from_static_str);
    SaslHandshakeResponse::default()
        .with_error_code(code.code())
        .with_mechanisms(mechanisms.collect())
}
