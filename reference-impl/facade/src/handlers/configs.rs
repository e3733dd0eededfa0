//! What the two APIs that alter configs, and the one that describes them, share: resource types and
//! the altering of one topic.

use std::time::Duration;

use kafka_wire::error_code::ErrorCode;

use crate::catalogue::{AlterError, View};
use crate::context::Context;
use crate::topics::{EditError, Settings};
use crate::upstream_errors::{self, Answer, Api};

/// The resource type of topics.
pub(super) const TOPIC: i8 = 2;
/// The resource type of brokers.
pub(super) const BROKER: i8 = 4;
/// Resources of one altering request.
pub(super) const MAX_RESOURCES: usize = 1000;

pub(super) fn refuse(code: ErrorCode, message: impl Into<String>) -> Answer {
    Answer {
        code,
        throttle: Duration::ZERO,
        message: message.into(),
    }
}

/// Whether a broker resource's name is this node's id.
pub(super) fn names_this_node(cx: &Context, name: &str) -> bool {
    name.parse() == Ok(cx.node.node_id.0)
}

/// Why this resource can't be altered at all; `Ok` for topics.
pub(super) fn check_resource(cx: &Context, kind: i8, twice: bool, at: usize) -> Result<(), Answer> {
    if twice {
        return Err(refuse(
            ErrorCode::InvalidRequest,
            "Each resource must appear at most once.",
        ));
    }
    if at >= MAX_RESOURCES {
        return Err(refuse(
            ErrorCode::RequestTimedOut,
            "One request alters 1000 resources; send the others again.",
        ));
    }
    match kind {
        TOPIC if cx.node.config.admin => Ok(()),
        TOPIC => Err(refuse(
            ErrorCode::PolicyViolation,
            "Altering configs through Kafka is disabled.",
        )),
        BROKER => Err(refuse(
            ErrorCode::InvalidConfig,
            "Broker configs are set by environment variables.",
        )),
        other => Err(refuse(
            ErrorCode::InvalidRequest,
            format!("Resources of type {other} have no configs here."),
        )),
    }
}

/// Why an edit of a topic's settings is refused.
pub(super) enum Refused {
    /// The edit itself.
    Edit(EditError),
    /// The request is at fault whatever the topic.
    Request(&'static str),
}

impl From<EditError> for Refused {
    fn from(error: EditError) -> Self {
        Self::Edit(error)
    }
}

impl From<Refused> for Answer {
    fn from(refused: Refused) -> Self {
        match refused {
            Refused::Edit(error) => refuse(ErrorCode::InvalidConfig, error.to_string()),
            Refused::Request(why) => refuse(ErrorCode::InvalidRequest, why),
        }
    }
}

/// Alters the topic named `name` by `edit`, which gets the settings that its record holds now.
pub(super) async fn alter_topic(
    cx: &Context,
    view: &View,
    name: &str,
    validate_only: bool,
    edit: impl Fn(&mut Settings) -> Result<(), Refused> + Send + 'static,
) -> Result<(), Answer> {
    let lookup = view.lookup(name);
    let topic = upstream_errors::found(Api::Configs, cx.version, &lookup)?;
    // Said before anything is asked of Queen, and said when only asked for validation.
    edit(&mut topic.settings.clone())?;
    let untracked = || refuse(ErrorCode::InvalidConfig, AlterError::Untracked.to_string());
    if topic.tracked().is_none() {
        return Err(untracked());
    }
    if validate_only {
        return Ok(());
    }
    let session = &cx.session;
    let altered = cx
        .node
        .catalogue
        .alter(&session.scope, &session.credential, topic, move |record| {
            let mut settings = Settings::of(record);
            edit(&mut settings)?;
            Ok::<_, Refused>(settings.apply(record))
        })
        .await;
    match altered {
        Ok(Ok(())) => Ok(()),
        Ok(Err(refused)) => Err(refused.into()),
        Err(error @ AlterError::Deleting) => Err(refuse(
            ErrorCode::UnknownTopicOrPartition,
            error.to_string(),
        )),
        Err(AlterError::Untracked) => Err(untracked()),
        Err(AlterError::Queen(error)) => {
            Err(upstream_errors::answer(Api::Configs, cx.version, &error))
        }
    }
}
