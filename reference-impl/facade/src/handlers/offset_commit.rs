//! OffsetCommit, versions 2 to 10.
//!
//! - Answered when the offsets are durable in Queen; commits of all groups and connections of a
//!   tenant share calls.
//! - A topic or partition that does not exist is UNKNOWN_TOPIC_OR_PARTITION, as in Kafka; while the
//!   topics can't be read, every legal name is accepted.
//! - A member of the consumer protocol commits at its epoch from version 9 on; one that has moved on
//!   since still commits what it has owned without interruption (KIP-1251), and the rest is
//!   STALE_MEMBER_EPOCH.
//! - A topic id nobody has is UNKNOWN_TOPIC_ID, COORDINATOR_NOT_AVAILABLE while topics can't be read.
//! - Metadata above 4096 bytes is OFFSET_METADATA_TOO_LARGE; a name too long for Queen's keys,
//!   INVALID_COMMIT_OFFSET_SIZE. Other partitions of the request are not held up.
//! - Any offset is kept, as Kafka keeps it: KafkaJS commits −2 to say "the beginning" after an offset
//!   that was out of range.
//! - Retention time and leader epoch are not kept: offsets never expire.
//!
//! Versions: 3 adds the throttle; 5 drops the retention time; 6 the leader epoch; 7 static members;
//! 8 is flexible; 9 member epochs (KIP-848); 10 topic ids in place of names.

use std::collections::BTreeMap;
use std::sync::Arc;

use coordinator::classic::{GenerationId, InstanceId, MemberId, MemberRef};
use coordinator::consumer::TopicPartition;
use kafka_protocol::messages::offset_commit_request::{
    OffsetCommitRequestPartition, OffsetCommitRequestTopic,
};
use kafka_protocol::messages::offset_commit_response::{
    OffsetCommitResponsePartition, OffsetCommitResponseTopic,
};
use kafka_protocol::messages::{OffsetCommitRequest, OffsetCommitResponse};
use kafka_wire::ErrorCode;

use crate::context::Context;
use crate::groups::{Committer, GroupName};
use crate::handlers::group_topics::{TopicRef, offsets_tenant, resolve_up_to};
use crate::offsets::{Change, Commit, MAX_METADATA_BYTES, OffsetKey, OffsetRow, WriteError};
use crate::upstream_errors::{self, Api};

/// The first version in which a member of the consumer protocol may commit.
const MEMBER_EPOCHS: i16 = 9;
/// The first version that names topics by id.
const TOPIC_IDS: i16 = 10;

/// The code of a topic that does not exist.
fn is_unknown_topic(code: ErrorCode) -> bool {
    matches!(
        code,
        ErrorCode::UnknownTopicOrPartition | ErrorCode::UnknownTopicId
    )
}

/// Answers an OffsetCommit request.
pub async fn handle(cx: &Context, request: OffsetCommitRequest) -> OffsetCommitResponse {
    let by_id = cx.version >= TOPIC_IDS;
    let refer =
        |topic: OffsetCommitRequestTopic| (TopicRef::read(topic.name, by_id), topic.partitions);
    let (refs, partitions): (Vec<_>, Vec<_>) = request.topics.into_iter().map(refer).unzip();
    let name = match cx.group(&request.group_id) {
        Ok(name) => name,
        Err(error) => return respond(&refs, &partitions, |_, _| error.error_code()),
    };
    let highest = |of: &Vec<OffsetCommitRequestPartition>| {
        let indexes = of.iter().map(|partition| partition.partition_index);
        indexes.max().unwrap_or(-1)
    };
    let highest: Vec<i32> = partitions.iter().map(highest).collect();
    let resolved = resolve_up_to(cx, &refs, &highest).await;
    let mut codes = Codes::default();
    let mut changes = Vec::new();
    let mut places = Vec::new();
    let mut committed = Vec::new();
    let now_ms = cx.node.host.clock.wall().epoch_ms();
    for (t, (topic, partitions)) in resolved.iter().zip(&partitions).enumerate() {
        for (p, partition) in partitions.iter().enumerate() {
            let topic = match topic {
                Ok(topic) if topic.has_partition(partition.partition_index) => Ok(topic),
                Ok(_) => Err(ErrorCode::UnknownTopicOrPartition),
                Err(code) => Err(*code),
            };
            let changed = topic.and_then(|topic| {
                let change = change(&name.id, &topic.name, partition, now_ms)?;
                Ok((topic.id, change))
            });
            match changed {
                Ok((id, change)) => {
                    changes.push(change);
                    places.push((t, p));
                    committed.push(TopicPartition::new(id, partition.partition_index));
                }
                Err(code) => codes.set((t, p), code),
            }
        }
    }
    if resolved.iter().all(Result::is_err) {
        return respond(&refs, &partitions, |t, p| codes.get((t, p)));
    }
    let committer = Committer {
        member: MemberRef {
            member_id: MemberId::new(&request.member_id),
            instance_id: request.group_instance_id.as_deref().map(InstanceId::new),
            generation_id: GenerationId(request.generation_id_or_member_epoch),
        },
        knows_epochs: cx.version >= MEMBER_EPOCHS,
        partitions: committed,
    };
    let commit = Commit {
        tenant: offsets_tenant(cx),
        group: Arc::clone(&name.id),
        protocol_type: "".into(),
        changes,
    };
    // A transaction's offsets that are not in their places yet must not land over these.
    if let Err(error) = cx.node.offsets.fold(&commit.tenant, &name.id).await {
        let code = write_code(cx, &name, &WriteError::Queen(error));
        codes.replace_all(code, |own| !is_unknown_topic(own));
        return respond(&refs, &partitions, |t, p| codes.get((t, p)));
    }
    match cx.node.groups.commit(&name, committer, commit).await {
        Ok(accepted) => {
            let mut verdicts = accepted.receipt.verdicts().await.into_iter();
            for (place, own) in places.into_iter().zip(accepted.own) {
                if !own {
                    codes.set(place, ErrorCode::StaleMemberEpoch);
                } else if let Some(Err(error)) = verdicts.next() {
                    codes.set(place, write_code(cx, &name, &error));
                }
            }
        }
        // The group's refusal stands for every partition that Kafka would have asked it about.
        Err(code) => codes.replace_all(code, |own| !is_unknown_topic(own)),
    }
    respond(&refs, &partitions, |t, p| codes.get((t, p)))
}

