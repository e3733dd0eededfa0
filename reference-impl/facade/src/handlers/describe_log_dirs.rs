//! DescribeLogDirs (key 35), versions 1–5.
//!
//! * One directory, `queen`, of one broker. Queen tells the bytes of a topic, not of a partition:
//!   each partition that exists shows an equal share, and the shares add up to the topic.
//! * Partitions nobody produced to show zero; no replica lags.
//! * The size of the disk is not known: `total_bytes` and `usable_bytes` are −1.
//! * At most 200,000 partitions.
//!
//! v2: flexible. v3: top-level error. v4: disk sizes. v5: whether a directory is
//! cordoned (never).

use std::collections::BTreeSet;
use std::sync::Arc;

use indexmap::IndexMap;
use kafka_protocol::messages::describe_log_dirs_response::{
    DescribeLogDirsPartition, DescribeLogDirsResult, DescribeLogDirsTopic,
};
use kafka_protocol::messages::{DescribeLogDirsRequest, DescribeLogDirsResponse};
use kafka_protocol::protocol::StrBytes;

use crate::catalogue::Topic;
use crate::context::Context;
use crate::topics::wire_name;
use crate::upstream_errors::{self, Api};

/// Partitions of one answer.
const MAX_PARTITIONS: usize = 200_000;
/// The one directory.
const LOG_DIR: &str = "queen";

/// Answers a DescribeLogDirs request.
pub async fn handle(cx: &Context, request: DescribeLogDirsRequest) -> DescribeLogDirsResponse {
    let session = &cx.session;
    // Sizes are looked up to watch them change, and rarely: the cached list would tell old ones.
    let view = match cx
        .node
        .catalogue
        .fresh_view(&session.scope, &session.credential)
        .await
    {
        Ok(view) => view,
        Err(trouble) => {
            let answer = upstream_errors::answer(Api::LogDirs, cx.version, &trouble);
            return DescribeLogDirsResponse::default()
                .with_throttle_time_ms(answer.throttle_ms())
                .with_error_code(answer.code.code());
        }
    };
    let wanted: Option<IndexMap<&str, &[i32]>> = request.topics.as_ref().map(|topics| {
        topics
            .iter()
            .map(|topic| (topic.topic.as_str(), topic.partitions.as_slice()))
            .collect()
    });
    let mut room = MAX_PARTITIONS;
    let mut topics = Vec::new();
    for topic in view.topics.iter() {
        let partitions = match &wanted {
            None => shares(topic, None, &mut room),
            Some(wanted) => match wanted.get(topic.name.as_ref()) {
                Some(partitions) => shares(topic, Some(partitions), &mut room),
                None => continue,
            },
        };
        if !partitions.is_empty() {
            topics.push(
                DescribeLogDirsTopic::default()
                    .with_name(wire_name(&topic.name))
                    .with_partitions(partitions),
            );
        }
    }
    DescribeLogDirsResponse::default().with_results(vec![
        DescribeLogDirsResult::default()
            .with_log_dir(StrBytes::from_static_str(LOG_DIR))
            .with_topics(topics)
            .with_total_bytes(-1)
            .with_usable_bytes(-1),
    ])
}

/// The sizes of the partitions asked for (all when none are named), as far as `room` goes.
fn shares(
    topic: &Arc<Topic>,
    wanted: Option<&[i32]>,
    room: &mut usize,
) -> Vec<DescribeLogDirsPartition> {
    let width = u64::try_from(topic.partitions).unwrap_or(0);
    let sharing = topic.lanes.clamp(1, width.max(1));
    let (share, rest) = (
        topic.retained_bytes / sharing,
        topic.retained_bytes % sharing,
    );
    let size = |partition: i32| match u64::try_from(partition) {
        Ok(at) if at < sharing => share + u64::from(at < rest),
        _ => 0,
    };
    let chosen: Vec<i32> = match wanted {
        None => (0..topic.partitions).collect(),
        Some(wanted) => {
            let wanted: BTreeSet<i32> = wanted.iter().copied().collect();
            wanted.range(0..topic.partitions).copied().collect()
        }
    };
    chosen
        .into_iter()
        .map_while(|partition| {
            *room = room.checked_sub(1)?;
            Some(
                DescribeLogDirsPartition::default()
                    .with_partition_index(partition)
                    .with_partition_size(i64::try_from(size(partition)).unwrap_or(i64::MAX)),
            )
        })
        .collect()
}
