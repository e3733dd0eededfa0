//! DeleteTopics (key 20), versions 1–6.
//!
//! * Deletes the queue with everything in it, then its topic record, the offsets committed on it
//!   and its deletion floors, so that a topic of the same name begins afresh. Until that is done
//!   CreateTopics of the name is `TOPIC_ALREADY_EXISTS` ("marked for deletion", as Kafka says it), a
//!   first use waits, and other topics are made and deleted meanwhile.
//! * A topic that was made anew since the client's request was read is not deleted in its place.
//! * Topics are named, or from v6 given by id. An absent name is `UNKNOWN_TOPIC_OR_PARTITION`, an
//!   absent id `UNKNOWN_TOPIC_ID`; one that is asked for twice is `INVALID_REQUEST`,
//!   once, and one that is given both ways each time.
//! * `QUEEN_KAFKA_ADMIN=false`: `TOPIC_DELETION_DISABLED` (before v3 `INVALID_REQUEST`).
//! * 100 topics per request; the others are `THROTTLING_QUOTA_EXCEEDED` (before v5
//!   `REQUEST_TIMED_OUT`), and the client sends them again.
//! * One that another request deletes at this moment is `REQUEST_TIMED_OUT`: asked again, it is gone.
//! * A lost answer is `REQUEST_TIMED_OUT`: sent again, a deletion that had landed is
//!   `UNKNOWN_TOPIC_OR_PARTITION`, as with Kafka.
//!
//! v3: the disabled code. v4: flexible. v5: error message, quota code. v6: topic ids.

use std::collections::BTreeMap;
use std::time::Duration;

use indexmap::IndexMap;
use kafka_protocol::messages::delete_topics_response::DeletableTopicResult;
use kafka_protocol::messages::{DeleteTopicsRequest, DeleteTopicsResponse};
use kafka_protocol::protocol::StrBytes;
use kafka_wire::error_code::ErrorCode;
use uuid::Uuid;

use crate::catalogue::{DeleteError, Doomed, View};
use crate::context::Context;
use crate::topics::wire_name;
use crate::upstream_errors::{self, Answer, Api};

/// Topics deleted by one request.
const MAX_TOPICS: usize = 100;
/// The first version whose clients know `TOPIC_DELETION_DISABLED`.
const FIRST_WITH_DISABLED: i16 = 3;
/// The first version whose clients know the quota code.
const FIRST_WITH_QUOTA: i16 = 5;
/// The first version with ids.
const FIRST_WITH_IDS: i16 = 6;

/// Answers a DeleteTopics request.
pub async fn handle(cx: &Context, request: DeleteTopicsRequest) -> DeleteTopicsResponse {
    let asked: Vec<Asked> = if cx.version >= FIRST_WITH_IDS {
        let topics = request.topics.iter();
        topics
            .map(|topic| Asked {
                name: topic.name.as_ref().map(|name| name.as_str().to_owned()),
                id: topic.topic_id,
                twice: false,
            })
            .collect()
    } else {
        let names = request.topic_names.iter();
        names
            .map(|name| Asked {
                name: Some(name.as_str().to_owned()),
                id: Uuid::nil(),
                twice: false,
            })
            .collect()
    };
    let asked = once(asked);
    if !cx.node.config.admin {
        let code = if cx.version >= FIRST_WITH_DISABLED {
            ErrorCode::TopicDeletionDisabled
        } else {
            ErrorCode::InvalidRequest
        };
        let refusal = refuse(code, "Topic deletion is disabled.");
        return respond(
            cx.version,
            asked
                .iter()
                .map(|asked| (asked.clone(), Err(refusal.clone()))),
        );
    }
    let session = &cx.session;
    let view = cx
        .node
        .catalogue
        .fresh_view(&session.scope, &session.credential)
        .await;
    let view = match view {
        Ok(view) => view,
        Err(error) => {
            let answer = upstream_errors::answer(Api::DeleteTopics, cx.version, &error);
            let outcomes = asked
                .iter()
                .map(|asked| (asked.clone(), Err(answer.clone())));
            return respond(cx.version, outcomes);
        }
    };
    let resolved = resolve(cx, &view, &asked);
    let doomed = resolved.iter().flatten().map(|found| Doomed {
        name: found.name.clone(),
        id: found.id,
    });
    let deleted = cx
        .node
        .catalogue
        .delete(&session.scope, &session.credential, doomed.collect())
        .await;
    let mut deleted = deleted.into_iter();
    let outcomes: Vec<(Asked, Result<(), Answer>)> = asked
        .iter()
        .zip(&resolved)
        .map(|(asked, resolved)| match resolved {
            Err(answer) => (asked.clone(), Err(answer.clone())),
            Ok(found) => {
                let outcome = deleted.next().unwrap_or(Err(DeleteError::Absent));
                let outcome = outcome.map_err(|error| match error {
                    DeleteError::Absent => {
                        refuse(ErrorCode::UnknownTopicOrPartition, &error.to_string())
                    }
                    DeleteError::Underway => refuse(ErrorCode::RequestTimedOut, &error.to_string()),
                    DeleteError::Queen(error) => {
                        upstream_errors::answer(Api::DeleteTopics, cx.version, &error)
                    }
                });
                let asked = Asked {
                    name: Some(found.name.clone()),
                    id: found.id,
                    twice: false,
                };
                (asked, outcome)
            }
        })
        .collect();
    respond(cx.version, outcomes.into_iter())
}

