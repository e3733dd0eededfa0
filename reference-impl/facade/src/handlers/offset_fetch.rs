//! OffsetFetch, versions 1 to 10.
//!
//! - Read from Queen, never from a cache; requests of a tenant share calls.
//! - A partition without a committed offset is -1 and no error. One that could not be read makes the
//!   whole group COORDINATOR_LOAD_IN_PROGRESS: -1 would send its consumer to `auto.offset.reset`.
//! - A group is asked for at most 131,072 partitions at once (INVALID_REQUEST).
//! - A member of the consumer protocol reads at its epoch (version 9 on): STALE_MEMBER_EPOCH makes it
//!   look for the new one, UNKNOWN_MEMBER_ID join again. Without a member id anybody may read.
//! - A topic id nobody has is UNKNOWN_TOPIC_ID; with null topics, topics that are gone are left out.
//! - Null topics ask for every committed offset of the group.
//! - `require_stable`: UNSTABLE_OFFSET_COMMIT for a partition whose offset an open transaction may
//!   move (KIP-447); without it the offset before is told.
//!
//! Versions: 2 adds null topics and the group's error code; 3 the throttle; 5 the leader epoch
//! (always -1); 6 is flexible; 7 `require_stable`; 8 asks for several groups; 9 adds the
//! member and its epoch (KIP-848); 10 topic ids in place of names.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use coordinator::classic::MemberId;
use coordinator::consumer::Epoch;
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
use crate::handlers::group_topics::{Resolved, TopicRef, offsets_tenant, resolve};
use crate::offsets::{Offset, OffsetKey, OffsetRow, ReadError};
use crate::transactions::PendingHere;
use crate::upstream_errors::{self, Api};

/// Partitions that are asked for of one group.
const MAX_PARTITIONS: usize = 1 << 17;
/// The first version that asks for several groups.
const BATCHED: i16 = 8;
/// The first version with an error code for the whole group.
const GROUP_ERROR: i16 = 2;

/// The first version that names the member.
const MEMBER_EPOCHS: i16 = 9;
/// The first version that names topics by id.
const TOPIC_IDS: i16 = 10;

/// The partitions asked for; `None` for all there are.
type Asked = Option<Vec<(TopicName, Vec<i32>)>>;
/// The offsets of a topic's partitions; `None` where there is none.
type Found = Vec<(TopicName, Vec<(i32, Option<OffsetRow>)>)>;

/// The partitions of a group whose offset is not to be told: an open transaction may move it. By
/// topic, because a request may ask for as many partitions as wait in all transactions.
#[derive(Debug, Default)]
struct Unstable(BTreeMap<Arc<str>, BTreeSet<i32>>);

impl Unstable {
    /// Asked for before the offsets are read, so that a commit between the two is seen by one of
    /// them. `here` is what waits in this process; `None` for who does not ask for stable ones.
    async fn of(
        cx: &Context,
        group: &GroupId,
        here: Option<&PendingHere>,
    ) -> Result<Self, ErrorCode> {
        let name = GroupName::new(&cx.session.scope, group);
        let (Some(here), Ok(name)) = (here, name) else {
            return Ok(Self::default());
        };
        let transactions = &cx.node.transactions;
        let mut unstable = Self::default();
        let tenant = offsets_tenant(cx);
        let pending = transactions.pending_offsets(&tenant, &name.id, here).await;
        for (topic, index) in pending.map_err(|failure| failure.group_code())? {
            unstable.0.entry(topic).or_default().insert(index);
        }
        Ok(unstable)
    }

    fn holds(&self, topic: &TopicName, partition: i32) -> bool {
        let indexes = self.0.get(topic.0.as_str());
        indexes.is_some_and(|indexes| indexes.contains(&partition))
    }

    /// Code, offset and metadata as the wire carries them: `code` and what is committed, but where a
    /// transaction may move it.
    fn told(
        &self,
        (topic, partition): (&TopicName, i32),
        row: Option<OffsetRow>,
        code: ErrorCode,
    ) -> (i16, i64, StrBytes) {
        let (code, row) = match self.holds(topic, partition) {
            true => (ErrorCode::UnstableOffsetCommit, None),
            false => (code, row),
        };
        let (offset, metadata) = parts(row);
        (code.code(), offset, metadata)
    }
}

