//! CreateTopics (key 19), versions 2–7.
//!
//! * A topic is a queue of the same name with a topic record; its declared width is a floor.
//! * Names: illegal ones and those that begin with `__` are `INVALID_TOPIC_EXCEPTION`, one that is
//!   named twice is `INVALID_REQUEST`, once, and an existing one `TOPIC_ALREADY_EXISTS`.
//! * `num_partitions` −1 takes the default width; 0, other negative numbers and more than 100,000
//!   are `INVALID_PARTITIONS`.
//! * Every replication factor above 0 (and −1) is accepted, and 1 is reported: Queen replicates
//!   underneath. Manual assignments are accepted when they name this node and nothing else.
//! * Configs: the vocabulary of `topics::CONFIGS`; everything else is `INVALID_CONFIG`.
//! * The dedup window is 3600 s, so that an idempotent producer's retry is recognised.
//! * 100 topics per request; the others are `THROTTLING_QUOTA_EXCEEDED` (before v6
//!   `REQUEST_TIMED_OUT`), and the client sends them again.
//! * The timeout of the request is not obeyed: a creation that began is finished, within the time
//!   limit of each call to Queen.
//!
//! v4: −1 for width and replication. v5: flexible, answers with configs. v6: quota code. v7: topic
//! id.

use std::collections::{BTreeMap, BTreeSet};

use indexmap::IndexMap;
use kafka_protocol::messages::create_topics_request::CreatableTopic;
use kafka_protocol::messages::create_topics_response::{
    CreatableTopicConfigs, CreatableTopicResult,
};
use kafka_protocol::messages::{CreateTopicsRequest, CreateTopicsResponse};
use kafka_protocol::protocol::StrBytes;
use kafka_wire::error_code::ErrorCode;
use uuid::Uuid;

use crate::catalogue::{CreateError, NewTopic};
use crate::context::{Context, NodeId};
use crate::topics::{Edit, MAX_PARTITIONS, Settings, check_name, topic_rows};
use crate::upstream_errors::{self, Answer, Api};

/// Topics created by one request.
const MAX_TOPICS: usize = 100;
/// The first version whose clients know the quota code.
const FIRST_WITH_QUOTA: i16 = 6;
/// The first version that answers with configs.
const FIRST_WITH_CONFIGS: i16 = 5;

/// Answers a CreateTopics request.
pub async fn handle(cx: &Context, request: CreateTopicsRequest) -> CreateTopicsResponse {
    let mut named: BTreeMap<&str, usize> = BTreeMap::new();
    for topic in &request.topics {
        *named.entry(topic.name.as_str()).or_default() += 1;
    }
    let mut outcomes: IndexMap<usize, Outcome> = IndexMap::new();
    let mut accepted: Vec<(usize, NewTopic)> = Vec::new();
    for (at, topic) in request.topics.iter().enumerate() {
        let twice = named
            .get(topic.name.as_str())
            .is_some_and(|&times| times > 1);
        let judged = if twice {
            Err(refuse(
                ErrorCode::InvalidRequest,
                "Create topics request contains the topic more than once.",
            ))
        } else {
            judge(cx.node.node_id, topic)
        };
        match judged {
            Ok(new) if accepted.len() < MAX_TOPICS => accepted.push((at, new)),
            Ok(_) => {
                outcomes.insert(at, Outcome::Refused(over_quota(cx.version)));
            }
            Err(answer) => {
                outcomes.insert(at, Outcome::Refused(answer));
            }
        }
    }
    let mut throttle_ms = 0;
    for (at, outcome) in create(cx, accepted, request.validate_only).await {
        if let Outcome::Refused(answer) = &outcome {
            throttle_ms = throttle_ms.max(answer.throttle_ms());
        }
        outcomes.insert(at, outcome);
    }
    let mut told = BTreeSet::new();
    let topics = request
        .topics
        .iter()
        .enumerate()
        .filter(|(_, topic)| told.insert(topic.name.as_str()))
        .filter_map(|(at, topic)| Some(result(cx, topic, outcomes.get(&at)?)))
        .collect();
    CreateTopicsResponse::default()
        .with_throttle_time_ms(throttle_ms)
        .with_topics(topics)
}

enum Outcome {
    /// Created, or would be: id (nil when nothing was created), width, configs.
    Created(Uuid, i32, Settings),
    Refused(Answer),
}

fn refuse(code: ErrorCode, message: impl Into<String>) -> Answer {
    Answer {
        code,
        throttle: std::time::Duration::ZERO,
        message: message.into(),
    }
}

fn over_quota(version: i16) -> Answer {
    let code = if version >= FIRST_WITH_QUOTA {
        ErrorCode::ThrottlingQuotaExceeded
    } else {
        ErrorCode::RequestTimedOut
    };
    refuse(
        code,
        format!("One request creates {MAX_TOPICS} topics; send the others again."),
    )
}

/// What the request says about one topic, checked without a call to Queen.
fn judge(node: NodeId, topic: &CreatableTopic) -> Result<NewTopic, Answer> {
    check_name(&topic.name)
        .map_err(|error| refuse(ErrorCode::InvalidTopicException, error.to_string()))?;
    let partitions = width(node, topic)?;
    if topic.replication_factor == 0 || topic.replication_factor < -1 {
        return Err(refuse(
            ErrorCode::InvalidReplicationFactor,
            "Replication factor must be larger than 0.",
        ));
    }
    let mut settings = Settings::default();
    for config in &topic.configs {
        let edit = match &config.value {
            Some(value) => Edit::Set(value),
            None => Edit::Delete,
        };
        settings
            .edit(&config.name, edit)
            .map_err(|error| refuse(ErrorCode::InvalidConfig, error.to_string()))?;
    }
    Ok(NewTopic {
        name: topic.name.to_string(),
        partitions,
        settings,
    })
}

