//! OffsetFetch, versions 1 to 8.
//!
//! - Read from Queen, never from a cache; requests of a tenant share calls.
//! - A partition without a committed offset is -1 and no error. One that could not be read makes the
//!   whole group COORDINATOR_LOAD_IN_PROGRESS: -1 would send its consumer to `auto.offset.reset`.
//! - A group is asked for at most 131,072 partitions at once (INVALID_REQUEST).
//! - Null topics ask for every committed offset of the group.
//! - `require_stable` changes nothing: no offset is ever pending in a transaction here.
//!
//! Versions: 2 adds null topics and the group's error code; 3 the throttle; 5 the leader epoch
//! (always -1); 6 is flexible; 7 `require_stable`; 8 asks for several groups.

use futures::future::join_all;
use kafka_protocol::messages::offset_fetch_request::OffsetFetchRequestGroup;
use kafka_protocol::messages::offset_fetch_response::{
    OffsetFetchResponseGroup, OffsetFetchResponsePartition, OffsetFetchResponsePartitions,
    OffsetFetchResponseTopic, OffsetFetchResponseTopics,
};
use kafka_protocol::messages::{GroupId, OffsetFetchRequest, OffsetFetchResponse, TopicName};
use kafka_protocol::protocol::StrBytes;
use kafka_wire::ErrorCode;

use crate::context::Context;
use crate::groups::GroupName;
use crate::handlers::group_topics::offsets_tenant;
use crate::offsets::{Offset, OffsetKey, OffsetRow, ReadError};
use crate::upstream_errors::{self, Api};

/// Partitions that are asked for of one group.
const MAX_PARTITIONS: usize = 1 << 17;
/// The first version that asks for several groups.
const BATCHED: i16 = 8;
/// The first version with an error code for the whole group.
const GROUP_ERROR: i16 = 2;

/// The partitions asked for; `None` for all there are.
type Asked = Option<Vec<(TopicName, Vec<i32>)>>;
/// The offsets of a topic's partitions; `None` where there is none.
type Found = Vec<(TopicName, Vec<(i32, Option<OffsetRow>)>)>;

/// Answers an OffsetFetch request.
pub async fn handle(cx: &Context, request: OffsetFetchRequest) -> OffsetFetchResponse {
    if cx.version >= BATCHED {
        let groups = join_all(request.groups.into_iter().map(|group| of_group(cx, group))).await;
        return OffsetFetchResponse::default().with_groups(groups);
    }
    let asked = request.topics.map(|topics| {
        let topic =
            |topic: kafka_protocol::messages::offset_fetch_request::OffsetFetchRequestTopic| {
                (topic.name, topic.partition_indexes)
            };
        topics.into_iter().map(topic).collect()
    });
    let response = OffsetFetchResponse::default();
    match fetch(cx, &request.group_id, &asked).await {
        Ok(found) => response.with_topics(single_topics(found, ErrorCode::None)),
        Err(code) if cx.version >= GROUP_ERROR => response.with_error_code(code.code()),
        Err(code) => response.with_topics(single_topics(nothing(asked), code)),
    }
}

async fn of_group(cx: &Context, group: OffsetFetchRequestGroup) -> OffsetFetchResponseGroup {
    let asked = group.topics.map(|topics| {
        topics
            .into_iter()
            .map(|topic| (topic.name, topic.partition_indexes))
            .collect()
    });
    let response = match fetch(cx, &group.group_id, &asked).await {
        Ok(found) => OffsetFetchResponseGroup::default().with_topics(batched_topics(found)),
        Err(code) => OffsetFetchResponseGroup::default().with_error_code(code.code()),
    };
    response.with_group_id(group.group_id)
}

