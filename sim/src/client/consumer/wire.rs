//! What members tell each other through the coordinator, and the requests of a group in every
//! version. No I/O, no state.

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use bytes::{Buf, BufMut, Bytes, BytesMut};
use kafka_protocol::messages::consumer_group_heartbeat_request::TopicPartitions as OwnedPartitions;
use kafka_protocol::messages::consumer_protocol_assignment::TopicPartition as AssignedTopic;
use kafka_protocol::messages::consumer_protocol_subscription::TopicPartition as OwnedTopic;
use kafka_protocol::messages::join_group_request::JoinGroupRequestProtocol;
use kafka_protocol::messages::leave_group_request::MemberIdentity;
use kafka_protocol::messages::offset_commit_request::{
    OffsetCommitRequestPartition, OffsetCommitRequestTopic,
};
use kafka_protocol::messages::offset_fetch_request::{
    OffsetFetchRequestGroup, OffsetFetchRequestTopic, OffsetFetchRequestTopics,
};
use kafka_protocol::messages::sync_group_request::SyncGroupRequestAssignment;
use kafka_protocol::messages::{
    ConsumerGroupHeartbeatRequest, ConsumerGroupHeartbeatResponse, ConsumerProtocolAssignment,
    ConsumerProtocolSubscription, HeartbeatRequest, JoinGroupRequest, JoinGroupResponse,
    LeaveGroupRequest, OffsetCommitRequest, OffsetFetchRequest, OffsetFetchResponse,
    SyncGroupRequest,
};
use kafka_protocol::protocol::{Decodable, Encodable, StrBytes};
use kafka_wire::ErrorCode;
use kafka_wire::schema::{CONSUMER_PROTOCOL_ASSIGNMENT, CONSUMER_PROTOCOL_SUBSCRIPTION, Message};
use kafka_wire::walk::{self, Limits, NoVisitor};

use super::assignor::{Assignment, Assignor, Subscription};
use super::membership::{Identity, Joined};
use super::reconciler::{Beat, Says};
use crate::client::cluster::TopicId;
use crate::client::profile::{GroupProtocol, GroupRules};
use crate::client::{CallError, error_code, group_id, millis, name, refused, text, topic_name};
use crate::history::{Name, TopicPartition};

const PROTOCOL_TYPE: &str = "consumer";
/// The version of what is written; any known one is read.
const SUBSCRIPTION_VERSION: i16 = 3;
const ASSIGNMENT_VERSION: i16 = 1;
/// What older versions than this can't say is left out.
const NEWEST_KNOWN: i16 = 3;

/// Partitions by their topics.
fn by_topic<'p>(
    partitions: impl IntoIterator<Item = &'p TopicPartition>,
) -> BTreeMap<&'p Name, Vec<i32>> {
    let mut topics: BTreeMap<&Name, Vec<i32>> = BTreeMap::new();
    for at in partitions {
        topics.entry(&at.topic).or_default().push(at.partition);
    }
    topics
}

fn impossible(error: impl std::fmt::Display) -> CallError {
    CallError::malformed(format!("a message that can't be encoded: {error}"))
}

fn encode_subscription(subscription: &Subscription) -> Result<Bytes, CallError> {
    let owned = by_topic(&subscription.owned).into_iter();
    let owned = owned.map(|(topic, partitions)| {
        OwnedTopic::default()
            .with_topic(topic_name(topic))
            .with_partitions(partitions)
    });
    let message = ConsumerProtocolSubscription::default()
        .with_topics(subscription.topics.iter().map(text).collect())
        .with_owned_partitions(owned.collect())
        .with_generation_id(subscription.generation);
    let mut out = BytesMut::new();
    out.put_i16(SUBSCRIPTION_VERSION);
    message
        .encode(&mut out, SUBSCRIPTION_VERSION)
        .map_err(impossible)?;
    Ok(out.freeze())
}

/// Proves a member's message before anything is allocated for it; gives its version, of those
/// known.
fn prove(message: &'static Message, bytes: &mut Bytes) -> Result<i16, CallError> {
    walk::visit_blob(message, bytes, &Limits::DEFAULT, &mut NoVisitor)
        .map_err(|error| CallError::malformed(format!("a member's message: {error}")))?;
    Ok(bytes.get_i16().clamp(0, NEWEST_KNOWN))
}

