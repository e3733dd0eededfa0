//! TxnOffsetCommit (key 28): versions 0 to 5.
//!
//! - The offsets count when the transaction is committed, with its records or not at all.
//! - The group's rules first: from version 3 on a member is named, and one of another generation is
//!   refused, so that a member that lost its partitions can't commit them.
//! - The group must have been added (AddOffsetsToTxn), or is by this request (version 5). If it was not:
//!   INVALID_TXN_STATE, in version 4 TRANSACTION_ABORTABLE.
//! - A producer that was replaced is INVALID_PRODUCER_EPOCH in every version, as Kafka's: the coordinator
//!   of a group knows epochs and no fences.
//! - Per partition as OffsetCommit: UNKNOWN_TOPIC_OR_PARTITION, OFFSET_METADATA_TOO_LARGE,
//!   INVALID_COMMIT_OFFSET_SIZE (a name too long). With more offsets than a transaction may
//!   hold (62; 10,000 with `QUEEN_KAFKA_TXN_STAGE=queen`) all are INVALID_COMMIT_OFFSET_SIZE and none is
//!   staged.
//!
//! v2: leader epoch. v3: flexible; member, generation, instance (KIP-447). v4: TRANSACTION_ABORTABLE. v5: the
//! group is added by the request (KIP-890).

use std::sync::Arc;

use coordinator::classic::{GenerationId, InstanceId, MemberId, MemberRef};
use coordinator::cluster::rendezvous::Item;
use coordinator::transaction::{Partition, StagedOffset};
use kafka_protocol::messages::txn_offset_commit_request::{
    TxnOffsetCommitRequestPartition, TxnOffsetCommitRequestTopic,
};
use kafka_protocol::messages::txn_offset_commit_response::{
    TxnOffsetCommitResponsePartition, TxnOffsetCommitResponseTopic,
};
use kafka_protocol::messages::{TxnOffsetCommitRequest, TxnOffsetCommitResponse};
use kafka_wire::ErrorCode;

use crate::context::Context;
use crate::groups::{GroupName, owned};
use crate::handlers::group_topics::{TopicRef, offsets_tenant, resolve_up_to};
use crate::handlers::transactional;
use crate::offsets::{MAX_METADATA_BYTES, OffsetKey};

/// No version is answered PRODUCER_FENCED.
const FENCED: i16 = i16::MAX;
/// The version whose clients know TRANSACTION_ABORTABLE and add the group themselves.
const ABORTABLE: i16 = 4;
/// The first version that adds the group by itself.
const TRANSACTIONS_2: i16 = 5;

/// Answers a TxnOffsetCommit request.
pub async fn handle(cx: &Context, request: TxnOffsetCommitRequest) -> TxnOffsetCommitResponse {
    let cluster = cx.node.cluster.as_ref();
    let group = match owned(cluster, &cx.session.scope, &request.group_id) {
        Ok(group) => group,
        Err(refused) => return respond(request.topics, |_, _| refused.error_code()),
    };
    if request.transactional_id.is_empty() {
        return respond(request.topics, |_, _| ErrorCode::InvalidRequest);
    }
    let named = |topic: &TxnOffsetCommitRequestTopic| {
        let indexes = topic.partitions.iter().map(|p| p.partition_index);
        let name = TopicRef::Name(topic.name.clone());
        (name, indexes.max().unwrap_or(-1))
    };
    let (refs, highest): (Vec<_>, Vec<_>) = request.topics.iter().map(named).unzip();
    let resolved = resolve_up_to(cx, &refs, &highest).await;
    let mut codes: Vec<Vec<ErrorCode>> = Vec::with_capacity(request.topics.len());
    let mut offsets = Vec::new();
    for (topic, resolved) in request.topics.iter().zip(resolved) {
        let name: Arc<str> = Arc::from(&**topic.name);
        let judge = |partition: &TxnOffsetCommitRequestPartition| {
            let known = resolved
                .as_ref()
                .is_ok_and(|topic| topic.has_partition(partition.partition_index));
            if !known {
                return Err(ErrorCode::UnknownTopicOrPartition);
            }
            staged(&group.id, &name, partition)
        };
        let of_topic = topic
            .partitions
            .iter()
            .map(|partition| match judge(partition) {
                Ok(offset) => {
                    offsets.push(offset);
                    ErrorCode::None
                }
                Err(code) => code,
            });
        codes.push(of_topic.collect());
    }
    if !offsets.is_empty()
        && let Err(code) = stage(cx, &request, &group, offsets).await
    {
        // The refusal stands for every partition that has none of its own.
        for own in codes.iter_mut().flatten() {
            if *own == ErrorCode::None {
                *own = code;
            }
        }
    }
    respond(request.topics, |t, p| codes[t][p])
}

