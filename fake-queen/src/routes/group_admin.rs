//! `DELETE /api/v1/consumer-groups/…`, `POST …/subscription`, `POST …/seek`: native groups only,
//! whatever Kafka committed under the same name stays. Contract section 10.

use http::StatusCode;
use serde_json::{Value, json};

use super::Call;
use super::fetch_offsets::instant_ms;
use crate::engine::native::admin::{self, Target};
use crate::http::error::ApiError;
use crate::http::reply::Reply;
use crate::time;

/// Forgets a group in one queue, or in all.
///
/// # Errors
/// 500 for the store.
pub async fn delete(call: &Call<'_>, group: &str, queue: Option<&str>) -> Result<Reply, ApiError> {
    let registrations = call.parameter("deleteMetadata").as_deref() != Some("false");
    let writer = call.node.engine.writer();
    let deleted = admin::forget(
        writer,
        call.tenant,
        queue.map(Into::into),
        group.into(),
        registrations,
    )
    .await?;
    let mut body = json!({
        "success": true,
        "consumerGroup": group,
        "deletedPartitions": deleted,
        "metadataDeleted": registrations,
    });
    if let Some(queue) = queue {
        body["queueName"] = Value::from(queue);
    }
    Ok(Reply::value(&body))
}

/// Changes the instant a group's registrations name; no cursor moves.
///
/// # Errors
/// 400 without an instant, 500 for the store.
pub async fn subscription(call: &Call<'_>, group: &str) -> Result<Reply, ApiError> {
    const MISSING: ApiError = ApiError::BadRequest("subscriptionTimestamp is required");
    let body: Value = call.json()?;
    let timestamp = body.get("subscriptionTimestamp").ok_or(MISSING)?;
    let since_ms = instant_ms(timestamp).ok_or(MISSING)?;
    let writer = call.node.engine.writer();
    let updated = admin::resubscribe(writer, call.tenant, group.into(), since_ms).await?;
    Ok(Reply::value(&json!({
        "success": true,
        "consumerGroup": group,
        "newTimestamp": timestamp,
        "rowsUpdated": updated,
    })))
}

/// Moves a group in one lane of a queue, or in all.
///
/// # Errors
/// 400 for a body that names no target, 500 for the store. A queue or lane that isn't there is a
/// 404 with a body of its own.
pub async fn seek(
    call: &Call<'_>,
    group: &str,
    queue: &str,
    lane: Option<&str>,
) -> Result<Reply, ApiError> {
    let target = target(call, lane.is_some())?;
    let engine = &call.node.engine;
    let moved = admin::seek(
        &engine.shared,
        engine.writer(),
        call.tenant,
        queue,
        lane,
        group.into(),
        target,
    )
    .await?;
    let mut body = json!({
        "success": moved > 0,
        "consumerGroup": group,
        "queueName": queue,
        "seekToEnd": target == Target::End,
        "targetTimestamp": match target {
            Target::End => None,
            Target::Since(ms) => Some(time::millis_string(ms)),
        },
    });
    match lane {
        Some(lane) => {
            body["partitionName"] = Value::from(lane);
            body["updated"] = Value::from(moved > 0);
        }
        None => body["partitionsUpdated"] = Value::from(moved),
    }
    if moved > 0 {
        return Ok(Reply::value(&body));
    }
    body["error"] = Value::from(match lane {
        Some(_) => "Partition not found",
        None => "Queue not found or has no partitions",
    });
    Ok(Reply::json(StatusCode::NOT_FOUND, body.to_string()))
}

fn target(call: &Call<'_>, one_lane: bool) -> Result<Target, ApiError> {
    if call.body.is_empty() && one_lane {
        return Ok(Target::End);
    }
    let body: Value = call.json()?;
    if body.get("toEnd") == Some(&Value::Bool(true)) {
        return Ok(Target::End);
    }
    body.get("timestamp")
        .and_then(instant_ms)
        .map(Target::Since)
        .ok_or(ApiError::BadRequest(
            "Must specify toEnd=true or a timestamp",
        ))
}
