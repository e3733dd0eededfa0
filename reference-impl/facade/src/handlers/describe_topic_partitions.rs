//! DescribeTopicPartitions (key 75), version 0.
//!
//! * Topics by name, or all of them when none is named, in order of their names.
//! * A page holds at most `response_partition_limit` partitions, never more than 2,000; the cursor
//!   of the answer continues it. A cursor on a topic that is gone continues at the next one.
//! * Creates nothing: an absent topic is `UNKNOWN_TOPIC_OR_PARTITION`.
//! * One replica, this node; eligible leader replicas are empty.

use std::sync::Arc;

use kafka_protocol::messages::describe_topic_partitions_response::{
    Cursor, DescribeTopicPartitionsResponsePartition, DescribeTopicPartitionsResponseTopic,
};
use kafka_protocol::messages::{
    BrokerId, DescribeTopicPartitionsRequest, DescribeTopicPartitionsResponse,
};
use kafka_wire::error_code::ErrorCode;

use crate::catalogue::{Lookup, RecordState, Topic, View};
use crate::context::Context;
use crate::topics::wire_name;
use crate::upstream_errors::{self, Api};

/// Most partitions of a page, whatever the client asks for.
const MAX_PARTITIONS: i32 = 2000;
/// Most topics of a page: without partitions nothing else would bound it.
const MAX_TOPICS: usize = 10_000;

/// Answers a DescribeTopicPartitions request.
pub async fn handle(
    cx: &Context,
    request: DescribeTopicPartitionsRequest,
) -> DescribeTopicPartitionsResponse {
    let session = &cx.session;
    let view = cx
        .node
        .catalogue
        .view(&session.scope, &session.credential)
        .await;
    let throttle = view.trouble.as_ref().map(upstream_errors::throttle);
    let (topics, next_cursor) = page(cx, &view, &request);
    DescribeTopicPartitionsResponse::default()
        .with_throttle_time_ms(throttle.map_or(0, upstream_errors::throttle_ms))
        .with_topics(topics)
        .with_next_cursor(next_cursor)
}

fn page(
    cx: &Context,
    view: &View,
    request: &DescribeTopicPartitionsRequest,
) -> (Vec<DescribeTopicPartitionsResponseTopic>, Option<Cursor>) {
    let mut names: Vec<&str> = if request.topics.is_empty() {
        view.topics
            .iter()
            .filter(|topic| topic.record != RecordState::Unread)
            .map(|topic| topic.name.as_ref())
            .collect()
    } else {
        request
            .topics
            .iter()
            .map(|topic| topic.name.as_str())
            .collect()
    };
    names.sort_unstable();
    names.dedup();
    let (from_name, from_partition) = match &request.cursor {
        Some(cursor) => (cursor.topic_name.as_str(), cursor.partition_index.max(0)),
        None => ("", 0),
    };
    let mut room = request.response_partition_limit.clamp(1, MAX_PARTITIONS);
    let mut topics = Vec::new();
    for name in names.into_iter().filter(|name| *name >= from_name) {
        if room == 0 || topics.len() == MAX_TOPICS {
            return (topics, Some(cursor(name, 0)));
        }
        let lookup: Lookup = view.lookup(name);
        let topic = match upstream_errors::found(Api::Metadata, cx.version, &lookup) {
            Ok(topic) => topic,
            Err(answer) => {
                topics.push(
                    DescribeTopicPartitionsResponseTopic::default()
                        .with_name(Some(wire_name(name)))
                        .with_error_code(answer.code.code()),
                );
                continue;
            }
        };
        let from = if name == from_name { from_partition } else { 0 };
        let to = topic.partitions.min(from.saturating_add(room));
        topics.push(described(cx, topic, from, to));
        room -= (to - from).max(0);
        if to < topic.partitions {
            return (topics, Some(cursor(name, to)));
        }
    }
    (topics, None)
}

fn cursor(topic: &str, partition: i32) -> Cursor {
    Cursor::default()
        .with_topic_name(wire_name(topic))
        .with_partition_index(partition)
}

fn described(
    cx: &Context,
    topic: &Arc<Topic>,
    from: i32,
    to: i32,
) -> DescribeTopicPartitionsResponseTopic {
    let view = cx.node.view();
    let partition = |index| {
        let node = BrokerId(view.leader(&topic.name, index).0);
        DescribeTopicPartitionsResponsePartition::default()
            .with_error_code(ErrorCode::None.code())
            .with_partition_index(index)
            .with_leader_id(node)
            .with_leader_epoch(-1)
            .with_replica_nodes(vec![node])
            .with_isr_nodes(vec![node])
            .with_eligible_leader_replicas(Some(Vec::new()))
            .with_last_known_elr(Some(Vec::new()))
    };
    DescribeTopicPartitionsResponseTopic::default()
        .with_name(Some(wire_name(&topic.name)))
        .with_topic_id(topic.id)
        .with_partitions((from..to).map(partition).collect())
}
