//! SaslHandshake (17), on a listener that wants no credentials, and on one that has been given them.

use kafka_wire::{ApiKey, ErrorCode};
use serde_json::json;

use super::case::{Api, Case};

pub(super) fn api() -> Api {
    Api {
        key: ApiKey::SASL_HANDSHAKE,
        sample: || json!({"Mechanism": "PLAIN"}),
        legal: &[
            ErrorCode::UnsupportedSaslMechanism,
            ErrorCode::IllegalSaslState,
        ],
        cases: vec![
            Case::new(
                "plaintext",
                "wants no credentials on a plaintext listener",
                |p| async move {
                    p.ask(json!({"Mechanism": "PLAIN"}))
                        .await?
                        .is(json!({"ErrorCode": "ILLEGAL_SASL_STATE"}))
                },
            ),
            Case::new(
                "again",
                "begins a re-authentication, which needs version 1",
                |p| async move {
                    // Version 0 is followed by a message whose answer has no lifetime.
                    let code = if p.version == 0 {
                        "ILLEGAL_SASL_STATE"
                    } else {
                        "NONE"
                    };
                    p.ask(json!({"Mechanism": "PLAIN"}))
                        .await?
                        .is(json!({"ErrorCode": code}))
                },
            ),
        ],
    }
}
