//! ConsumerGroupHeartbeat, versions 0 and 1 (KIP-848).
//!
//! - The rules are `coordinator::consumer`'s: epochs, reconciliation, `uniform` and `range`, patterns,
//!   static members, and the change of a live classic group.
//! - A member of a group this process does not have is UNKNOWN_MEMBER_ID, which makes it join again;
//!   Kafka's GROUP_ID_NOT_FOUND ends clients, and groups live in memory here.
//! - What a member brings is bounded as in JoinGroup, and so are groups and all of them together.
//! - UNSUPPORTED_VERSION, as in Kafka, where `group.version` is capped to 0.
//! - Topics are those of the cached list; while it can't be read a group keeps what it has.
//!
//! Versions: 1 adds the pattern, and the client chooses its member id (KIP-1082).

use std::collections::BTreeMap;
use std::time::Duration;

use coordinator::classic::{InstanceId, MemberId};
use coordinator::consumer::{
    Epoch, HeartbeatRequest, HeartbeatResponse, Partitions, TopicPartition,
};
use kafka_protocol::messages::consumer_group_heartbeat_response::{Assignment, TopicPartitions};
use kafka_protocol::messages::{ConsumerGroupHeartbeatRequest, ConsumerGroupHeartbeatResponse};
use kafka_protocol::protocol::StrBytes;
use kafka_wire::ErrorCode;
use uuid::Uuid;

use crate::context::Context;
use crate::handlers::group_topics::tenant_topics;
use crate::windows::GROUP_VERSION;

/// The first version in which the client chooses its member id.
const CHOSEN_MEMBER_ID: i16 = 1;

/// Answers a ConsumerGroupHeartbeat request.
pub async fn handle(
    cx: &Context,
    request: ConsumerGroupHeartbeatRequest,
) -> ConsumerGroupHeartbeatResponse {
    if !is_served(cx) {
        let text = "The consumer protocol is off (group.version is 0).";
        return refused(ErrorCode::UnsupportedVersion, text);
    }
    let name = match cx.group(&request.group_id) {
        Ok(name) => name,
        // Kafka checks nothing but that there is one.
        Err(_) if request.group_id.is_empty() => {
            return refused(ErrorCode::InvalidRequest, "GroupId can't be empty.");
        }
        Err(error) => return refused(error.error_code(), &error.to_string()),
    };
    let request = read(cx, &request);
    if request.member_epoch == Epoch::JOIN {
        cx.node.identities.joins(&cx.session.scope, &name.id);
    }
    // One that leaves needs no topics, and must not wait for them.
    let topics = match request.member_epoch < Epoch::JOIN {
        true => None,
        false => tenant_topics(cx).await,
    };
    let groups = &cx.node.groups;
    match groups.consumer_heartbeat(&name, request, topics).await {
        Ok(answer) => accepted(answer),
        Err(error) => refused(error.error_code(), &error.to_string()),
    }
}

/// Whether `group.version` lets the consumer protocol be spoken.
pub(super) fn is_served(cx: &Context) -> bool {
    cx.node.config.features.level(&GROUP_VERSION) > 0
}

fn read(cx: &Context, request: &ConsumerGroupHeartbeatRequest) -> HeartbeatRequest {
    let optional = |text: &Option<StrBytes>| text.as_deref().map(Into::into);
    let owned = request.topic_partitions.as_ref().map(|topics| {
        topics
            .iter()
            .flat_map(|topic| {
                let numbers = topic.partitions.iter();
                numbers.map(|&number| TopicPartition::new(topic.topic_id, number))
            })
            .collect()
    });
    let names = request.subscribed_topic_names.as_ref();
    HeartbeatRequest {
        member_id: MemberId::new(&request.member_id),
        member_epoch: Epoch(request.member_epoch),
        instance_id: request.instance_id.as_deref().map(InstanceId::new),
        rack_id: optional(&request.rack_id),
        client_id: cx.client_id.as_deref().unwrap_or_default().into(),
        client_host: format!("/{}", cx.session.peer.ip()).into(),
        // −1 is "unchanged".
        rebalance_timeout: u64::try_from(request.rebalance_timeout_ms)
            .ok()
            .map(Duration::from_millis),
        subscribed_topic_names: names
            .map(|names| names.iter().map(|name| (&***name).into()).collect()),
        subscribed_topic_regex: optional(&request.subscribed_topic_regex),
        server_assignor: optional(&request.server_assignor),
        owned,
        member_id_required: cx.version >= CHOSEN_MEMBER_ID,
        random: cx.node.host.entropy.uuid_v4(),
    }
}

fn accepted(answer: HeartbeatResponse) -> ConsumerGroupHeartbeatResponse {
    let interval = i32::try_from(answer.heartbeat_interval.as_millis()).unwrap_or(i32::MAX);
    ConsumerGroupHeartbeatResponse::default()
        .with_member_id(Some(StrBytes::from_string(answer.member_id.to_string())))
        .with_member_epoch(answer.member_epoch.0)
        .with_heartbeat_interval_ms(interval)
        .with_assignment(answer.assignment.map(|partitions| {
            let topics = by_topic(&partitions).into_iter();
            let topic = |(id, numbers): (Uuid, Vec<i32>)| {
                TopicPartitions::default()
                    .with_topic_id(id)
                    .with_partitions(numbers)
            };
            Assignment::default().with_topic_partitions(topics.map(topic).collect())
        }))
}

/// Partitions as the wire groups them.
pub(super) fn by_topic(partitions: &Partitions) -> BTreeMap<Uuid, Vec<i32>> {
    let mut topics: BTreeMap<Uuid, Vec<i32>> = BTreeMap::new();
    for partition in partitions {
        let numbers = topics.entry(partition.topic).or_default();
        numbers.push(partition.partition);
    }
    topics
}

fn refused(code: ErrorCode, message: &str) -> ConsumerGroupHeartbeatResponse {
    ConsumerGroupHeartbeatResponse::default()
        .with_error_code(code.code())
        .with_error_message(Some(StrBytes::from_string(message.to_owned())))
}