fn decode_subscription(mut bytes: Bytes) -> Result<Subscription, CallError> {
    let version = prove(CONSUMER_PROTOCOL_SUBSCRIPTION, &mut bytes)?;
    let message = ConsumerProtocolSubscription::decode(&mut bytes, version)
        .map_err(|error| CallError::malformed(format!("a subscription: {error}")))?;
    let owned = message.owned_partitions.iter().flat_map(|topic| {
        let partitions = topic.partitions.iter();
        partitions.map(|partition| TopicPartition::new(name(&topic.topic.0), *partition))
    });
    Ok(Subscription {
        topics: message.topics.iter().map(name).collect(),
        owned: owned.collect(),
        generation: message.generation_id,
    })
}

fn encode_assignment(partitions: &BTreeSet<TopicPartition>) -> Result<Bytes, CallError> {
    let topics = by_topic(partitions).into_iter();
    let topics = topics.map(|(topic, partitions)| {
        AssignedTopic::default()
            .with_topic(topic_name(topic))
            .with_partitions(partitions)
    });
    let message = ConsumerProtocolAssignment::default().with_assigned_partitions(topics.collect());
    let mut out = BytesMut::new();
    out.put_i16(ASSIGNMENT_VERSION);
    message
        .encode(&mut out, ASSIGNMENT_VERSION)
        .map_err(impossible)?;
    Ok(out.freeze())
}

/// What SyncGroup assigns. No bytes are no partitions.
pub(super) fn decode_assignment(mut bytes: Bytes) -> Result<BTreeSet<TopicPartition>, CallError> {
    if bytes.is_empty() {
        return Ok(BTreeSet::new());
    }
    let version = prove(CONSUMER_PROTOCOL_ASSIGNMENT, &mut bytes)?;
    let message = ConsumerProtocolAssignment::decode(&mut bytes, version)
        .map_err(|error| CallError::malformed(format!("an assignment: {error}")))?;
    let partitions = message.assigned_partitions.iter().flat_map(|topic| {
        let partitions = topic.partitions.iter();
        partitions.map(|partition| TopicPartition::new(name(&topic.topic.0), *partition))
    });
    Ok(partitions.collect())
}

fn instance(identity: &Identity) -> Option<StrBytes> {
    identity.instance.as_ref().map(text)
}

pub(super) fn join_request(
    rules: &GroupRules,
    group: &Name,
    identity: &Identity,
    subscription: &Subscription,
) -> Result<JoinGroupRequest, CallError> {
    let metadata = encode_subscription(subscription)?;
    let protocols = rules.assignors.iter().map(|assignor| {
        JoinGroupRequestProtocol::default()
            .with_name(StrBytes::from_static_str(assignor.name()))
            .with_metadata(metadata.clone())
    });
    Ok(JoinGroupRequest::default()
        .with_group_id(group_id(group))
        .with_session_timeout_ms(millis(rules.session_timeout))
        .with_rebalance_timeout_ms(millis(rules.rebalance_timeout))
        .with_member_id(text(&identity.member))
        .with_group_instance_id(instance(identity))
        .with_protocol_type(StrBytes::from_static_str(PROTOCOL_TYPE))
        .with_protocols(protocols.collect()))
}

/// A JoinGroup answer without an error.
pub(super) fn joined(response: &JoinGroupResponse) -> Result<Joined, CallError> {
    let chosen = response.protocol_name.as_ref().map(StrBytes::as_str);
    let assignor = chosen
        .and_then(Assignor::named)
        .ok_or_else(|| CallError::malformed(format!("JoinGroup chose the assignor {chosen:?}")))?;
    let leads = response.leader == response.member_id && !response.skip_assignment;
    let members = leads
        .then(|| {
            let members = response.members.iter().map(|member| {
                let subscription = decode_subscription(member.metadata.clone())?;
                Ok((name(&member.member_id), subscription))
            });
            members.collect::<Result<BTreeMap<_, _>, CallError>>()
        })
        .transpose()?;
    Ok(Joined {
        member: name(&response.member_id),
        generation: response.generation_id,
        assignor,
        members,
    })
}

pub(super) fn sync_request(
    group: &Name,
    identity: &Identity,
    assignor: Assignor,
    assignment: &Assignment,
) -> Result<SyncGroupRequest, CallError> {
    let shares = assignment.iter().map(|(member, partitions)| {
        Ok(SyncGroupRequestAssignment::default()
            .with_member_id(text(member))
            .with_assignment(encode_assignment(partitions)?))
    });
    Ok(SyncGroupRequest::default()
        .with_group_id(group_id(group))
        .with_generation_id(identity.generation)
        .with_member_id(text(&identity.member))
        .with_group_instance_id(instance(identity))
        .with_protocol_type(Some(StrBytes::from_static_str(PROTOCOL_TYPE)))
        .with_protocol_name(Some(StrBytes::from_static_str(assignor.name())))
        .with_assignments(shares.collect::<Result<_, CallError>>()?))
}

