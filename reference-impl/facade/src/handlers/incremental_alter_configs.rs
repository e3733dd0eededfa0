//! IncrementalAlterConfigs (key 44), versions 0–1.
//!
//! * Topics created through Kafka only. SET, DELETE (back to the default), and for lists APPEND and
//!   SUBTRACT; any other operation, a config named twice, and a SET without a value are
//!   `INVALID_REQUEST`.
//! * Unknown configs and values are `INVALID_CONFIG`, with the reason; nothing of that resource is
//!   altered then.
//! * Broker configs are `INVALID_CONFIG`, other resource types and a resource named twice
//!   `INVALID_REQUEST`; with `QUEEN_KAFKA_ADMIN=false` topics are `POLICY_VIOLATION`.
//!
//! v1: flexible.

use kafka_protocol::messages::incremental_alter_configs_request::AlterableConfig;
use kafka_protocol::messages::incremental_alter_configs_response::AlterConfigsResourceResponse;
use kafka_protocol::messages::{IncrementalAlterConfigsRequest, IncrementalAlterConfigsResponse};
use kafka_protocol::protocol::StrBytes;

use super::configs::{Refused, alter_topic, check_resource};
use crate::context::Context;
use crate::topics::{Edit, Settings};
use crate::upstream_errors::Answer;

const SET: i8 = 0;
const DELETE: i8 = 1;
const APPEND: i8 = 2;
const SUBTRACT: i8 = 3;

/// Answers an IncrementalAlterConfigs request.
pub async fn handle(
    cx: &Context,
    request: IncrementalAlterConfigsRequest,
) -> IncrementalAlterConfigsResponse {
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
                let edit = move |settings: &mut Settings| edit_all(settings, &configs);
                alter_topic(cx, &view, name, request.validate_only, edit).await
            }
        };
        responses.push(respond(kind, name, outcome));
    }
    IncrementalAlterConfigsResponse::default().with_responses(responses)
}

fn edit_all(settings: &mut Settings, configs: &[AlterableConfig]) -> Result<(), Refused> {
    for (at, config) in configs.iter().enumerate() {
        if configs[..at].iter().any(|other| other.name == config.name) {
            return Err(Refused::Request("A config is named more than once."));
        }
        let value = || {
            config
                .value
                .as_deref()
                .ok_or(Refused::Request("Null value not supported."))
        };
        let edit = match config.config_operation {
            SET => Edit::Set(value()?),
            DELETE => Edit::Delete,
            APPEND => Edit::Append(value()?),
            SUBTRACT => Edit::Subtract(value()?),
            _ => return Err(Refused::Request("There is no such config operation.")),
        };
        settings.edit(&config.name, edit)?;
    }
    Ok(())
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