/// Answers an OffsetFetch request.
pub async fn handle(cx: &Context, request: OffsetFetchRequest) -> OffsetFetchResponse {
    if cx.version >= BATCHED {
        let ids = request.groups.iter().map(|group| &group.group_id);
        let here = pending_here(cx, ids, request.require_stable);
        let groups = request.groups.into_iter();
        let groups = join_all(groups.map(|group| of_group(cx, group, here.as_ref()))).await;
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
    let here = pending_here(cx, [&request.group_id], request.require_stable);
    let unstable = Unstable::of(cx, &request.group_id, here.as_ref()).await;
    let found = match unstable {
        Ok(unstable) => fetch(cx, &request.group_id, &asked)
            .await
            .map(|found| (found, unstable)),
        Err(code) => Err(code),
    };
    match found {
        Ok((found, unstable)) => {
            response.with_topics(single_topics(found, ErrorCode::None, &unstable))
        }
        Err(code) if cx.version >= GROUP_ERROR => response.with_error_code(code.code()),
        Err(code) => {
            response.with_topics(single_topics(nothing(asked), code, &Unstable::default()))
        }
    }
}

/// What waits for the groups of a request in this process; `None` when it does not ask for stable
/// offsets.
fn pending_here<'a>(
    cx: &Context,
    groups: impl IntoIterator<Item = &'a GroupId>,
    require_stable: bool,
) -> Option<PendingHere> {
    require_stable.then(|| {
        let groups = groups.into_iter().map(|group| group.0.as_str()).collect();
        let transactions = &cx.node.transactions;
        transactions.pending_here(&offsets_tenant(cx), &groups)
    })
}

async fn of_group(
    cx: &Context,
    group: OffsetFetchRequestGroup,
    here: Option<&PendingHere>,
) -> OffsetFetchResponseGroup {
    let group_id = group.group_id.clone();
    let topics = match Unstable::of(cx, &group_id, here).await {
        Ok(unstable) => group_topics(cx, group, &unstable).await,
        Err(code) => Err(code),
    };
    let response = match topics {
        Ok(topics) => OffsetFetchResponseGroup::default().with_topics(topics),
        Err(code) => OffsetFetchResponseGroup::default().with_error_code(code.code()),
    };
    response.with_group_id(group_id)
}

async fn group_topics(
    cx: &Context,
    group: OffsetFetchRequestGroup,
    unstable: &Unstable,
) -> Result<Vec<OffsetFetchResponseTopics>, ErrorCode> {
    if cx.version >= MEMBER_EPOCHS {
        check_member(cx, &group).await?;
    }
    let by_id = cx.version >= TOPIC_IDS;
    let id = group.group_id;
    let Some(topics) = group.topics else {
        let found = fetch(cx, &id, &None).await?;
        return match by_id {
            true => Ok(with_ids(cx, found, unstable).await),
            false => Ok(batched_topics(found, unstable)),
        };
    };
    let asked = topics
        .into_iter()
        .map(|topic| (topic.name, topic.partition_indexes));
    if by_id {
        return fetch_by_id(cx, &id, asked.collect(), unstable).await;
    }
    let found = fetch(cx, &id, &Some(asked.collect())).await?;
    Ok(batched_topics(found, unstable))
}

/// A member reads at its epoch; whoever names no member is outside the group.
async fn check_member(cx: &Context, group: &OffsetFetchRequestGroup) -> Result<(), ErrorCode> {
    let name = GroupName::new(&cx.session.scope, &group.group_id)
        .map_err(|_| ErrorCode::InvalidGroupId)?;
    let epoch = Epoch(group.member_epoch);
    let member = group.member_id.as_deref();
    // Kafka takes an empty id for a member's; clients outside a group send it too.
    let member = member.filter(|id| !id.is_empty() || epoch >= Epoch::JOIN);
    let member = member.map(MemberId::new);
    cx.node.groups.validate_fetch(&name, member, epoch).await
}

