//! What a consumer's reading task asks of brokers: Fetch and ListOffsets, built and answered. Keeps
//! nothing.

use std::collections::BTreeMap;
use std::time::Duration;

use indexmap::IndexMap;
use kafka_protocol::messages::fetch_request::{FetchPartition, FetchTopic, ForgottenTopic};
use kafka_protocol::messages::list_offsets_request::{ListOffsetsPartition, ListOffsetsTopic};
use kafka_protocol::messages::{BrokerId, FetchRequest, FetchResponse, ListOffsetsRequest};
use kafka_wire::ErrorCode;

use super::fetch_session::{FetchSession, Plan, Wanted};
use super::shared::Shared;
use crate::client::cluster::{Cluster, TopicId};
use crate::client::profile::{ConsumerRules, Purpose};
use crate::client::{CallError, Connection, level, millis, name, refused, topic_name};
use crate::history::{Name, TopicPartition};

/// The first version of Fetch that names topics by their ids.
const BY_ID: i16 = 13;

/// Something of each partition.
pub(super) type Offsets<T> = BTreeMap<TopicPartition, T>;

/// One Fetch for what is wanted of a broker.
pub(super) async fn ask(
    shared: &Shared,
    connection: &Connection,
    wanted: &BTreeMap<TopicPartition, Wanted>,
    session: &mut FetchSession,
) -> Result<FetchResponse, CallError> {
    let rules = shared.client.profile.consumer;
    let plan = if rules.sessions {
        session.plan(wanted)
    } else {
        FetchSession::without(wanted)
    };
    let id = |topic: &Name| {
        let topic = shared.cluster.topic(topic);
        topic.map_or(TopicId::nil(), |topic| topic.id)
    };
    let unnamed = wanted.keys().any(|at| id(&at.topic).is_nil());
    let ceiling = if unnamed { BY_ID - 1 } else { i16::MAX };
    let request = request(&rules, plan, id).with_isolation_level(level(shared.settings.isolation));
    let timeout = shared
        .client
        .profile
        .request_timeout
        .max(rules.max_wait + Duration::from_secs(1));
    let mut ticket = connection.send_within(&request, timeout, ceiling)?;
    ticket.answer().await
}

fn request(rules: &ConsumerRules, plan: Plan, id: impl Fn(&Name) -> TopicId) -> FetchRequest {
    let mut topics: IndexMap<Name, Vec<FetchPartition>> = IndexMap::new();
    for (at, want) in plan.named {
        let partition = FetchPartition::default()
            .with_partition(at.partition)
            .with_current_leader_epoch(want.leader_epoch)
            .with_fetch_offset(want.offset)
            .with_last_fetched_epoch(-1)
            .with_log_start_offset(-1)
            .with_partition_max_bytes(rules.partition_max_bytes);
        topics.entry(at.topic).or_default().push(partition);
    }
    let mut forgotten: IndexMap<Name, Vec<i32>> = IndexMap::new();
    for at in plan.forgotten {
        forgotten.entry(at.topic).or_default().push(at.partition);
    }
    let topics = topics.into_iter().map(|(topic, partitions)| {
        FetchTopic::default()
            .with_topic(topic_name(&topic))
            .with_topic_id(id(&topic))
            .with_partitions(partitions)
    });
    let forgotten = forgotten.into_iter().map(|(topic, partitions)| {
        ForgottenTopic::default()
            .with_topic(topic_name(&topic))
            .with_topic_id(id(&topic))
            .with_partitions(partitions)
    });
    FetchRequest::default()
        .with_replica_id(BrokerId(-1))
        .with_max_wait_ms(millis(rules.max_wait))
        .with_min_bytes(rules.min_bytes)
        .with_max_bytes(rules.max_bytes)
        .with_session_id(plan.session_id)
        .with_session_epoch(plan.session_epoch)
        .with_topics(topics.collect())
        .with_forgotten_topics_data(forgotten.collect())
}

/// The offsets of `partitions` at `timestamp`, asked of their leaders.
pub(super) async fn list_offsets(
    cluster: &Cluster,
    partitions: &[TopicPartition],
    timestamp: i64,
) -> Offsets<Result<i64, CallError>> {
    let mut offsets = Offsets::new();
    let mut by_node: BTreeMap<i32, Vec<&TopicPartition>> = BTreeMap::new();
    for at in partitions {
        match cluster.leader(at) {
            Some(leader) => by_node.entry(leader.node).or_default().push(at),
            None => {
                let error = CallError::Refused(ErrorCode::LeaderNotAvailable);
                offsets.insert(at.clone(), Err(error));
            }
        }
    }
    for (node, asked) in by_node {
        match list_offsets_of(cluster, node, &asked, timestamp).await {
            Ok(found) => offsets.extend(found),
            Err(error) => {
                offsets.extend(asked.into_iter().map(|at| (at.clone(), Err(error.clone()))));
            }
        }
    }
    offsets
}

async fn list_offsets_of(
    cluster: &Cluster,
    node: i32,
    partitions: &[&TopicPartition],
    timestamp: i64,
) -> Result<Offsets<Result<i64, CallError>>, CallError> {
    let mut topics: IndexMap<&Name, Vec<ListOffsetsPartition>> = IndexMap::new();
    for at in partitions {
        let epoch = cluster.leader(at).map_or(-1, |leader| leader.epoch);
        let partition = ListOffsetsPartition::default()
            .with_partition_index(at.partition)
            .with_current_leader_epoch(epoch)
            .with_timestamp(timestamp);
        topics.entry(&at.topic).or_default().push(partition);
    }
    let topics = topics.into_iter().map(|(topic, partitions)| {
        ListOffsetsTopic::default()
            .with_name(topic_name(topic))
            .with_partitions(partitions)
    });
    let request = ListOffsetsRequest::default()
        .with_replica_id(BrokerId(-1))
        .with_topics(topics.collect());
    let connection = cluster.connection(node, Purpose::Fetch).await?;
    let response = connection.call(&request).await?;
    let mut offsets = Offsets::new();
    for topic in &response.topics {
        for one in &topic.partitions {
            let at = TopicPartition::new(name(&topic.name.0), one.partition_index);
            offsets.insert(at, refused(one.error_code).map(|()| one.offset));
        }
    }
    for at in partitions {
        let missing = || Err(CallError::malformed("ListOffsets answers other partitions"));
        offsets.entry((*at).clone()).or_insert_with(missing);
    }
    Ok(offsets)
}