pub(super) fn heartbeat_request(group: &Name, identity: &Identity) -> HeartbeatRequest {
    HeartbeatRequest::default()
        .with_group_id(group_id(group))
        .with_generation_id(identity.generation)
        .with_member_id(text(&identity.member))
        .with_group_instance_id(instance(identity))
}

pub(super) fn leave_request(group: &Name, identity: &Identity, version: i16) -> LeaveGroupRequest {
    let request = LeaveGroupRequest::default().with_group_id(group_id(group));
    if version < 3 {
        return request.with_member_id(text(&identity.member));
    }
    request.with_members(vec![
        MemberIdentity::default()
            .with_member_id(text(&identity.member))
            .with_group_instance_id(instance(identity)),
    ])
}

/// A ConsumerGroupHeartbeat; `id` tells the ids of topics.
pub(super) fn beat_request(
    rules: &GroupRules,
    group: &Name,
    identity: &Identity,
    says: &Says,
    topics: &BTreeSet<Name>,
    id: impl Fn(&Name) -> Option<TopicId>,
) -> Result<ConsumerGroupHeartbeatRequest, CallError> {
    let owned = says.owned.as_ref().map(|owned| {
        let topics = by_topic(owned).into_iter().map(|(topic, partitions)| {
            let id = id(topic).ok_or_else(|| impossible("a topic without an id"))?;
            Ok(OwnedPartitions::default()
                .with_topic_id(id)
                .with_partitions(partitions))
        });
        topics.collect::<Result<Vec<_>, CallError>>()
    });
    let request = ConsumerGroupHeartbeatRequest::default()
        .with_group_id(group_id(group))
        .with_member_id(text(&identity.member))
        .with_member_epoch(identity.generation)
        .with_instance_id(instance(identity))
        .with_rebalance_timeout_ms(-1)
        .with_topic_partitions(owned.transpose()?);
    if !says.all {
        return Ok(request);
    }
    let assignor = match rules.protocol {
        GroupProtocol::Consumer { assignor } => assignor.map(StrBytes::from_static_str),
        GroupProtocol::Classic => None,
    };
    Ok(request
        .with_rebalance_timeout_ms(millis(rules.rebalance_timeout))
        .with_subscribed_topic_names(Some(topics.iter().map(topic_name).collect()))
        .with_server_assignor(assignor))
}

/// What a ConsumerGroupHeartbeat answer assigns, by the topics' ids.
pub(super) fn assigned_ids(
    response: &ConsumerGroupHeartbeatResponse,
) -> Option<Vec<(TopicId, i32)>> {
    let assignment = response.assignment.as_ref()?;
    let topics = assignment.topic_partitions.iter();
    let all = topics.flat_map(|topic| topic.partitions.iter().map(|at| (topic.topic_id, *at)));
    Some(all.collect())
}

/// A ConsumerGroupHeartbeat answer without an error; `name` tells the names of topics.
pub(super) fn beat(
    response: &ConsumerGroupHeartbeatResponse,
    assigned: Option<Vec<(TopicId, i32)>>,
    name_of: impl Fn(TopicId) -> Option<Name>,
) -> Result<Beat, CallError> {
    let assigned = assigned.map(|all| {
        let all = all.into_iter().map(|(id, partition)| {
            // The topic was deleted, or made anew: the next answer tells.
            let topic = name_of(id).ok_or(CallError::Refused(ErrorCode::UnknownTopicId))?;
            Ok(TopicPartition::new(topic, partition))
        });
        all.collect::<Result<BTreeSet<_>, CallError>>()
    });
    let interval = u64::try_from(response.heartbeat_interval_ms)
        .map_err(|_| CallError::malformed("a negative interval of heartbeats"))?;
    let member = response.member_id.as_ref();
    Ok(Beat {
        member: member.map(name).unwrap_or_default(),
        epoch: response.member_epoch,
        interval: Duration::from_millis(interval),
        assignment: assigned.transpose()?,
    })
}

