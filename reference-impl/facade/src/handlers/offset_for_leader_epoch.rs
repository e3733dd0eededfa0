//! OffsetForLeaderEpoch (key 23): versions 2 to 4.
//!
//! - Metadata names no leader epoch (−1), so clients have no reason to ask; who asks all the same
//!   learns of one epoch, 0, that has never ended: its end is the high watermark. Of any other
//!   nothing is known (−1).
//! - Records are never truncated, so no answer ever tells a client to go back.
//! - A client that knows a later epoch than 0 has it from another cluster: UNKNOWN_LEADER_EPOCH.
//!
//! v3: replica_id. v4: flexible.

use kafka_protocol::messages::offset_for_leader_epoch_response::{
    EpochEndOffset, OffsetForLeaderTopicResult,
};
use kafka_protocol::messages::{OffsetForLeaderEpochRequest, OffsetForLeaderEpochResponse};
use kafka_wire::ErrorCode;

use crate::context::Context;
use crate::fetch::bounds::{self, Asked};
use crate::leader_epoch::{self, EPOCH, UNDEFINED};
use crate::upstream_errors::Api;

/// Answers an OffsetForLeaderEpoch request.
pub async fn handle(
    cx: &Context,
    request: OffsetForLeaderEpochRequest,
) -> OffsetForLeaderEpochResponse {
    let (scope, credential) = (&cx.session.scope, &cx.session.credential);
    let view = cx.node.catalogue.view(scope, credential).await;
    let mut asked: Vec<Result<Asked, ErrorCode>> = Vec::new();
    for topic in &request.topics {
        for partition in &topic.partitions {
            let found = leader_epoch::check(partition.current_leader_epoch).and_then(|()| {
                bounds::find(
                    &view,
                    Api::ListOffsets,
                    cx.version,
                    &topic.topic,
                    partition.partition,
                )
            });
            asked.push(found);
        }
    }
    let known: Vec<Asked> = asked
        .iter()
        .filter_map(|asked| asked.clone().ok())
        .collect();
    let mut bounds = bounds::read(cx, Api::ListOffsets, &known).await.into_iter();
    let mut asked = asked.into_iter();
    let mut topics = Vec::with_capacity(request.topics.len());
    for topic in request.topics {
        let mut partitions = Vec::with_capacity(topic.partitions.len());
        for partition in topic.partitions {
            let found = asked.next().unwrap_or(Err(ErrorCode::UnknownServerError));
            let end =
                found.and_then(|_| bounds.next().unwrap_or(Err(ErrorCode::UnknownServerError)));
            let response = EpochEndOffset::default().with_partition(partition.partition);
            partitions.push(match end {
                Err(code) => response
                    .with_error_code(code.code())
                    .with_leader_epoch(UNDEFINED)
                    .with_end_offset(i64::from(UNDEFINED)),
                Ok(_) if partition.leader_epoch != EPOCH => response
                    .with_leader_epoch(UNDEFINED)
                    .with_end_offset(i64::from(UNDEFINED)),
                Ok(bounds) => response
                    .with_leader_epoch(EPOCH)
                    .with_end_offset(bounds.high_watermark),
            });
        }
        topics.push(
            OffsetForLeaderTopicResult::default()
                .with_topic(topic.topic)
                .with_partitions(partitions),
        );
    }
    OffsetForLeaderEpochResponse::default().with_topics(topics)
}