/// What is committed for topics by id; one that nobody has is an error of its partitions.
async fn fetch_by_id(
    cx: &Context,
    group: &GroupId,
    asked: Vec<(TopicName, Vec<i32>)>,
    unstable: &Unstable,
) -> Result<Vec<OffsetFetchResponseTopics>, ErrorCode> {
    let (refs, partitions): (Vec<TopicRef>, Vec<Vec<i32>>) = asked
        .into_iter()
        .map(|(name, partitions)| (TopicRef::read(name, true), partitions))
        .unzip();
    let resolved = resolve(cx, &refs).await;
    let known = resolved.iter().zip(&partitions);
    let known = known.filter_map(|(topic, partitions)| {
        let Resolved { name, .. } = topic.as_ref().ok()?;
        Some((name.clone(), partitions.clone()))
    });
    let found = fetch(cx, group, &Some(known.collect())).await?;
    let mut found = batched_topics(found, unstable).into_iter();
    let topics = resolved.into_iter().zip(refs).zip(partitions);
    let topics = topics.map(|((topic, asked), partitions)| {
        let answer = match topic {
            Ok(_) => found.next().unwrap_or_default(),
            Err(code) => {
                let refused = |&index: &i32| {
                    let (offset, metadata) = parts(None);
                    OffsetFetchResponsePartitions::default()
                        .with_partition_index(index)
                        .with_committed_offset(offset)
                        .with_metadata(Some(metadata))
                        .with_error_code(code.code())
                };
                OffsetFetchResponseTopics::default()
                    .with_partitions(partitions.iter().map(refused).collect())
            }
        };
        answer
            .with_name(TopicName::default())
            .with_topic_id(asked.id())
    });
    Ok(topics.collect())
}

/// Names that no topic has now can't be told by id, and are left out as in Kafka.
async fn with_ids(
    cx: &Context,
    found: Found,
    unstable: &Unstable,
) -> Vec<OffsetFetchResponseTopics> {
    let refs: Vec<TopicRef> = found
        .iter()
        .map(|(name, _)| TopicRef::Name(name.clone()))
        .collect();
    let resolved = resolve(cx, &refs).await;
    let topics = batched_topics(found, unstable).into_iter().zip(resolved);
    topics
        .filter_map(|(topic, resolved)| {
            let id = resolved.ok().map(|topic| topic.id)?;
            let answer = topic.with_name(TopicName::default()).with_topic_id(id);
            (!id.is_nil()).then_some(answer)
        })
        .collect()
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

fn single_topics(
    found: Found,
    code: ErrorCode,
    unstable: &Unstable,
) -> Vec<OffsetFetchResponseTopic> {
    let partition = |topic: &TopicName, (index, row): (i32, Option<OffsetRow>)| {
        let (code, offset, metadata) = unstable.told((topic, index), row, code);
        OffsetFetchResponsePartition::default()
            .with_partition_index(index)
            .with_committed_offset(offset)
            .with_metadata(Some(metadata))
            .with_error_code(code)
    };
    found
        .into_iter()
        .map(|(name, rows)| {
            let rows = rows.into_iter().map(|row| partition(&name, row));
            OffsetFetchResponseTopic::default()
                .with_partitions(rows.collect())
                .with_name(name)
        })
        .collect()
}

fn batched_topics(found: Found, unstable: &Unstable) -> Vec<OffsetFetchResponseTopics> {
    let partition = |topic: &TopicName, (index, row): (i32, Option<OffsetRow>)| {
        let (code, offset, metadata) = unstable.told((topic, index), row, ErrorCode::None);
        OffsetFetchResponsePartitions::default()
            .with_partition_index(index)
            .with_committed_offset(offset)
            .with_metadata(Some(metadata))
            .with_error_code(code)
    };
    found
        .into_iter()
        .map(|(name, rows)| {
            let rows = rows.into_iter().map(|row| partition(&name, row));
            OffsetFetchResponseTopics::default()
                .with_partitions(rows.collect())
                .with_name(name)
        })
        .collect()
}
