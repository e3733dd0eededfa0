//! DescribeTransactions (key 65): version 0.
//!
//! - State, producer, timeout and partitions of each id that this node coordinates.
//! - An id that was never initialised: TRANSACTIONAL_ID_NOT_FOUND. An empty one: INVALID_REQUEST.
//! - A process that has just taken an id over says `CompleteCommit` or `CompleteAbort` of what the
//!   marker says.

use std::collections::BTreeMap;

use kafka_protocol::messages::describe_transactions_response::{TopicData, TransactionState};
use kafka_protocol::messages::{
    DescribeTransactionsRequest, DescribeTransactionsResponse, ProducerId, TopicName,
    TransactionalId,
};
use kafka_protocol::protocol::StrBytes;
use kafka_wire::ErrorCode;

use crate::context::Context;
use crate::handlers::group_topics::offsets_tenant;
use crate::handlers::transactional;
use crate::transactions::Described;

/// Answers a DescribeTransactions request.
pub async fn handle(
    cx: &Context,
    request: DescribeTransactionsRequest,
) -> DescribeTransactionsResponse {
    let mut states = Vec::with_capacity(request.transactional_ids.len());
    for id in request.transactional_ids {
        states.push(describe(cx, id).await);
    }
    DescribeTransactionsResponse::default().with_transaction_states(states)
}

async fn describe(cx: &Context, id: TransactionalId) -> TransactionState {
    let refused = |id, code: ErrorCode| {
        TransactionState::default()
            .with_transactional_id(id)
            .with_error_code(code.code())
            .with_producer_id(ProducerId(-1))
            .with_producer_epoch(-1)
            .with_transaction_start_time_ms(-1)
    };
    if id.is_empty() {
        return refused(id, ErrorCode::InvalidRequest);
    }
    let tenant = offsets_tenant(cx);
    match cx.node.transactions.describe(&tenant, &id).await {
        Ok(Some(described)) => state(id, described),
        Ok(None) => refused(id, ErrorCode::TransactionalIdNotFound),
        Err(failure) => {
            let code = transactional::code(cx, &id, &failure, 0);
            refused(id, code)
        }
    }
}

fn state(id: TransactionalId, described: Described) -> TransactionState {
    let description = described.description;
    let mut topics: BTreeMap<&str, Vec<i32>> = BTreeMap::new();
    for (topic, partition) in &description.partitions {
        topics.entry(topic).or_default().push(*partition);
    }
    let topics = topics.into_iter().map(|(name, partitions)| {
        TopicData::default()
            .with_topic(TopicName(StrBytes::from_string(name.to_owned())))
            .with_partitions(partitions)
    });
    let timeout = description.timeout.as_millis();
    let producer = description.producer;
    TransactionState::default()
        .with_transactional_id(id)
        .with_transaction_state(StrBytes::from_static_str(description.phase.name()))
        .with_transaction_timeout_ms(i32::try_from(timeout).unwrap_or(i32::MAX))
        .with_transaction_start_time_ms(described.began_ms.unwrap_or(-1))
        .with_producer_id(ProducerId(producer.map_or(-1, |producer| producer.id.0)))
        .with_producer_epoch(producer.map_or(-1, |producer| producer.epoch.get()))
        .with_topics(topics.collect())
}
