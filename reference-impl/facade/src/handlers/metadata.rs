//! Metadata (key 3), versions 0–13.
//!
//! * The brokers are the live nodes. A partition's leader, which is its only replica, is who owns it
//!   among them, and the controller is the lowest: alone, it is this node. The leader epoch
//!   is unknown (−1).
//! * Topics come from the catalogue, at most three seconds old. While Queen is away the last good
//!   list answers, with Queen's throttle; a topic never seen is `LEADER_NOT_AVAILABLE`.
//! * An absent topic asked for by name is created when the request and `QUEEN_KAFKA_AUTO_CREATE`
//!   allow it, at once, so that the first answer names it. At most 100 per request: the others are
//!   `LEADER_NOT_AVAILABLE`, and the client's next request creates them.
//! * Names that begin with `__` do not exist; illegal names are `INVALID_TOPIC_EXCEPTION`.
//! * A listing of all topics stops before 200,000 partitions, a request by name answers 10,000
//!   distinct topics and a million partitions.
//! * Room for the answer is taken before it is built; a connection whose answer finds none is closed.
//! * Authorized operations are not known here, so they are left out.
//!
//! v1: null asks for all topics. v2: cluster id. v3: throttle. v4: the client may refuse creation.
//! v7: leader epoch. v8: authorized operations. v9: flexible. v10: topic ids. v12: lookup by id.
//! v13: top-level error.

use std::sync::Arc;

use indexmap::IndexSet;
use kafka_protocol::messages::metadata_request::MetadataRequestTopic;
use kafka_protocol::messages::metadata_response::{
    MetadataResponseBroker, MetadataResponsePartition, MetadataResponseTopic,
};
use kafka_protocol::messages::{BrokerId, MetadataRequest, MetadataResponse};
use kafka_protocol::protocol::StrBytes;
use kafka_wire::error_code::ErrorCode;
use uuid::Uuid;

use crate::catalogue::{Lookup, RecordState, Topic, View};
use crate::cluster::View as Nodes;
use crate::context::{Answer, Context, Reply};
use crate::dispatch::CROWDED;
use crate::topics::wire_name;
use crate::upstream_errors::{self, Api};

/// Distinct topics answered to one request by name or id; the others are left out.
const MAX_TOPICS: usize = 10_000;
/// Partitions of one listing of all topics.
const MAX_LISTED_PARTITIONS: usize = 200_000;
/// Partitions of one answer to names and ids: what fits a response frame with room to spare.
const MAX_NAMED_PARTITIONS: usize = 1_000_000;
/// What a partition takes as the message is built and encoded: two lists of replicas, the entry and
/// its bytes.
const PARTITION_BYTES: usize = 208;
/// The same for a topic beside its name.
const TOPIC_BYTES: usize = 256;
/// An answer of more partitions is built where blocking work runs.
const BUILD_ELSEWHERE_PARTITIONS: usize = 5_000;
/// The first version in which the client may refuse creation.
const FIRST_WITH_CREATION_FLAG: i16 = 4;
/// The first version in which a topic can be asked for by id.
const FIRST_BY_ID: i16 = 12;

/// Answers a Metadata request.
pub async fn handle(cx: &Context, request: MetadataRequest) -> Reply<MetadataResponse> {
    // Version 0 has no null: empty means all.
    let all = match &request.topics {
        None => true,
        Some(topics) => cx.version == 0 && topics.is_empty(),
    };
    let (view, told) = if all {
        list_all(cx).await
    } else {
        let asked = request.topics.unwrap_or_default();
        let may_create = cx.node.config.auto_create
            && (cx.version < FIRST_WITH_CREATION_FLAG || request.allow_auto_topic_creation);
        look_up(cx, &asked, may_create).await
    };
    let nodes = cx.node.view();
    let brokers = nodes.brokers().into_iter().map(|broker| {
        MetadataResponseBroker::default()
            .with_node_id(BrokerId(broker.id.0))
            .with_host(StrBytes::from_string(broker.host.to_string()))
            .with_port(i32::from(broker.port))
    });
    let Some(topics) = build(cx, &nodes, told).await else {
        return Reply::Now(Answer::Close(CROWDED));
    };
    let throttle = view.trouble.as_ref().map(upstream_errors::throttle);
    MetadataResponse::default()
        .with_throttle_time_ms(throttle.map_or(0, upstream_errors::throttle_ms))
        .with_brokers(brokers.collect())
        .with_cluster_id(Some(StrBytes::from_string(cx.node.cluster_id().to_owned())))
        .with_controller_id(BrokerId(nodes.controller().0))
        .with_topics(topics)
        .into()
}

/// What an answer says of one topic.
enum Told {
    Known(Arc<Topic>),
    Refused(MetadataResponseTopic),
}

