//! `GET` and `DELETE /api/v1/dlq`: records that groups gave up, newest first.

use http::Method;
use serde::Serialize;
use serde_json::json;
use serde_json::value::RawValue;
use uuid::Uuid;

use super::Call;
use crate::engine::native::admin;
use crate::engine::native::rows::DeadLetterRow;
use crate::http::error::ApiError;
use crate::http::reply::Reply;
use crate::time;

/// Rows shown when no limit is named.
const DEFAULT_LIMIT: usize = 100;
/// Rows shown at most.
const MAX_LIMIT: usize = 1000;

/// Answers.
///
/// # Errors
/// 400 for a removal that names no queue, 500 for the store.
pub async fn handle(call: &Call<'_>, method: &Method) -> Result<Reply, ApiError> {
    if *method == Method::DELETE {
        return purge(call).await;
    }
    Ok(list(call))
}

fn filter(call: &Call<'_>, name: &str) -> Option<String> {
    call.parameter(name).filter(|value| !value.is_empty())
}

fn list(call: &Call<'_>) -> Reply {
    let number = |name| filter(call, name).and_then(|text| text.parse::<usize>().ok());
    let limit = number("limit").unwrap_or(DEFAULT_LIMIT).min(MAX_LIMIT);
    let skip = number("offset").unwrap_or(0);
    let instant = |name| filter(call, name).and_then(|text| time::parse_ms(&text));
    let (from_ms, to_ms) = (instant("from"), instant("to"));
    let (queue, group) = (filter(call, "queue"), filter(call, "consumerGroup"));
    let lane = filter(call, "partition");
    let state = call.node.engine.shared.read();
    let mut rows = Vec::new();
    for (queue_name, data) in state
        .tenant(call.tenant)
        .into_iter()
        .flat_map(|t| &t.queues)
    {
        if queue.as_ref().is_some_and(|name| **name != **queue_name) {
            continue;
        }
        for (lane_name, data) in &data.lanes {
            if lane.as_ref().is_some_and(|name| **name != **lane_name) {
                continue;
            }
            let letters = data.consumers.dead_letters.values();
            rows.extend(
                letters
                    .filter(|row| group.as_ref().is_none_or(|group| *group == *row.group))
                    .filter(|row| from_ms.is_none_or(|from| row.failed_ms >= from))
                    .filter(|row| to_ms.is_none_or(|to| row.failed_ms <= to))
                    .map(|row| (queue_name, lane_name, data.row.id, row)),
            );
        }
    }
    rows.sort_by_key(|(.., row)| std::cmp::Reverse(row.failed_ms));
    let messages: Vec<Message<'_>> = rows
        .into_iter()
        .skip(skip)
        .take(limit)
        .map(|(queue, lane, lane_id, row)| Message::of(queue, lane, lane_id, row))
        .collect();
    let list = List {
        total: messages.len(),
        messages,
        pagination: Pagination {
            limit,
            offset: skip,
        },
    };
    // Strings, numbers and payloads that were JSON when they were pushed: always JSON.
    Reply::ok(serde_json::to_vec(&list).unwrap_or_default())
}

#[derive(Serialize)]
struct List<'a> {
    messages: Vec<Message<'a>>,
    pagination: Pagination,
    total: usize,
}

#[derive(Serialize)]
struct Pagination {
    limit: usize,
    offset: usize,
}

/// A row as it is shown; its payload verbatim, which a tree of values wouldn't keep.
#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct Message<'a> {
    id: Uuid,
    transaction_id: &'a str,
    partition_id: Uuid,
    queue: &'a str,
    partition: &'a str,
    consumer_group: &'a str,
    error_message: &'a str,
    retry_count: i64,
    data: Option<Box<RawValue>>,
    producer_sub: Option<&'a str>,
    created_at: String,
    failed_at: String,
}

impl<'a> Message<'a> {
    fn of(queue: &'a str, partition: &'a str, partition_id: Uuid, row: &'a DeadLetterRow) -> Self {
        Self {
            id: row.id,
            transaction_id: &row.transaction_id,
            partition_id,
            queue,
            partition,
            consumer_group: &row.group,
            error_message: &row.error,
            retry_count: row.retries,
            data: RawValue::from_string(row.payload.to_string()).ok(),
            producer_sub: None,
            created_at: time::millis_string(row.failed_ms),
            failed_at: time::millis_string(row.failed_ms),
        }
    }
}

async fn purge(call: &Call<'_>) -> Result<Reply, ApiError> {
    let queue = filter(call, "queue").ok_or(ApiError::BadRequest("queue is required"))?;
    let group = filter(call, "consumerGroup");
    let writer = call.node.engine.writer();
    let deleted = admin::purge(
        writer,
        call.tenant,
        queue.as_str().into(),
        group.as_deref().map(Into::into),
    )
    .await?;
    Ok(Reply::value(&json!({
        "success": true,
        "deleted": deleted,
        "queue": queue,
        "consumerGroup": group,
    })))
}
