//! DescribeCluster (60).

use kafka_wire::{ApiKey, ErrorCode};
use serde_json::{Value as Json, json};

use super::case::{Api, Case};

/// Endpoint type of brokers; the other one is controllers.
const BROKERS: i8 = 1;
/// "Not asked for" of an authorized-operations field.
const NOT_ASKED: i64 = i32::MIN as i64;

pub(super) fn api() -> Api {
    Api {
        key: ApiKey::DESCRIBE_CLUSTER,
        sample: || request(BROKERS),
        legal: &[
            ErrorCode::InvalidRequest,
            ErrorCode::MismatchedEndpointType,
            ErrorCode::UnsupportedEndpointType,
            ErrorCode::ClusterAuthorizationFailed,
        ],
        cases: vec![
            Case::new("brokers", "names the brokers of the cluster", |p| async move {
                let answer = p.ask(request(BROKERS)).await?;
                answer.is(json!({
                    "ErrorCode": "NONE",
                    "ErrorMessage": null,
                    "EndpointType": BROKERS,
                    "ClusterId": "<not empty>",
                    "Brokers": {
                        "<each>": {"BrokerId": "<at least 0>", "Host": "<not empty>", "Port": "<at least 1>", "IsFenced": false},
                        "<some>": {"Host": "<not empty>"},
                    },
                    "ClusterAuthorizedOperations": NOT_ASKED,
                }))?;
                let cluster = answer.text("ClusterId")?;
                p.stage(ApiKey::METADATA, json!({"Topics": []})).await?.is(json!({"ClusterId": cluster}))
            })
            .kips(&[700]),
            Case::new("controllers", "tells a client of controllers that this is a broker", |p| async move {
                p.ask(request(2)).await?.is(json!({"ErrorCode": "MISMATCHED_ENDPOINT_TYPE"}))
            })
            .from(1)
            .kips(&[919]),
            Case::new("unknown-endpoints", "refuses endpoint types it does not know", |p| async move {
                p.ask(request(99)).await?.is(json!({"ErrorCode": "UNSUPPORTED_ENDPOINT_TYPE"}))
            })
            .from(1)
            .kips(&[919]),
        ],
    }
}

fn request(endpoints: i8) -> Json {
    json!({"IncludeClusterAuthorizedOperations": false, "EndpointType": endpoints})
}
