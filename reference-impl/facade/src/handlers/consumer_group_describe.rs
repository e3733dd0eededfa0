//! ConsumerGroupDescribe, versions 0 and 1 (KIP-848).
//!
//! - A live group of the consumer protocol with its members, what they own and what they should own.
//! - Any other group is GROUP_ID_NOT_FOUND with Kafka's sentence, which makes an admin client ask
//!   DescribeGroups: also one that has only committed offsets, whose type nobody remembers.
//! - UNSUPPORTED_VERSION, as in Kafka, where `group.version` is capped to 0.
//! - Authorized operations are never computed: there is no authorization model.
//!
//! Versions: 1 adds the type of each member (KIP-1099).

use std::sync::Arc;

use coordinator::consumer::{Description, MemberDescription, Partitions, Topics};
use kafka_protocol::messages::consumer_group_describe_response::{
    Assignment, DescribedGroup, Member, TopicPartitions,
};
use kafka_protocol::messages::{
    ConsumerGroupDescribeRequest, ConsumerGroupDescribeResponse, GroupId, TopicName,
};
use kafka_protocol::protocol::StrBytes;
use kafka_wire::ErrorCode;

use super::consumer_group_heartbeat::{by_topic, is_served};
use crate::context::Context;
use crate::groups;

/// The first version that tells the type of a member.
const MEMBER_TYPE: i16 = 1;
/// `member_type` of a member of the classic protocol.
const CLASSIC: i8 = 0;
/// `member_type` of a member of the consumer protocol.
const CONSUMER: i8 = 1;

/// Answers a ConsumerGroupDescribe request.
pub async fn handle(
    cx: &Context,
    request: ConsumerGroupDescribeRequest,
) -> ConsumerGroupDescribeResponse {
    let mut described = Vec::with_capacity(request.group_ids.len());
    for id in request.group_ids {
        if !is_served(cx) {
            let message = "The consumer protocol is off (group.version is 0).".to_owned();
            described.push(refused(id, ErrorCode::UnsupportedVersion, message));
            continue;
        }
        described.push(match cx.group(&id) {
            Err(error) => refused(id, error.error_code(), error.to_string()),
            Ok(name) => match cx.node.groups.describe(&name).await {
                Some(groups::Description::Consumer(group)) => live(cx.version, id, group),
                Some(groups::Description::Classic(_)) => {
                    let message = format!("Group {} is not a consumer group.", &*id);
                    refused(id, ErrorCode::GroupIdNotFound, message)
                }
                None => {
                    let message = format!("Group {} not found.", &*id);
                    refused(id, ErrorCode::GroupIdNotFound, message)
                }
            },
        });
    }
    ConsumerGroupDescribeResponse::default().with_groups(described)
}

fn live(version: i16, id: GroupId, group: Description) -> DescribedGroup {
    let topics = group.topics;
    let members = group.members.into_iter();
    DescribedGroup::default()
        .with_group_id(id)
        .with_group_state(StrBytes::from_static_str(group.state.name()))
        .with_group_epoch(group.group_epoch.0)
        .with_assignment_epoch(group.assignment_epoch.0)
        .with_assignor_name(StrBytes::from_static_str(group.assignor.name()))
        .with_members(
            members
                .map(|described| member(version, topics.as_ref(), described))
                .collect(),
        )
}

fn member(version: i16, topics: Option<&Arc<Topics>>, described: MemberDescription) -> Member {
    let optional = |text: &Option<Arc<str>>| text.as_deref().map(self::text);
    let member = Member::default()
        .with_member_id(text(described.member_id.as_str()))
        .with_instance_id(described.instance_id.map(|id| text(id.as_str())))
        .with_rack_id(optional(&described.rack_id))
        .with_member_epoch(described.member_epoch.0)
        .with_client_id(text(&described.client_id))
        .with_client_host(text(&described.client_host))
        .with_subscribed_topic_names(
            described
                .subscribed_topic_names
                .iter()
                .map(|name| TopicName(text(name)))
                .collect(),
        )
        .with_subscribed_topic_regex(Some(text(&described.subscribed_topic_regex)))
        .with_assignment(assignment(topics, &described.assignment))
        .with_target_assignment(assignment(topics, &described.target_assignment));
    if version < MEMBER_TYPE {
        return member;
    }
    member.with_member_type(if described.is_classic {
        CLASSIC
    } else {
        CONSUMER
    })
}

/// Topics that were deleted since have no name and are left out, as in Kafka.
fn assignment(topics: Option<&Arc<Topics>>, partitions: &Partitions) -> Assignment {
    let named = by_topic(partitions)
        .into_iter()
        .filter_map(|(id, numbers)| {
            let name = topics?.name(id)?;
            Some(
                TopicPartitions::default()
                    .with_topic_id(id)
                    .with_topic_name(TopicName(text(name)))
                    .with_partitions(numbers),
            )
        });
    Assignment::default().with_topic_partitions(named.collect())
}

fn refused(id: GroupId, code: ErrorCode, message: String) -> DescribedGroup {
    DescribedGroup::default()
        .with_group_id(id)
        .with_error_code(code.code())
        .with_error_message(Some(StrBytes::from_string(message)))
}

fn text(text: &str) -> StrBytes {
    StrBytes::from_string(text.to_owned())
}