/// The topics of the answer; `None` when there is no room for them.
async fn build(cx: &Context, nodes: &Nodes, told: Vec<Told>) -> Option<Vec<MetadataResponseTopic>> {
    let partitions = told.iter().map(|told| match told {
        Told::Known(topic) => usize::try_from(topic.partitions).unwrap_or(0),
        Told::Refused(_) => 0,
    });
    let partitions: usize = partitions.sum();
    let bytes = partitions * PARTITION_BYTES + told.len() * TOPIC_BYTES;
    cx.room.take(bytes).await.ok()?;
    let nodes = nodes.clone();
    let work = move || {
        told.into_iter()
            .map(|told| match told {
                Told::Known(topic) => known(&nodes, &topic),
                Told::Refused(topic) => topic,
            })
            .collect()
    };
    Some(if partitions > BUILD_ELSEWHERE_PARTITIONS {
        cx.node.host.blocking.run(work).await
    } else {
        work()
    })
}

async fn list_all(cx: &Context) -> (View, Vec<Told>) {
    let session = &cx.session;
    let view = cx
        .node
        .catalogue
        .view(&session.scope, &session.credential)
        .await;
    let mut room = MAX_LISTED_PARTITIONS;
    let mut topics = Vec::new();
    let mut left_out = 0_usize;
    for topic in view.topics.iter() {
        // Its width is not known yet; a listing has no way to say so.
        if topic.record == RecordState::Unread {
            continue;
        }
        let partitions = usize::try_from(topic.partitions).unwrap_or(0);
        // The widest topic there is fits an empty listing.
        if partitions > room {
            left_out += 1;
            continue;
        }
        room -= partitions;
        topics.push(Told::Known(Arc::clone(topic)));
    }
    if left_out > 0 {
        tracing::warn!(
            left_out,
            "a listing of all topics has no room for some of them"
        );
    }
    (view, topics)
}

async fn look_up(
    cx: &Context,
    asked: &[MetadataRequestTopic],
    may_create: bool,
) -> (View, Vec<Told>) {
    let asked: IndexSet<Asked<'_>> = asked
        .iter()
        .map(|topic| Asked::of(topic, cx.version))
        .take(MAX_TOPICS)
        .collect();
    let names: Vec<&str> = asked
        .iter()
        .filter_map(|asked| match asked {
            Asked::Name(name) => Some(*name),
            _ => None,
        })
        .collect();
    let session = &cx.session;
    let (view, lookups) = cx
        .node
        .catalogue
        .resolve(&session.scope, &session.credential, &names, may_create)
        .await;
    let mut lookups = lookups.into_iter();
    let mut room = MAX_NAMED_PARTITIONS;
    let mut topics = Vec::with_capacity(asked.len());
    for asked in &asked {
        let found = match asked {
            Asked::Name(_) => {
                let lookup = lookups.next().unwrap_or(Lookup::Absent);
                upstream_errors::found(Api::Metadata, cx.version, &lookup).cloned()
            }
            Asked::Id(id) => {
                let lookup = view.lookup_id(*id);
                upstream_errors::found_by_id(Api::Metadata, cx.version, &lookup).cloned()
            }
            Asked::Nothing => {
                topics.push(Told::Refused(refused(asked, ErrorCode::InvalidRequest)));
                continue;
            }
        };
        topics.push(match found {
            Ok(topic) => {
                let partitions = usize::try_from(topic.partitions).unwrap_or(0);
                if partitions > room {
                    Told::Refused(refused(asked, ErrorCode::LeaderNotAvailable))
                } else {
                    room -= partitions;
                    Told::Known(topic)
                }
            }
            Err(answer) => Told::Refused(refused(asked, answer.code)),
        });
    }
    (view, topics)
}

/// What one element of a request asks for.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
enum Asked<'a> {
    Name(&'a str),
    Id(Uuid),
    /// Neither, or an id in a version that only carries names.
    Nothing,
}

impl<'a> Asked<'a> {
    fn of(topic: &'a MetadataRequestTopic, version: i16) -> Self {
        match &topic.name {
            Some(name) => Self::Name(name),
            None if topic.topic_id.is_nil() || version < FIRST_BY_ID => Self::Nothing,
            None => Self::Id(topic.topic_id),
        }
    }
}

fn refused(asked: &Asked<'_>, code: ErrorCode) -> MetadataResponseTopic {
    let answer = MetadataResponseTopic::default().with_error_code(code.code());
    match asked {
        Asked::Name(name) => answer.with_name(Some(wire_name(name))),
        Asked::Id(id) => answer.with_name(None).with_topic_id(*id),
        // Versions below 12 have no null name.
        Asked::Nothing => answer.with_name(Some(wire_name(""))),
    }
}

fn known(nodes: &Nodes, topic: &Topic) -> MetadataResponseTopic {
    let partition = |index| {
        let node = BrokerId(nodes.leader(&topic.name, index).0);
        MetadataResponsePartition::default()
            .with_partition_index(index)
            .with_leader_id(node)
            .with_replica_nodes(vec![node])
            .with_isr_nodes(vec![node])
    };
    MetadataResponseTopic::default()
        .with_name(Some(wire_name(&topic.name)))
        .with_topic_id(topic.id)
        .with_partitions((0..topic.partitions).map(partition).collect())
}