/// What is committed, in the order asked.
async fn fetch(cx: &Context, group: &GroupId, asked: &Asked) -> Result<Found, ErrorCode> {
    let name = GroupName::new(&cx.session.scope, group).map_err(|_| ErrorCode::InvalidGroupId)?;
    let Some(asked) = asked else {
        return fetch_all(cx, &name).await;
    };
    // The request is a few bytes for each, the keys and the answer a few hundred.
    if asked
        .iter()
        .map(|(_, partitions)| partitions.len())
        .sum::<usize>()
        > MAX_PARTITIONS
    {
        return Err(ErrorCode::InvalidRequest);
    }
    let mut keys = Vec::new();
    for (topic, partitions) in asked {
        for &partition in partitions {
            // What no key can name was never committed.
            keys.extend(key(&name, topic, partition));
        }
    }
    let offsets = cx.node.offsets.read(&offsets_tenant(cx), keys).await;
    let mut offsets = offsets
        .map_err(|error| read_code(cx, &name, &error))?
        .into_iter();
    let mut found = Found::new();
    for (topic, partitions) in asked {
        let mut rows = Vec::with_capacity(partitions.len());
        for &partition in partitions {
            let offset = key(&name, topic, partition).and_then(|_| offsets.next());
            rows.push((
                partition,
                match offset {
                    Some(Offset::Committed(row)) => Some(row),
                    Some(Offset::Unread) => return Err(ErrorCode::CoordinatorLoadInProgress),
                    Some(Offset::Absent) | None => None,
                },
            ));
        }
        found.push((topic.clone(), rows));
    }
    Ok(found)
}

fn key(name: &GroupName, topic: &TopicName, partition: i32) -> Option<OffsetKey> {
    OffsetKey::new(&name.id, topic, partition)
}

async fn fetch_all(cx: &Context, name: &GroupName) -> Result<Found, ErrorCode> {
    let all = cx
        .node
        .offsets
        .read_all(&offsets_tenant(cx), &name.id)
        .await;
    let all = all.map_err(|error| read_code(cx, name, &error))?;
    if all.cut {
        tracing::warn!(group = ?name.id, "a group has more offsets than one request reads");
        return Err(ErrorCode::CoordinatorLoadInProgress);
    }
    let topic = |topic: String| TopicName(StrBytes::from_string(topic));
    Ok(all
        .topics
        .into_iter()
        .map(|(name, rows)| {
            let rows = rows
                .into_iter()
                .map(|(partition, row)| (partition, Some(row)));
            (topic(name), rows.collect())
        })
        .collect())
}

fn read_code(cx: &Context, name: &GroupName, error: &ReadError) -> ErrorCode {
    if let Some(suppressed) = cx.node.groups.may_warn() {
        tracing::warn!(group = ?name.id, %error, suppressed, "offsets were not read");
    }
    match error {
        ReadError::Busy => ErrorCode::CoordinatorNotAvailable,
        ReadError::Queen(error) => upstream_errors::answer(Api::Group, cx.version, error).code,
    }
}

fn nothing(asked: Asked) -> Found {
    asked
        .unwrap_or_default()
        .into_iter()
        .map(|(topic, partitions)| {
            let rows = partitions.into_iter().map(|partition| (partition, None));
            (topic, rows.collect())
        })
        .collect()
}

/// Offset and metadata as the wire carries them; no row is -1 and no metadata.
fn parts(row: Option<OffsetRow>) -> (i64, StrBytes) {
    match row {
        Some(row) => (
            row.offset,
            StrBytes::from_string(row.metadata.unwrap_or_default()),
        ),
        None => (-1, StrBytes::default()),
    }
}

fn single_topics(found: Found, code: ErrorCode) -> Vec<OffsetFetchResponseTopic> {
    let partition = |(index, row): (i32, Option<OffsetRow>)| {
        let (offset, metadata) = parts(row);
        OffsetFetchResponsePartition::default()
            .with_partition_index(index)
            .with_committed_offset(offset)
            .with_metadata(Some(metadata))
            .with_error_code(code.code())
    };
    found
        .into_iter()
        .map(|(name, rows)| {
            OffsetFetchResponseTopic::default()
                .with_name(name)
                .with_partitions(rows.into_iter().map(partition).collect())
        })
        .collect()
}

fn batched_topics(found: Found) -> Vec<OffsetFetchResponseTopics> {
    let partition = |(index, row): (i32, Option<OffsetRow>)| {
        let (offset, metadata) = parts(row);
        OffsetFetchResponsePartitions::default()
            .with_partition_index(index)
            .with_committed_offset(offset)
            .with_metadata(Some(metadata))
    };
    found
        .into_iter()
        .map(|(name, rows)| {
            OffsetFetchResponseTopics::default()
                .with_name(name)
                .with_partitions(rows.into_iter().map(partition).collect())
        })
        .collect()
}
