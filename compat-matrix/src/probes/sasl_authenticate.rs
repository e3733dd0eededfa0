//! SaslAuthenticate (36), on a listener that wants no credentials.

use kafka_wire::{ApiKey, ErrorCode};
use serde_json::json;

use super::case::{Api, Case};

pub(super) fn api() -> Api {
    Api {
        key: ApiKey::SASL_AUTHENTICATE,
        // Base64 of `\0user\0token`.
        sample: || json!({"AuthBytes": "AHVzZXIAdG9rZW4="}),
        legal: &[
            ErrorCode::IllegalSaslState,
            ErrorCode::SaslAuthenticationFailed,
        ],
        cases: vec![Case::new(
            "plaintext",
            "wants no credentials on a plaintext listener",
            |p| async move {
                p.ask(json!({"AuthBytes": "AHVzZXIAdG9rZW4="}))
                    .await?
                    .is(json!({"ErrorCode": "ILLEGAL_SASL_STATE"}))
            },
        )],
    }
}
