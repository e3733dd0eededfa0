//! AddPartitionsToTxn (key 24): versions 0 to 3. Later ones are between brokers.
//!
//! - All partitions or none: with one that doesn't exist, it gets UNKNOWN_TOPIC_OR_PARTITION and the
//!   others OPERATION_NOT_ATTEMPTED, as in Kafka. While the topics can't be read, every legal name is
//!   accepted. No topic is created.
//! - The first partition begins the transaction, and its time.
//! - Beyond 200 partitions (10,000 with `QUEEN_KAFKA_TXN_STAGE=queen`): MESSAGE_TOO_LARGE, which makes
//!   clients abort. Too many open transactions: CONCURRENT_TRANSACTIONS.
//!
//! v2: PRODUCER_FENCED. v3: flexible.

use std::sync::Arc;

use coordinator::transaction::Partition;
use kafka_protocol::messages::add_partitions_to_txn_request::AddPartitionsToTxnTopic;
use kafka_protocol::messages::add_partitions_to_txn_response::{
    AddPartitionsToTxnPartitionResult, AddPartitionsToTxnTopicResult,
};
use kafka_protocol::messages::{AddPartitionsToTxnRequest, AddPartitionsToTxnResponse};
use kafka_wire::ErrorCode;

use crate::context::Context;
use crate::handlers::group_topics::{known_partitions, offsets_tenant};
use crate::handlers::transactional;

/// The first version that knows PRODUCER_FENCED.
const FENCED: i16 = 2;

/// Answers an AddPartitionsToTxn request.
pub async fn handle(
    cx: &Context,
    request: AddPartitionsToTxnRequest,
) -> AddPartitionsToTxnResponse {
    let topics = request.v3_and_below_topics;
    let id = request.v3_and_below_transactional_id;
    if id.is_empty() {
        return respond(topics, |_, _| ErrorCode::InvalidRequest);
    }
    let asked: Vec<(&str, &[i32])> = topics
        .iter()
        .map(|topic| (&**topic.name, topic.partitions.as_slice()))
        .collect();
    let known = known_partitions(cx, &asked).await;
    if known.iter().flatten().any(|known| !known) {
        return respond(topics, |t, p| match known[t][p] {
            true => ErrorCode::OperationNotAttempted,
            false => ErrorCode::UnknownTopicOrPartition,
        });
    }
    let mut partitions: Vec<Partition> = Vec::new();
    for (name, indexes) in asked {
        let name: Arc<str> = name.into();
        partitions.extend(indexes.iter().map(|index| (Arc::clone(&name), *index)));
    }
    let (pid, epoch) = (
        request.v3_and_below_producer_id,
        request.v3_and_below_producer_epoch,
    );
    let added = match transactional::producer(pid, epoch) {
        Ok(producer) => {
            let tenant = offsets_tenant(cx);
            let transactions = &cx.node.transactions;
            transactions
                .add_partitions(&tenant, &id, producer, &partitions)
                .await
        }
        Err(failure) => Err(failure),
    };
    let code = match added {
        Ok(()) => ErrorCode::None,
        Err(failure) => transactional::code(cx, &id, &failure, FENCED),
    };
    respond(topics, |_, _| code)
}

fn respond(
    topics: Vec<AddPartitionsToTxnTopic>,
    code: impl Fn(usize, usize) -> ErrorCode,
) -> AddPartitionsToTxnResponse {
    let results = topics.into_iter().enumerate().map(|(t, topic)| {
        let partitions = topic.partitions.iter().enumerate().map(|(p, index)| {
            AddPartitionsToTxnPartitionResult::default()
                .with_partition_index(*index)
                .with_partition_error_code(code(t, p).code())
        });
        AddPartitionsToTxnTopicResult::default()
            .with_results_by_partition(partitions.collect())
            .with_name(topic.name)
    });
    AddPartitionsToTxnResponse::default().with_results_by_topic_v3_and_below(results.collect())
}
