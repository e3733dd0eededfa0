//! What the group and offset APIs share: whose offsets, which topics exist, by name or by id.

use std::sync::Arc;

use coordinator::consumer::Topics;
use kafka_protocol::messages::TopicName;
use kafka_protocol::protocol::StrBytes;
use kafka_wire::ErrorCode;
use uuid::Uuid;

use crate::catalogue::{Lookup, RecordState, View};
use crate::context::Context;
use crate::groups::{GroupName, GroupType};
use crate::offsets::Tenant;

/// The tenant of a connection, for calls of its offsets.
pub(super) fn offsets_tenant(cx: &Context) -> Tenant {
    Tenant {
        scope: cx.session.scope.clone(),
        credential: cx.session.credential.clone(),
    }
}

/// The topics that consumer groups of this tenant choose from; `None` when they can't be told now.
pub(super) async fn tenant_topics(cx: &Context) -> Option<Arc<Topics>> {
    let (catalogue, session) = (&cx.node.catalogue, &cx.session);
    let view = catalogue.view(&session.scope, &session.credential).await;
    cx.node.groups.topics(&session.scope, &view)
}

/// The same for a call of the classic protocol, which needs them only in a consumer group.
pub(super) async fn topics_of_group(cx: &Context, name: &GroupName) -> Option<Arc<Topics>> {
    match cx.node.groups.group_type(name) {
        Some(GroupType::Consumer) => tenant_topics(cx).await,
        Some(GroupType::Classic) | None => None,
    }
}

/// A topic as a request names it.
#[derive(Clone, Debug)]
pub(super) enum TopicRef {
    /// By name.
    Name(TopicName),
    /// By id.
    Id(Uuid),
}

impl TopicRef {
    /// From version 10 on the offset APIs name topics by id. The typed codec does not read that yet:
    /// dispatch spells the id where a name was.
    pub(super) fn read(name: TopicName, by_id: bool) -> Self {
        match by_id {
            true => Self::Id(Uuid::parse_str(&name).unwrap_or_default()),
            false => Self::Name(name),
        }
    }

    /// The name for an answer that has one.
    pub(super) fn name(&self) -> TopicName {
        match self {
            Self::Name(name) => name.clone(),
            Self::Id(_) => TopicName::default(),
        }
    }

    /// The id for an answer that has one.
    pub(super) fn id(&self) -> Uuid {
        match self {
            Self::Name(_) => Uuid::nil(),
            Self::Id(id) => *id,
        }
    }
}

/// What a [`TopicRef`] refers to.
#[derive(Clone, Debug)]
pub(super) struct Resolved {
    /// Its name.
    pub(super) name: TopicName,
    /// Its id; nil when it can't be told now.
    pub(super) id: Uuid,
    /// Its width; `None` when it can't be told now.
    width: Option<i32>,
}

impl Resolved {
    /// Whether offsets of this partition may be stored: it exists, or that can't be told now.
    pub(super) fn has_partition(&self, partition: i32) -> bool {
        partition >= 0 && self.width.is_none_or(|width| partition < width)
    }
}

/// For each topic what it is, or why its offsets can't be stored: a name must exist, or that can't be
/// told now; an id must be known.
pub(super) async fn resolve(cx: &Context, asked: &[TopicRef]) -> Vec<Result<Resolved, ErrorCode>> {
    resolve_up_to(cx, asked, &[]).await
}

/// The same where the highest partition asked of each topic is known. What the cached list lacks is
/// looked up afresh, since another process may just have created the topic, or widened it.
pub(super) async fn resolve_up_to(
    cx: &Context,
    asked: &[TopicRef],
    highest: &[i32],
) -> Vec<Result<Resolved, ErrorCode>> {
    let (catalogue, session) = (&cx.node.catalogue, &cx.session);
    let mut view = catalogue.view(&session.scope, &session.credential).await;
    let lacks = |at: usize, topic: &TopicRef| match look(&view, topic) {
        Lookup::Absent => true,
        Lookup::Found(found) => highest.get(at).is_some_and(|&at| at >= found.partitions),
        Lookup::Illegal(_) | Lookup::Failed(_) | Lookup::Later => false,
    };
    if asked.iter().enumerate().any(|(at, topic)| lacks(at, topic)) {
        match catalogue
            .fresh_view(&session.scope, &session.credential)
            .await
        {
            Ok(fresh) => view = fresh,
            // What is absent from an older list may exist by now.
            Err(trouble) => view.trouble = Some(trouble),
        }
    }
    asked.iter().map(|topic| judge(&view, topic)).collect()
}

fn look(view: &View, topic: &TopicRef) -> Lookup {
    match topic {
        TopicRef::Name(name) => view.lookup(name),
        TopicRef::Id(id) if id.is_nil() => Lookup::Illegal("nil"),
        TopicRef::Id(id) => view.lookup_id(*id),
    }
}

fn judge(view: &View, topic: &TopicRef) -> Result<Resolved, ErrorCode> {
    match (look(view, topic), topic) {
        (Lookup::Found(found), _) => Ok(Resolved {
            name: TopicName(StrBytes::from_string(found.name.to_string())),
            id: found.id,
            // An old reading says what is there, not what is missing.
            width: (view.trouble.is_none() && found.record != RecordState::Unread)
                .then_some(found.partitions),
        }),
        (Lookup::Failed(_) | Lookup::Later, TopicRef::Name(name)) => Ok(Resolved {
            name: name.clone(),
            id: Uuid::nil(),
            width: None,
        }),
        (Lookup::Absent | Lookup::Illegal(_), TopicRef::Name(_)) => {
            Err(ErrorCode::UnknownTopicOrPartition)
        }
        (Lookup::Absent | Lookup::Illegal(_), TopicRef::Id(_)) => Err(ErrorCode::UnknownTopicId),
        (Lookup::Failed(_) | Lookup::Later, TopicRef::Id(_)) => {
            Err(ErrorCode::CoordinatorNotAvailable)
        }
    }
}

/// For each name, whether offsets of the topic may be stored.
pub(super) async fn known_topics(cx: &Context, names: &[&str]) -> Vec<bool> {
    let named = |name: &&str| TopicRef::Name(TopicName(StrBytes::from_string((*name).to_owned())));
    let asked: Vec<TopicRef> = names.iter().map(named).collect();
    let resolved = resolve(cx, &asked).await;
    resolved.iter().map(Result::is_ok).collect()
}

/// For each partition of each topic, whether it exists, or that can't be told now.
pub(super) async fn known_partitions(cx: &Context, asked: &[(&str, &[i32])]) -> Vec<Vec<bool>> {
    let (catalogue, session) = (&cx.node.catalogue, &cx.session);
    let known = |lookup: Lookup, partitions: &[i32]| -> Vec<bool> {
        let exists = |&partition: &i32| match &lookup {
            Lookup::Found(topic) => topic.has_partition(partition),
            Lookup::Absent | Lookup::Illegal(_) => false,
            Lookup::Failed(_) | Lookup::Later => partition >= 0,
        };
        partitions.iter().map(exists).collect()
    };
    let all = |view: &crate::catalogue::View| -> Vec<Vec<bool>> {
        let of = |&(name, partitions): &(&str, &[i32])| known(view.lookup(name), partitions);
        asked.iter().map(of).collect()
    };
    let view = catalogue.view(&session.scope, &session.credential).await;
    let found = all(&view);
    if found.iter().flatten().all(|known| *known) {
        return found;
    }
    match catalogue
        .fresh_view(&session.scope, &session.credential)
        .await
    {
        Ok(view) => all(&view),
        Err(_) => found,
    }
}
