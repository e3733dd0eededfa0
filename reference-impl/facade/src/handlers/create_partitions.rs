//! CreatePartitions (key 37), versions 0–3.
//!
//! * Raises the declared width (the floor) of a topic that was created through Kafka. The floor
//!   only grows, and every facade of the deployment sees it within thirty seconds.
//! * The same number or fewer is `INVALID_PARTITIONS`, as is more than 100,000; so is a native
//!   queue, which declares no width.
//! * Manual assignments are accepted when they place each new partition on this node alone.
//! * A topic named twice is `INVALID_REQUEST`. 100 topics per request; the others are
//!   `THROTTLING_QUOTA_EXCEEDED` (before v3 `REQUEST_TIMED_OUT`).
//!
//! v2: flexible. v3: quota code.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use kafka_protocol::messages::create_partitions_request::CreatePartitionsTopic;
use kafka_protocol::messages::create_partitions_response::CreatePartitionsTopicResult;
use kafka_protocol::messages::{CreatePartitionsRequest, CreatePartitionsResponse};
use kafka_protocol::protocol::StrBytes;
use kafka_wire::error_code::ErrorCode;
use serde_json::{Map, Value};

use crate::catalogue::{AlterError, Topic, View};
use crate::context::Context;
use crate::topics::MAX_PARTITIONS;
use crate::upstream_errors::{self, Answer, Api};

/// Topics of one request.
const MAX_TOPICS: usize = 100;
/// The first version whose clients know the quota code.
const FIRST_WITH_QUOTA: i16 = 3;

/// Answers a CreatePartitions request.
pub async fn handle(cx: &Context, request: CreatePartitionsRequest) -> CreatePartitionsResponse {
    let session = &cx.session;
    let view = cx
        .node
        .catalogue
        .fresh_view(&session.scope, &session.credential)
        .await;
    let mut named: BTreeMap<&str, usize> = BTreeMap::new();
    for topic in &request.topics {
        *named.entry(topic.name.as_str()).or_default() += 1;
    }
    let mut throttle_ms = 0;
    let mut results = Vec::with_capacity(request.topics.len());
    for (at, asked) in request.topics.iter().enumerate() {
        let twice = named
            .get(asked.name.as_str())
            .is_some_and(|&times| times > 1);
        let outcome = match &view {
            _ if twice => Err(refuse(
                ErrorCode::InvalidRequest,
                "The topic is named more than once.",
            )),
            _ if at >= MAX_TOPICS => Err(refuse(
                if cx.version >= FIRST_WITH_QUOTA {
                    ErrorCode::ThrottlingQuotaExceeded
                } else {
                    ErrorCode::RequestTimedOut
                },
                "One request widens 100 topics; send the others again.",
            )),
            Err(error) => Err(failed(cx, error)),
            Ok(view) => widen(cx, view, asked, request.validate_only).await,
        };
        let result = CreatePartitionsTopicResult::default()
            .with_name(asked.name.clone())
            .with_error_message(None);
        results.push(match outcome {
            Ok(()) => result,
            Err(answer) => {
                throttle_ms = throttle_ms.max(answer.throttle_ms());
                result
                    .with_error_code(answer.code.code())
                    .with_error_message(Some(StrBytes::from_string(answer.message)))
            }
        });
    }
    CreatePartitionsResponse::default()
        .with_throttle_time_ms(throttle_ms)
        .with_results(results)
}

fn refuse(code: ErrorCode, message: impl Into<String>) -> Answer {
    Answer {
        code,
        throttle: Duration::ZERO,
        message: message.into(),
    }
}

fn failed(cx: &Context, error: &crate::queen::Error) -> Answer {
    upstream_errors::answer(Api::CreatePartitions, cx.version, error)
}

async fn widen(
    cx: &Context,
    view: &View,
    asked: &CreatePartitionsTopic,
    validate_only: bool,
) -> Result<(), Answer> {
    let lookup = view.lookup(&asked.name);
    let topic = upstream_errors::found(Api::CreatePartitions, cx.version, &lookup)?;
    judge(cx, topic, asked)?;
    if topic.tracked().is_none() {
        return Err(native());
    }
    if validate_only {
        return Ok(());
    }
    let count = asked.count;
    let session = &cx.session;
    let altered = cx
        .node
        .catalogue
        .alter(&session.scope, &session.credential, topic, move |record| {
            // Another facade may have been faster; a floor only grows.
            match record.partitions {
                Some(now) if now >= count => Err(now),
                _ => {
                    record.partitions = Some(count);
                    Ok(Map::<String, Value>::new())
                }
            }
        })
        .await;
    match altered {
        Ok(Ok(())) => Ok(()),
        Ok(Err(now)) => Err(too_few(now, count)),
        Err(error @ AlterError::Deleting) => Err(refuse(
            ErrorCode::UnknownTopicOrPartition,
            error.to_string(),
        )),
        Err(AlterError::Untracked) => Err(native()),
        Err(AlterError::Queen(error)) => Err(failed(cx, &error)),
    }
}

fn judge(cx: &Context, topic: &Arc<Topic>, asked: &CreatePartitionsTopic) -> Result<(), Answer> {
    if asked.count <= topic.partitions {
        return Err(too_few(topic.partitions, asked.count));
    }
    if asked.count > MAX_PARTITIONS {
        return Err(refuse(
            ErrorCode::InvalidPartitions,
            format!("A topic has at most {MAX_PARTITIONS} partitions."),
        ));
    }
    if let Some(assignments) = &asked.assignments {
        let added = usize::try_from(asked.count - topic.partitions).unwrap_or(0);
        let here = assignments.iter().all(|assignment| {
            matches!(assignment.broker_ids.as_slice(), [only] if only.0 == cx.node.node_id.0)
        });
        if assignments.len() != added || !here {
            return Err(refuse(
                ErrorCode::InvalidReplicaAssignment,
                format!(
                    "Assignments must place each of the {added} new partitions on broker {} alone.",
                    cx.node.node_id.0
                ),
            ));
        }
    }
    Ok(())
}

fn too_few(now: i32, asked: i32) -> Answer {
    refuse(
        ErrorCode::InvalidPartitions,
        if asked == now {
            format!("Topic already has {now} partition(s).")
        } else {
            format!("The topic currently has {now} partition(s); {asked} would not be an increase.")
        },
    )
}

fn native() -> Answer {
    refuse(
        ErrorCode::InvalidPartitions,
        "The topic was not created through Kafka: its width follows the lanes of the queue.",
    )
}
