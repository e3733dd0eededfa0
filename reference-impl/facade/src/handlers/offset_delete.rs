//! OffsetDelete, version 0.
//!
//! - A topic that a live consumer subscribes to keeps its offsets: GROUP_SUBSCRIBED_TO_TOPIC. A
//!   subscription that can't be read counts as one to everything.
//! - A live group of another protocol type is NON_EMPTY_GROUP; one that is neither live nor has ever
//!   committed GROUP_ID_NOT_FOUND.
//! - A topic that doesn't exist is UNKNOWN_TOPIC_OR_PARTITION; deleting an offset that isn't there
//!   succeeds. The group stays listed.
//! - Refused for everybody when the process runs with `QUEEN_KAFKA_ADMIN=false`.

use std::sync::Arc;

use kafka_protocol::messages::offset_delete_response::{
    OffsetDeleteResponsePartition, OffsetDeleteResponseTopic,
};
use kafka_protocol::messages::{OffsetDeleteRequest, OffsetDeleteResponse};
use kafka_wire::ErrorCode;

use crate::context::Context;
use crate::groups::GroupName;
use crate::handlers::group_topics::{known_topics, offsets_tenant};
use crate::handlers::offset_commit::write_code;
use crate::offsets::{Change, Commit, OffsetKey};
use crate::upstream_errors::{self, Api};

/// Answers an OffsetDelete request.
pub async fn handle(cx: &Context, request: OffsetDeleteRequest) -> OffsetDeleteResponse {
    let subscribed = match check(cx, &request).await {
        Ok((name, subscribed)) => (name, subscribed),
        Err(code) => return OffsetDeleteResponse::default().with_error_code(code.code()),
    };
    let (name, subscribed) = subscribed;
    let names: Vec<&str> = request.topics.iter().map(|topic| &**topic.name).collect();
    let known = known_topics(cx, &names).await;
    let mut codes: Vec<Vec<ErrorCode>> = Vec::with_capacity(request.topics.len());
    let mut changes = Vec::new();
    let mut places = Vec::new();
    for (t, topic) in request.topics.iter().enumerate() {
        let mut of_topic = Vec::with_capacity(topic.partitions.len());
        for (p, partition) in topic.partitions.iter().enumerate() {
            let index = partition.partition_index;
            of_topic.push(if !known[t] || index < 0 {
                ErrorCode::UnknownTopicOrPartition
            } else if subscribed[t] {
                ErrorCode::GroupSubscribedToTopic
            } else {
                // What no key can name was never committed.
                if let Some(key) = OffsetKey::new(&name.id, &topic.name, index) {
                    changes.push((key, Change::Delete));
                    places.push((t, p));
                }
                ErrorCode::None
            });
        }
        codes.push(of_topic);
    }
    let receipt = cx.node.offsets.commit(Commit {
        tenant: offsets_tenant(cx),
        group: Arc::clone(&name.id),
        protocol_type: "".into(),
        changes,
    });
    for ((t, p), verdict) in places.into_iter().zip(receipt.verdicts().await) {
        if let Err(error) = verdict {
            codes[t][p] = write_code(cx, &name, &error);
        }
    }
    let topics = request.topics.into_iter().zip(codes).map(|(topic, codes)| {
        let partitions = topic.partitions.iter().zip(codes).map(|(partition, code)| {
            OffsetDeleteResponsePartition::default()
                .with_partition_index(partition.partition_index)
                .with_error_code(code.code())
        });
        OffsetDeleteResponseTopic::default()
            .with_partitions(partitions.collect())
            .with_name(topic.name)
    });
    OffsetDeleteResponse::default().with_topics(topics.collect())
}

/// The group, and for each topic whether it subscribes to it; or why nothing may be deleted.
async fn check(
    cx: &Context,
    request: &OffsetDeleteRequest,
) -> Result<(GroupName, Vec<bool>), ErrorCode> {
    let name = cx
        .group(&request.group_id)
        .map_err(|error| error.error_code())?;
    if !cx.node.config.admin {
        return Err(ErrorCode::GroupAuthorizationFailed);
    }
    let topics = request
        .topics
        .iter()
        .map(|topic| topic.name.to_string())
        .collect();
    if let Some(subscribed) = cx.node.groups.subscriptions(&name, topics).await {
        let subscribed = subscribed.map_err(|error| error.error_code())?;
        return Ok((name, subscribed));
    }
    let tenant = offsets_tenant(cx);
    let index = cx.node.offsets.group_indexes(&tenant, &[&*name.id]).await;
    let index =
        index.map_err(|error| upstream_errors::answer(Api::Group, cx.version, &error).code)?;
    match index.first() {
        Some(Some(_)) => Ok((name, vec![false; request.topics.len()])),
        _ => Err(ErrorCode::GroupIdNotFound),
    }
}