fn change(
    group: &str,
    topic: &str,
    partition: &OffsetCommitRequestPartition,
    now_ms: i64,
) -> Result<(OffsetKey, Change), ErrorCode> {
    let metadata = partition.committed_metadata.as_deref().unwrap_or_default();
    if metadata.len() > MAX_METADATA_BYTES {
        return Err(ErrorCode::OffsetMetadataTooLarge);
    }
    let key = OffsetKey::new(group, topic, partition.partition_index)
        .ok_or(ErrorCode::InvalidCommitOffsetSize)?;
    let row = OffsetRow {
        offset: partition.committed_offset,
        metadata: Some(metadata.to_owned()),
        ts: now_ms,
    };
    Ok((key, Change::Put(row)))
}

/// The code of a row that was not written; the response has no place for the reason, so the log does.
pub(super) fn write_code(cx: &Context, name: &GroupName, error: &WriteError) -> ErrorCode {
    if let Some(suppressed) = cx.node.groups.may_warn() {
        tracing::warn!(group = ?name.id, %error, suppressed, "offsets were not written");
    }
    match error {
        WriteError::Busy | WriteError::Contended => ErrorCode::CoordinatorNotAvailable,
        WriteError::NotOwner => ErrorCode::NotCoordinator,
        WriteError::NotApplied => ErrorCode::UnknownServerError,
        WriteError::Queen(error) => upstream_errors::answer(Api::Group, cx.version, error).code,
    }
}

/// The codes of partitions that have one other than NONE.
#[derive(Debug, Default)]
struct Codes {
    by_place: BTreeMap<(usize, usize), ErrorCode>,
    rest: Option<ErrorCode>,
}

impl Codes {
    fn set(&mut self, place: (usize, usize), code: ErrorCode) {
        self.by_place.insert(place, code);
    }

    /// Gives `code` to every partition but those whose own code is not to be `replaced`.
    fn replace_all(&mut self, code: ErrorCode, replaced: impl Fn(ErrorCode) -> bool) {
        self.by_place.retain(|_, own| !replaced(*own));
        self.rest = Some(code);
    }

    fn get(&self, place: (usize, usize)) -> ErrorCode {
        let own = self.by_place.get(&place).copied();
        own.or(self.rest).unwrap_or(ErrorCode::None)
    }
}

fn respond(
    refs: &[TopicRef],
    partitions: &[Vec<OffsetCommitRequestPartition>],
    code: impl Fn(usize, usize) -> ErrorCode,
) -> OffsetCommitResponse {
    let partition = |t: usize, p: usize, partition: &OffsetCommitRequestPartition| {
        OffsetCommitResponsePartition::default()
            .with_partition_index(partition.partition_index)
            .with_error_code(code(t, p).code())
    };
    let topics = refs.iter().zip(partitions).enumerate();
    let topics = topics.map(|(t, (topic, partitions))| {
        let partitions = partitions.iter().enumerate();
        OffsetCommitResponseTopic::default()
            .with_name(topic.name())
            .with_topic_id(topic.id())
            .with_partitions(partitions.map(|(p, of)| partition(t, p, of)).collect())
    });
    OffsetCommitResponse::default().with_topics(topics.collect())
}
