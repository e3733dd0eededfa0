//! SaslHandshake (17), on a listener that wants no credentials.

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
        cases: vec![Case::new(
            "plaintext",
            "wants no credentials on a plaintext listener",
            |p| async move {
                p.ask(json!({"Mechanism": "PLAIN"}))
                    .await?
                    .is(json!({"ErrorCode": "ILLEGAL_SASL_STATE"}))
            },
        )],
    }
}
