//! `GET /api/v1/consumer-groups`, `…/lagging` and `…/:group`: progress of groups. Contract
//! section 10. Kafka's rows are derived from the KV store; no lane has native consumers.

use std::collections::BTreeMap;

use serde_json::{Map, Value, json};

use super::Call;
use crate::engine::groups::{self, Cursor};
use crate::http::error::ApiError;
use crate::http::reply::Reply;
use crate::time;

/// A group that waits longer than this is `Lagging`.
const LAGGING_S: i64 = 300;
/// `minLagSeconds` when it isn't named.
const DEFAULT_MIN_LAG_S: i64 = 3600;

/// Answers the list.
///
/// # Errors
/// The store.
pub async fn list(call: &Call<'_>) -> Result<Reply, ApiError> {
    let cursors = cursors(call).await?;
    let mut by_group: BTreeMap<&str, Vec<&Cursor>> = BTreeMap::new();
    for cursor in &cursors {
        by_group.entry(&cursor.group).or_default().push(cursor);
    }
    let rows: Vec<Value> = by_group
        .into_iter()
        .map(|(group, cursors)| row(group, &cursors))
        .collect();
    Ok(Reply::value(&Value::from(rows)))
}

fn row(group: &str, cursors: &[&Cursor]) -> Value {
    let mut topics: Vec<&str> = cursors.iter().map(|cursor| cursor.queue.as_str()).collect();
    topics.dedup();
    let max_time_lag = cursors.iter().map(|c| c.time_lag_s).max().unwrap_or(0);
    json!({
        "name": group,
        "queueName": topics.first(),
        "topics": topics,
        "members": 0,
        "partitionCursors": cursors.len(),
        "partitionsWithLag": cursors.iter().filter(|cursor| cursor.lag > 0).count(),
        "totalLag": cursors.iter().map(|cursor| cursor.lag).sum::<u64>(),
        "maxTimeLag": max_time_lag,
        "state": if max_time_lag > LAGGING_S { "Lagging" } else { "Stable" },
        "storage": "segments",
        "subscriptionMode": null,
        "subscriptionTimestamp": null,
        "subscriptionCreatedAt": null,
        "conflation": false,
        "kind": "kafka",
    })
}

/// Answers with lanes whose oldest unread record waits longer than `minLagSeconds`.
///
/// # Errors
/// The store.
pub async fn lagging(call: &Call<'_>) -> Result<Reply, ApiError> {
    let min_lag_s = call
        .parameter("minLagSeconds")
        .and_then(|text| text.parse().ok())
        .unwrap_or(DEFAULT_MIN_LAG_S);
    let rows: Vec<Value> = cursors(call)
        .await?
        .iter()
        .filter(|cursor| cursor.lag > 0 && cursor.time_lag_s >= min_lag_s)
        .map(|cursor| {
            json!({
                "consumer_group": cursor.group,
                "queue_name": cursor.queue,
                "partition_name": cursor.lane,
                "worker_id": null,
                "offset_lag": cursor.lag,
                "time_lag_seconds": cursor.time_lag_s,
                "kind": "kafka",
            })
        })
        .collect();
    Ok(Reply::value(&Value::from(rows)))
}

/// Answers for one group, by queue.
///
/// # Errors
/// The store.
pub async fn one(call: &Call<'_>, group: &str) -> Result<Reply, ApiError> {
    let cursors = cursors(call).await?;
    let mut by_queue: Map<String, Value> = Map::new();
    for cursor in cursors.iter().filter(|cursor| cursor.group == group) {
        let queue = by_queue
            .entry(cursor.queue.clone())
            .or_insert_with(|| json!({"conflation": false, "kind": "kafka", "partitions": []}));
        if let Some(Value::Array(partitions)) = queue.get_mut("partitions") {
            partitions.push(json!({
                "partition": cursor.lane,
                "workerId": null,
                "lastConsumedAt": time::millis_string(cursor.committed_ms),
                "totalConsumed": cursor.next_offset,
                "offsetLag": cursor.lag,
                "timeLagSeconds": cursor.time_lag_s,
                "leaseActive": false,
            }));
        }
    }
    Ok(Reply::value(&Value::Object(by_queue)))
}

async fn cursors(call: &Call<'_>) -> Result<Vec<Cursor>, ApiError> {
    Ok(groups::kafka_cursors(&call.node.engine.shared, call.tenant).await?)
}
