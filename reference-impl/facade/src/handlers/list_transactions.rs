//! ListTransactions (key 66): versions 0 to 2.
//!
//! - Every transactional id that this node coordinates, those included that nobody used since it
//!   started: their markers are in Queen.
//! - Filters by state, producer id, duration and name. States Kafka doesn't have are named in the
//!   answer. A pattern that isn't a regular expression (RE2 syntax, matched in linear time):
//!   INVALID_REGULAR_EXPRESSION.
//!
//! v1: duration filter. v2: pattern of transactional ids (KIP-1152).

use kafka_protocol::messages::list_transactions_response::TransactionState;
use kafka_protocol::messages::{
    ListTransactionsRequest, ListTransactionsResponse, ProducerId, TransactionalId,
};
use kafka_protocol::protocol::StrBytes;
use kafka_wire::ErrorCode;

use crate::context::Context;
use crate::handlers::group_topics::offsets_tenant;
use crate::handlers::transactional;
use crate::transactions::Listed;

/// Kafka's states, all that a filter may name.
const STATES: &[&str] = &[
    "Empty",
    "Ongoing",
    "PrepareCommit",
    "PrepareAbort",
    "CompleteCommit",
    "CompleteAbort",
    "PrepareEpochFence",
    "Dead",
];
/// Compiled size of a pattern.
const MAX_PATTERN_BYTES: usize = 1 << 20;

/// Answers a ListTransactions request.
pub async fn handle(cx: &Context, request: ListTransactionsRequest) -> ListTransactionsResponse {
    let response = ListTransactionsResponse::default();
    let known = |state: &StrBytes| STATES.contains(&&**state);
    let unknown: Vec<StrBytes> = request
        .state_filters
        .iter()
        .filter(|state| !known(state))
        .cloned()
        .collect();
    let pattern = request.transactional_id_pattern.as_deref();
    let pattern = match pattern.filter(|text| !text.is_empty()).map(compile) {
        None => None,
        Some(Some(pattern)) => Some(pattern),
        Some(None) => {
            return response.with_error_code(ErrorCode::InvalidRegularExpression.code());
        }
    };
    let listed = match cx.node.transactions.list(&offsets_tenant(cx)).await {
        Ok(listed) => listed,
        Err(failure) => {
            let code = transactional::code(cx, "", &failure, 0);
            return response.with_error_code(code.code());
        }
    };
    let states = &request.state_filters;
    let producers = &request.producer_id_filters;
    let wanted = |listed: &Listed| {
        let name = listed.phase.name();
        (states.is_empty() || states.iter().any(|state| &**state == name))
            && (producers.is_empty() || producers.iter().any(|id| id.0 == listed.producer.id.0))
            && (request.duration_filter < 0
                || listed
                    .age_ms
                    .is_some_and(|age| age > request.duration_filter))
            && pattern
                .as_ref()
                .is_none_or(|pattern| pattern.is_match(&listed.id))
    };
    let states = listed.into_iter().filter(wanted).map(|listed| {
        let id = StrBytes::from_string(listed.id.to_string());
        TransactionState::default()
            .with_transactional_id(TransactionalId(id))
            .with_producer_id(ProducerId(listed.producer.id.0))
            .with_transaction_state(StrBytes::from_static_str(listed.phase.name()))
    });
    response
        .with_transaction_states(states.collect())
        .with_unknown_state_filters(unknown)
}

/// Kafka matches whole names.
fn compile(pattern: &str) -> Option<regex::Regex> {
    regex::RegexBuilder::new(&format!("^(?:{pattern})$"))
        .size_limit(MAX_PATTERN_BYTES)
        .build()
        .ok()
}
