//! OffsetCommit, versions 2 to 8.
//!
//! - Answered when the offsets are durable in Queen; commits of all groups and connections of a
//!   tenant share calls.
//! - A topic that does not exist is UNKNOWN_TOPIC_OR_PARTITION, as in Kafka; while the topics can't
//!   be read, every legal name is accepted.
//! - Metadata above 4096 bytes is OFFSET_METADATA_TOO_LARGE; an offset below -1, or a name too long
//!   for Queen's keys, INVALID_COMMIT_OFFSET_SIZE. Other partitions of the request are not held up.
//! - Retention time and leader epoch are not kept: offsets never expire.
//!
//! Versions: 3 adds the throttle; 5 drops the retention time; 6 the leader epoch; 7 static members;
//! 8 is flexible.

use std::collections::BTreeMap;
use std::sync::Arc;

use coordinator::classic::{GenerationId, InstanceId, MemberId, MemberRef};
use kafka_protocol::messages::offset_commit_request::{
    OffsetCommitRequestPartition, OffsetCommitRequestTopic,
};
use kafka_protocol::messages::offset_commit_response::{
    OffsetCommitResponsePartition, OffsetCommitResponseTopic,
};
use kafka_protocol::messages::{OffsetCommitRequest, OffsetCommitResponse};
use kafka_wire::ErrorCode;

use crate::context::Context;
use crate::groups::GroupName;
use crate::handlers::group_topics::{known_topics, offsets_tenant};
use crate::offsets::{Change, Commit, MAX_METADATA_BYTES, OffsetKey, OffsetRow, WriteError};
use crate::upstream_errors::{self, Api};

/// The lowest offset a client may commit: "none".
const NO_OFFSET: i64 = -1;

/// Answers an OffsetCommit request.
pub async fn handle(cx: &Context, request: OffsetCommitRequest) -> OffsetCommitResponse {
    let Ok(name) = GroupName::new(&cx.session.scope, &request.group_id) else {
        return respond(request.topics, |_, _| ErrorCode::InvalidGroupId);
    };
    let names: Vec<&str> = request.topics.iter().map(|topic| &**topic.name).collect();
    let known = known_topics(cx, &names).await;
    let mut codes = Codes::default();
    let mut changes = Vec::new();
    let mut places = Vec::new();
    let now_ms = cx.node.host.clock.wall().epoch_ms();
    for (t, (topic, &known)) in request.topics.iter().zip(&known).enumerate() {
        for (p, partition) in topic.partitions.iter().enumerate() {
            if !known || partition.partition_index < 0 {
                codes.set((t, p), ErrorCode::UnknownTopicOrPartition);
                continue;
            }
            match change(&name.id, &topic.name, partition, now_ms) {
                Ok(change) => {
                    changes.push(change);
                    places.push((t, p));
                }
                Err(code) => codes.set((t, p), code),
            }
        }
    }
    if !known.contains(&true) {
        return respond(request.topics, |t, p| codes.get((t, p)));
    }
    let member = MemberRef {
        member_id: MemberId::new(&request.member_id),
        instance_id: request.group_instance_id.as_deref().map(InstanceId::new),
        generation_id: GenerationId(request.generation_id_or_member_epoch),
    };
    let commit = Commit {
        tenant: offsets_tenant(cx),
        group: Arc::clone(&name.id),
        protocol_type: "".into(),
        changes,
    };
    match cx.node.groups.commit(&name, member, commit).await {
        Ok(receipt) => {
            for (place, verdict) in places.into_iter().zip(receipt.verdicts().await) {
                if let Err(error) = verdict {
                    codes.set(place, write_code(cx, &name, &error));
                }
            }
        }
        // The group's refusal stands for every partition that Kafka would have asked it about.
        Err(error) => codes.replace_all(error.error_code(), |code| {
            code != ErrorCode::UnknownTopicOrPartition
        }),
    }
    respond(request.topics, |t, p| codes.get((t, p)))
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
    if partition.committed_offset < NO_OFFSET {
        return Err(ErrorCode::InvalidCommitOffsetSize);
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
    topics: Vec<OffsetCommitRequestTopic>,
    code: impl Fn(usize, usize) -> ErrorCode,
) -> OffsetCommitResponse {
    let partition = |t: usize, p: usize, partition: &OffsetCommitRequestPartition| {
        OffsetCommitResponsePartition::default()
            .with_partition_index(partition.partition_index)
            .with_error_code(code(t, p).code())
    };
    let topics = topics
        .into_iter()
        .enumerate()
        .map(|(t, topic)| {
            let partitions = topic.partitions.iter().enumerate();
            OffsetCommitResponseTopic::default()
                .with_partitions(partitions.map(|(p, of)| partition(t, p, of)).collect())
                .with_name(topic.name)
        })
        .collect();
    OffsetCommitResponse::default().with_topics(topics)
}
