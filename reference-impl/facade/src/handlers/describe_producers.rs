//! DescribeProducers (key 61): version 0.
//!
//! - The producers whose sequence windows this node holds: those that produced here lately.
//! - `current_txn_start_offset` is −1: nothing of an open transaction is in the log.
//! - `last_timestamp` is −1: windows keep none. `coordinator_epoch` is −1.

use kafka_protocol::messages::describe_producers_response::{
    PartitionResponse, ProducerState, TopicResponse,
};
use kafka_protocol::messages::{DescribeProducersRequest, DescribeProducersResponse, ProducerId};
use kafka_wire::ErrorCode;

use crate::context::Context;
use crate::handlers::group_topics::known_partitions;

/// Answers a DescribeProducers request.
pub async fn handle(cx: &Context, request: DescribeProducersRequest) -> DescribeProducersResponse {
    let asked: Vec<(&str, &[i32])> = request
        .topics
        .iter()
        .map(|topic| (&**topic.name, topic.partition_indexes.as_slice()))
        .collect();
    let known = known_partitions(cx, &asked).await;
    let scope = &cx.session.scope;
    let topics = request.topics.into_iter().zip(known).map(|(topic, known)| {
        let mut active = cx.node.produce.active(scope, &topic.name);
        let partitions = topic.partition_indexes.iter().zip(known);
        let partitions = partitions.map(|(&index, known)| {
            let response = PartitionResponse::default().with_partition_index(index);
            if !known {
                return response.with_error_code(ErrorCode::UnknownTopicOrPartition.code());
            }
            let producers = active.remove(&index).unwrap_or_default();
            let producers = producers.into_iter().map(|producer| {
                ProducerState::default()
                    .with_producer_id(ProducerId(producer.id))
                    .with_producer_epoch(i32::from(producer.epoch.get()))
                    .with_last_sequence(producer.last_sequence)
                    .with_last_timestamp(-1)
                    .with_coordinator_epoch(-1)
                    .with_current_txn_start_offset(-1)
            });
            response.with_active_producers(producers.collect())
        });
        TopicResponse::default()
            .with_partitions(partitions.collect())
            .with_name(topic.name)
    });
    DescribeProducersResponse::default().with_topics(topics.collect())
}