/// What one element of a request asks for.
#[derive(Clone, Debug)]
struct Asked {
    name: Option<String>,
    id: Uuid,
    /// More than one element asks for this.
    twice: bool,
}

/// What is asked for, each once.
fn once(asked: Vec<Asked>) -> Vec<Asked> {
    let mut once: IndexMap<(Option<String>, Uuid), bool> = IndexMap::with_capacity(asked.len());
    for Asked { name, id, .. } in asked {
        once.entry((name, id))
            .and_modify(|twice| *twice = true)
            .or_insert(false);
    }
    let each = once.into_iter();
    each.map(|((name, id), twice)| Asked { name, id, twice })
        .collect()
}

struct Found {
    name: String,
    id: Uuid,
}

fn refuse(code: ErrorCode, message: &str) -> Answer {
    Answer {
        code,
        throttle: Duration::ZERO,
        message: message.to_owned(),
    }
}

fn resolve(cx: &Context, view: &View, asked: &[Asked]) -> Vec<Result<Found, Answer>> {
    let found: Vec<Result<Found, Answer>> = asked
        .iter()
        .map(|asked| {
            let topic = match &asked.name {
                _ if asked.twice => {
                    return Err(refuse(
                        ErrorCode::InvalidRequest,
                        "The topic is named more than once.",
                    ));
                }
                Some(_) if !asked.id.is_nil() => {
                    return Err(refuse(
                        ErrorCode::InvalidRequest,
                        "You may not specify both topic name and topic id.",
                    ));
                }
                Some(name) => {
                    let lookup = view.lookup(name);
                    upstream_errors::found(Api::DeleteTopics, cx.version, &lookup).cloned()
                }
                None if asked.id.is_nil() => {
                    return Err(refuse(
                        ErrorCode::InvalidRequest,
                        "Neither topic name nor id were specified.",
                    ));
                }
                None => {
                    let lookup = view.lookup_id(asked.id);
                    upstream_errors::found_by_id(Api::DeleteTopics, cx.version, &lookup).cloned()
                }
            };
            topic.map(|topic| Found {
                name: topic.name.to_string(),
                id: topic.id,
            })
        })
        .collect();
    let mut times: BTreeMap<String, usize> = BTreeMap::new();
    for found in found.iter().flatten() {
        *times.entry(found.name.clone()).or_default() += 1;
    }
    let mut room = MAX_TOPICS;
    found
        .into_iter()
        .map(|outcome| {
            let found = outcome?;
            if times.get(&found.name).is_some_and(|&times| times > 1) {
                return Err(refuse(
                    ErrorCode::InvalidRequest,
                    "The topic is named more than once.",
                ));
            }
            room = room.checked_sub(1).ok_or_else(|| {
                let code = if cx.version >= FIRST_WITH_QUOTA {
                    ErrorCode::ThrottlingQuotaExceeded
                } else {
                    ErrorCode::RequestTimedOut
                };
                refuse(
                    code,
                    "One request deletes 100 topics; send the others again.",
                )
            })?;
            Ok(found)
        })
        .collect()
}

fn respond(
    version: i16,
    outcomes: impl Iterator<Item = (Asked, Result<(), Answer>)>,
) -> DeleteTopicsResponse {
    let mut throttle_ms = 0;
    let responses = outcomes
        .map(|(asked, outcome)| {
            let result = DeletableTopicResult::default()
                .with_name(asked.name.as_deref().map(wire_name))
                .with_topic_id(asked.id)
                .with_error_message(None);
            // Versions below 6 have no null name, and always got one.
            debug_assert!(version >= FIRST_WITH_IDS || asked.name.is_some());
            match outcome {
                Ok(()) => result,
                Err(answer) => {
                    throttle_ms = throttle_ms.max(answer.throttle_ms());
                    result
                        .with_error_code(answer.code.code())
                        .with_error_message(Some(StrBytes::from_string(answer.message)))
                }
            }
        })
        .collect();
    DeleteTopicsResponse::default()
        .with_throttle_time_ms(throttle_ms)
        .with_responses(responses)
}