/// The declared width; `None` leaves it to the default.
fn width(node: NodeId, topic: &CreatableTopic) -> Result<Option<i32>, Answer> {
    if topic.assignments.is_empty() {
        return match topic.num_partitions {
            -1 => Ok(None),
            count if count < 1 => Err(refuse(
                ErrorCode::InvalidPartitions,
                "Number of partitions must be larger than 0.",
            )),
            count if count > MAX_PARTITIONS => Err(refuse(
                ErrorCode::InvalidPartitions,
                format!("A topic has at most {MAX_PARTITIONS} partitions."),
            )),
            count => Ok(Some(count)),
        };
    }
    if topic.num_partitions != -1 || topic.replication_factor != -1 {
        return Err(refuse(
            ErrorCode::InvalidRequest,
            "Both numPartitions or replicationFactor and replicasAssignments were set.",
        ));
    }
    let mut indexes: Vec<i32> = topic
        .assignments
        .iter()
        .map(|assignment| assignment.partition_index)
        .collect();
    indexes.sort_unstable();
    let consecutive = indexes
        .iter()
        .copied()
        .eq(0..i32::try_from(indexes.len()).unwrap_or(0));
    let here = topic
        .assignments
        .iter()
        .all(|assignment| matches!(assignment.broker_ids.as_slice(), [only] if only.0 == node.0));
    if !consecutive || !here || indexes.len() > MAX_PARTITIONS as usize {
        return Err(refuse(
            ErrorCode::InvalidReplicaAssignment,
            format!(
                "Assignments must number the partitions from 0 without a gap and place each on broker {} alone.",
                node.0
            ),
        ));
    }
    Ok(i32::try_from(indexes.len()).ok())
}

async fn create(
    cx: &Context,
    accepted: Vec<(usize, NewTopic)>,
    validate_only: bool,
) -> Vec<(usize, Outcome)> {
    let (session, catalogue) = (&cx.session, &cx.node.catalogue);
    let default_width = cx.node.config.default_partitions.get();
    let (at, new): (Vec<usize>, Vec<NewTopic>) = accepted.into_iter().unzip();
    if new.is_empty() {
        return Vec::new();
    }
    let failed = |error: &crate::queen::Error| {
        Outcome::Refused(upstream_errors::answer(
            Api::CreateTopics,
            cx.version,
            error,
        ))
    };
    let outcomes: Vec<Outcome> = if validate_only {
        match catalogue
            .fresh_view(&session.scope, &session.credential)
            .await
        {
            Err(error) => new.iter().map(|_| failed(&error)).collect(),
            Ok(view) => new
                .into_iter()
                .map(|new| match view.topics.get(&new.name) {
                    Some(_) => Outcome::Refused(exists(&new.name)),
                    None => Outcome::Created(
                        Uuid::nil(),
                        new.partitions.unwrap_or(default_width),
                        new.settings,
                    ),
                })
                .collect(),
        }
    } else {
        match catalogue
            .create(&session.scope, &session.credential, new.clone())
            .await
        {
            Err(error) => new.iter().map(|_| failed(&error)).collect(),
            Ok(created) => created
                .into_iter()
                .zip(&new)
                .map(|(created, new)| match created {
                    Ok(topic) => {
                        Outcome::Created(topic.id, topic.partitions, topic.settings.clone())
                    }
                    Err(CreateError::Exists) => Outcome::Refused(exists(&new.name)),
                    Err(CreateError::Deleting) => Outcome::Refused(refuse(
                        ErrorCode::TopicAlreadyExists,
                        format!("Topic '{}' is marked for deletion.", new.name),
                    )),
                    Err(CreateError::Queen(error)) => failed(&error),
                    Err(CreateError::NotRecorded(cause)) => {
                        let answer = upstream_errors::answer(Api::CreateTopics, cx.version, &cause);
                        Outcome::Refused(Answer {
                            message: CreateError::NotRecorded(cause).to_string(),
                            ..answer
                        })
                    }
                })
                .collect(),
        }
    };
    at.into_iter().zip(outcomes).collect()
}

fn exists(name: &str) -> Answer {
    refuse(
        ErrorCode::TopicAlreadyExists,
        format!("Topic '{name}' already exists."),
    )
}

fn result(cx: &Context, topic: &CreatableTopic, outcome: &Outcome) -> CreatableTopicResult {
    let result = CreatableTopicResult::default()
        .with_name(topic.name.clone())
        .with_error_message(None)
        .with_configs(None);
    match outcome {
        Outcome::Created(id, partitions, settings) => {
            let rows = (cx.version >= FIRST_WITH_CONFIGS).then(|| {
                topic_rows(settings, false, &cx.node.config)
                    .into_iter()
                    .map(|row| {
                        CreatableTopicConfigs::default()
                            .with_name(StrBytes::from_static_str(row.name))
                            .with_value(Some(StrBytes::from_string(row.value)))
                            .with_config_source(row.source as i8)
                            .with_read_only(row.read_only)
                    })
                    .collect()
            });
            result
                .with_topic_id(*id)
                .with_num_partitions(*partitions)
                .with_replication_factor(1)
                .with_configs(rows)
        }
        Outcome::Refused(answer) => result
            .with_configs((cx.version >= FIRST_WITH_CONFIGS).then(Vec::new))
            .with_error_code(answer.code.code())
            .with_error_message(Some(StrBytes::from_string(answer.message.clone()))),
    }
}
