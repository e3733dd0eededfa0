//! ApiVersions (18). Versions outside the window, its special case, are asked by `outside`.

use kafka_wire::{ApiKey, ErrorCode};
use serde_json::{Value as Json, json};

use super::case::{Api, Case};

pub(super) fn api() -> Api {
    Api {
        key: ApiKey::API_VERSIONS,
        sample,
        legal: &[ErrorCode::UnsupportedVersion, ErrorCode::InvalidRequest],
        cases: cases(),
    }
}

fn sample() -> Json {
    json!({
        "ClientSoftwareName": "compat-matrix",
        "ClientSoftwareVersion": "1.0",
        "ClusterId": null,
        "NodeId": -1,
    })
}

fn cases() -> Vec<Case> {
    vec![
        Case::new("windows", "lists the same windows in every version", |p| async move {
            let windows: Vec<Json> = p
                .advertised
                .iter()
                .map(|w| json!({"ApiKey": w.key, "MinVersion": w.min, "MaxVersion": w.max}))
                .collect();
            let answer = p.ask(sample()).await?;
            answer.is(json!({"ErrorCode": "NONE", "ThrottleTimeMs": 0}))?;
            for window in &windows {
                answer.is(json!({"ApiKeys": {"<count>": windows.len(), "<some>": window}}))?;
            }
            Ok(())
        })
        .kips(&[35]),
        Case::new("again", "may be asked again on the same connection", |p| async move {
            p.ask(sample()).await?.is(json!({"ErrorCode": "NONE"}))?;
            p.ask(sample()).await?.is(json!({"ErrorCode": "NONE"}))
        }),
        Case::new("illegal-software", "refuses software names that could break a metric", |p| async move {
            for name in ["", "-x", "a b", "x-"] {
                p.ask(json!({"ClientSoftwareName": name, "ClientSoftwareVersion": "1.0", "NodeId": -1}))
                    .await?
                    .is(json!({"ErrorCode": "INVALID_REQUEST"}))?;
            }
            Ok(())
        })
        .from(3)
        .kips(&[511]),
    ]
}
