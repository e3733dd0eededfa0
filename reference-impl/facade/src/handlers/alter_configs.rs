//! AlterConfigs (key 33), versions 0–2.
//!
//! * Topics created through Kafka only. The configs given replace all that the topic had: what is
//!   not named gets its default. IncrementalAlterConfigs is the gentle one.
//! * Unknown configs and values are `INVALID_CONFIG`, with the reason; nothing of that resource is
//!   altered then. A null value is `INVALID_REQUEST`.
//! * Broker configs are `INVALID_CONFIG`, other resource types and a resource named twice
//!   `INVALID_REQUEST`; with `QUEEN_KAFKA_ADMIN=false` topics are `POLICY_VIOLATION`.
//!
//! v2: flexible.

use kafka_protocol::messages::alter_configs_response::AlterConfigsResourceResponse;
use kafka_protocol::messages::{AlterConfigsRequest, AlterConfigsResponse};
use kafka_protocol::protocol::StrBytes;

use super::configs::{Refused, alter_topic, check_resource};
use crate::context::Context;
use crate::topics::{Edit, Settings};
use crate::upstream_errors::Answer;

/// Answers an AlterConfigs request.
pub async fn handle(cx: &Context, request: AlterConfigsRequest) -> AlterConfigsResponse {
    let session = &cx.session;
    let view = cx
        .node
        .catalogue
        .view(&session.scope, &session.credential)
        .await;
    let mut responses = Vec::with_capacity(request.resources.len());
    for (at, resource) in request.resources.iter().enumerate() {
        let (kind, name) = (resource.resource_type, &resource.resource_name);
        let same = request
            .resources
            .iter()
            .filter(|other| other.resource_type == kind && other.resource_name == *name);
        let outcome = match check_resource(cx, kind, same.count() > 1, at) {
            Err(answer) => Err(answer),
            Ok(()) => {
                let configs = resource.configs.clone();
                let replace = move |settings: &mut Settings| {
                    let mut replaced = Settings::default();
                    for config in &configs {
                        let Some(value) = &config.value else {
                            return Err(Refused::Request("Null value not supported."));
                        };
                        replaced.edit(&config.name, Edit::Set(value))?;
                    }
                    *settings = replaced;
                    Ok(())
                };
                alter_topic(cx, &view, name, request.validate_only, replace).await
            }
        };
        responses.push(respond(kind, name, outcome));
    }
    AlterConfigsResponse::default().with_responses(responses)
}

fn respond(kind: i8, name: &StrBytes, outcome: Result<(), Answer>) -> AlterConfigsResourceResponse {
    let response = AlterConfigsResourceResponse::default()
        .with_resource_type(kind)
        .with_resource_name(name.clone())
        .with_error_message(None);
    match outcome {
        Ok(()) => response,
        Err(answer) => response
            .with_error_code(answer.code.code())
            .with_error_message(Some(StrBytes::from_string(answer.message))),
    }
}