pub(super) fn commit_request(
    group: &Name,
    identity: &Identity,
    offsets: &BTreeMap<TopicPartition, i64>,
) -> OffsetCommitRequest {
    let topics = by_topic(offsets.keys()).into_iter();
    let topics = topics.map(|(topic, partitions)| {
        let partitions = partitions.into_iter().map(|partition| {
            let at = TopicPartition::new(topic.clone(), partition);
            OffsetCommitRequestPartition::default()
                .with_partition_index(partition)
                .with_committed_offset(offsets.get(&at).copied().unwrap_or_default())
                .with_committed_leader_epoch(-1)
                .with_committed_metadata(Some(StrBytes::default()))
        });
        OffsetCommitRequestTopic::default()
            .with_name(topic_name(topic))
            .with_partitions(partitions.collect())
    });
    OffsetCommitRequest::default()
        .with_group_id(group_id(group))
        .with_generation_id_or_member_epoch(identity.generation)
        .with_member_id(text(&identity.member))
        .with_group_instance_id(instance(identity))
        .with_topics(topics.collect())
}

/// The first version of OffsetFetch that asks for several groups.
const SEVERAL_GROUPS: i16 = 8;

pub(super) fn offset_fetch_request(
    group: &Name,
    partitions: &[TopicPartition],
    version: i16,
) -> OffsetFetchRequest {
    let topics = by_topic(partitions).into_iter();
    let request = OffsetFetchRequest::default().with_require_stable(version >= 7);
    if version < SEVERAL_GROUPS {
        let topics = topics.map(|(topic, partitions)| {
            OffsetFetchRequestTopic::default()
                .with_name(topic_name(topic))
                .with_partition_indexes(partitions)
        });
        return request
            .with_group_id(group_id(group))
            .with_topics(Some(topics.collect()));
    }
    let topics = topics.map(|(topic, partitions)| {
        OffsetFetchRequestTopics::default()
            .with_name(topic_name(topic))
            .with_partition_indexes(partitions)
    });
    request.with_groups(vec![
        OffsetFetchRequestGroup::default()
            .with_group_id(group_id(group))
            .with_member_epoch(-1)
            .with_topics(Some(topics.collect())),
    ])
}

/// The committed offsets; `None` where there is none.
pub(super) fn committed(
    response: &OffsetFetchResponse,
    version: i16,
) -> Result<BTreeMap<TopicPartition, Option<i64>>, CallError> {
    let mut all = BTreeMap::new();
    let mut take = |topic: Name, partition: i32, code: i16, offset: i64| {
        refused(code)?;
        let offset = (offset >= 0).then_some(offset);
        all.insert(TopicPartition::new(topic, partition), offset);
        Ok::<_, CallError>(())
    };
    if version < SEVERAL_GROUPS {
        refused(response.error_code)?;
        for topic in &response.topics {
            for one in &topic.partitions {
                let (code, offset) = (one.error_code, one.committed_offset);
                take(name(&topic.name.0), one.partition_index, code, offset)?;
            }
        }
    }
    for group in &response.groups {
        refused(group.error_code)?;
        for topic in &group.topics {
            for one in &topic.partitions {
                let (code, offset) = (one.error_code, one.committed_offset);
                take(name(&topic.name.0), one.partition_index, code, offset)?;
            }
        }
    }
    Ok(all)
}

/// What an OffsetCommit answer refuses.
pub(super) fn commit_refusals(
    response: &kafka_protocol::messages::OffsetCommitResponse,
) -> Result<Vec<(TopicPartition, ErrorCode)>, CallError> {
    let mut refusals = Vec::new();
    for topic in &response.topics {
        for partition in &topic.partitions {
            let code = error_code(partition.error_code)?;
            if code != ErrorCode::None {
                let at = TopicPartition::new(name(&topic.name.0), partition.partition_index);
                refusals.push((at, code));
            }
        }
    }
    Ok(refusals)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn members_understand_each_other() {
        let subscription = Subscription {
            topics: ["a".into(), "b".into()].into(),
            owned: [TopicPartition::new("a", 1), TopicPartition::new("b", 0)].into(),
            generation: 7,
        };
        let bytes = encode_subscription(&subscription).expect("encoded");
        assert_eq!(decode_subscription(bytes).expect("decoded"), subscription);
        let bytes = encode_assignment(&subscription.owned).expect("encoded");
        assert_eq!(
            decode_assignment(bytes).expect("decoded"),
            subscription.owned
        );
        assert!(decode_assignment(Bytes::new()).expect("nothing").is_empty());
        assert!(decode_assignment(Bytes::from_static(b"\0")).is_err());
    }
}