async fn stage(
    cx: &Context,
    request: &TxnOffsetCommitRequest,
    group: &GroupName,
    offsets: Vec<(Partition, StagedOffset)>,
) -> Result<(), ErrorCode> {
    let id = &request.transactional_id;
    let code = |failure| match transactional::code(cx, id, &failure, FENCED) {
        ErrorCode::InvalidTxnState if cx.version == ABORTABLE => ErrorCode::TransactionAbortable,
        code => code,
    };
    let producer = transactional::producer(request.producer_id, request.producer_epoch);
    let producer = producer.map_err(code)?;
    let member = MemberRef {
        member_id: MemberId::new(&request.member_id),
        instance_id: request.group_instance_id.as_deref().map(InstanceId::new),
        generation_id: GenerationId(request.generation_id),
    };
    let groups = &cx.node.groups;
    groups
        .may_commit_in_transaction(group, member.clone())
        .await?;
    let tenant = offsets_tenant(cx);
    let implicit = cx.version >= TRANSACTIONS_2;
    let transactions = &cx.node.transactions;
    transactions
        .stage_offsets(&tenant, id, producer, &group.id, offsets, implicit)
        .await
        .map_err(code)?;
    // Whoever took the partitions over meanwhile may have read their offsets before these were
    // pending: the client hears so, and aborts. At another node too, should the group have moved.
    if let Some(cluster) = &cx.node.cluster
        && !cluster.confirms(Item::Group(&group.id)).await
    {
        return Err(ErrorCode::NotCoordinator);
    }
    groups.may_commit_in_transaction(group, member).await
}

fn staged(
    group: &str,
    topic: &Arc<str>,
    partition: &TxnOffsetCommitRequestPartition,
) -> Result<(Partition, StagedOffset), ErrorCode> {
    let metadata = partition.committed_metadata.as_deref().unwrap_or_default();
    if metadata.len() > MAX_METADATA_BYTES {
        return Err(ErrorCode::OffsetMetadataTooLarge);
    }
    let index = partition.partition_index;
    if OffsetKey::new(group, topic, index).is_none() {
        return Err(ErrorCode::InvalidCommitOffsetSize);
    }
    let offset = StagedOffset {
        offset: partition.committed_offset,
        metadata: Some(metadata.to_owned()),
    };
    Ok(((Arc::clone(topic), index), offset))
}

fn respond(
    topics: Vec<TxnOffsetCommitRequestTopic>,
    code: impl Fn(usize, usize) -> ErrorCode,
) -> TxnOffsetCommitResponse {
    let topics = topics.into_iter().enumerate().map(|(t, topic)| {
        let partitions = topic.partitions.iter().enumerate().map(|(p, partition)| {
            TxnOffsetCommitResponsePartition::default()
                .with_partition_index(partition.partition_index)
                .with_error_code(code(t, p).code())
        });
        TxnOffsetCommitResponseTopic::default()
            .with_partitions(partitions.collect())
            .with_name(topic.name)
    });
    TxnOffsetCommitResponse::default().with_topics(topics.collect())
}
