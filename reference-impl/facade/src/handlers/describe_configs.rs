//! DescribeConfigs (key 32), versions 1–4.
//!
//! * Topics: every config of `topics::CONFIGS`, with Kafka's sources and synonyms. A topic that was
//!   not created through Kafka shows read-only rows.
//! * Retention is shown as it is in force, asked of Queen (1.6 and later), so a change made with
//!   Queen's own clients is seen.
//! * Brokers: only this node (by its id, or the empty name for the cluster's default, which sets
//!   nothing); rows of what is really enforced, read-only.
//! * Other resource types are `INVALID_REQUEST`. No key list, or an empty one, means all keys.
//! * A thousand resources per request; the others are `REQUEST_TIMED_OUT`.
//!
//! v1: synonyms and sources. v3: types and documentation. v4: flexible.

use futures::{FutureExt, StreamExt};
use kafka_protocol::messages::describe_configs_request::DescribeConfigsResource;
use kafka_protocol::messages::describe_configs_response::{
    DescribeConfigsResourceResult, DescribeConfigsResult, DescribeConfigsSynonym,
};
use kafka_protocol::messages::{DescribeConfigsRequest, DescribeConfigsResponse};
use kafka_protocol::protocol::StrBytes;
use kafka_wire::error_code::ErrorCode;

use crate::catalogue::View;
use crate::context::Context;
use crate::topics::broker::broker_rows;
use crate::topics::{ConfigRow, Settings, TopicRecord, topic_rows};
use crate::upstream_errors::{self, Answer, Api};

use super::configs::{BROKER, TOPIC, names_this_node, refuse};

/// Resources of one request.
const MAX_RESOURCES: usize = 1000;
/// Queues whose options are asked for at the same time.
const CALLS_AT_ONCE: usize = 8;
/// The first version with types and documentation.
const FIRST_WITH_TYPES: i16 = 3;

/// Answers a DescribeConfigs request.
pub async fn handle(cx: &Context, request: DescribeConfigsRequest) -> DescribeConfigsResponse {
    let session = &cx.session;
    let view = if request
        .resources
        .iter()
        .any(|resource| resource.resource_type == TOPIC)
    {
        cx.node
            .catalogue
            .view(&session.scope, &session.credential)
            .await
    } else {
        View::default()
    };
    let (described, left_over) = request
        .resources
        .split_at(request.resources.len().min(MAX_RESOURCES));
    let calls: Vec<_> = described
        .iter()
        .map(|resource| describe(cx, &view, resource).boxed())
        .collect();
    let mut outcomes: Vec<Result<Vec<ConfigRow>, Answer>> = futures::stream::iter(calls)
        .buffered(CALLS_AT_ONCE)
        .collect()
        .await;
    outcomes.extend(left_over.iter().map(|_| {
        Err(refuse(
            ErrorCode::RequestTimedOut,
            "One request describes 1000 resources; send the others again.",
        ))
    }));
    let results = request
        .resources
        .iter()
        .zip(outcomes)
        .map(|(resource, outcome)| {
            let result = DescribeConfigsResult::default()
                .with_resource_type(resource.resource_type)
                .with_resource_name(resource.resource_name.clone())
                .with_error_message(None);
            match outcome {
                Ok(rows) => result.with_configs(
                    rows.into_iter()
                        .filter(|row| wanted(resource, row.name))
                        .map(|row| wire_row(cx.version, &request, row))
                        .collect(),
                ),
                Err(answer) => result
                    .with_error_code(answer.code.code())
                    .with_error_message(Some(StrBytes::from_string(answer.message))),
            }
        })
        .collect();
    DescribeConfigsResponse::default().with_results(results)
}

fn wanted(resource: &DescribeConfigsResource, name: &str) -> bool {
    match &resource.configuration_keys {
        Some(keys) if !keys.is_empty() => keys.iter().any(|key| &**key == name),
        _ => true,
    }
}

async fn describe(
    cx: &Context,
    view: &View,
    resource: &DescribeConfigsResource,
) -> Result<Vec<ConfigRow>, Answer> {
    match resource.resource_type {
        TOPIC => describe_topic(cx, view, &resource.resource_name).await,
        // What the cluster sets for every broker: nothing.
        BROKER if resource.resource_name.is_empty() => Ok(Vec::new()),
        BROKER if names_this_node(cx, &resource.resource_name) => Ok(broker_rows(&cx.node.config)),
        BROKER => Err(refuse(
            ErrorCode::InvalidRequest,
            format!("Unexpected broker id, expected {}.", cx.node.node_id.0),
        )),
        other => Err(refuse(
            ErrorCode::InvalidRequest,
            format!("Resources of type {other} have no configs here."),
        )),
    }
}

async fn describe_topic(cx: &Context, view: &View, name: &str) -> Result<Vec<ConfigRow>, Answer> {
    let lookup = view.lookup(name);
    let topic = upstream_errors::found(Api::Configs, cx.version, &lookup)?;
    let untracked = TopicRecord::default();
    let mut record = topic.tracked().unwrap_or(&untracked).clone();
    let options = cx
        .node
        .queen
        .queue_options(&cx.session.credential, name)
        .await;
    match options {
        Ok(Some(options)) => {
            for option in ["retentionEnabled", "retentionSeconds"] {
                if let Some(value) = options.get(option) {
                    record.set.insert(option.into(), value.clone());
                }
            }
        }
        Ok(None) => {}
        // The record still says what was asked for.
        Err(error) => tracing::debug!(%error, topic = name, "a queue's options could not be read"),
    }
    Ok(topic_rows(
        &Settings::of(&record),
        topic.tracked().is_none(),
        &cx.node.config,
    ))
}

fn wire_row(
    version: i16,
    request: &DescribeConfigsRequest,
    row: ConfigRow,
) -> DescribeConfigsResourceResult {
    let mut wire = DescribeConfigsResourceResult::default()
        .with_name(StrBytes::from_static_str(row.name))
        .with_value(Some(StrBytes::from_string(row.value)))
        .with_read_only(row.read_only)
        .with_config_source(row.source as i8)
        .with_documentation(None);
    if request.include_synonyms {
        let synonyms = row.synonyms.into_iter().map(|synonym| {
            DescribeConfigsSynonym::default()
                .with_name(StrBytes::from_static_str(synonym.name))
                .with_value(Some(StrBytes::from_string(synonym.value)))
                .with_source(synonym.source as i8)
        });
        wire = wire.with_synonyms(synonyms.collect());
    }
    if version >= FIRST_WITH_TYPES {
        wire = wire.with_config_type(row.kind as i8);
        if request.include_documentation {
            wire = wire.with_documentation(Some(StrBytes::from_static_str(row.documentation)));
        }
    }
    wire
}
