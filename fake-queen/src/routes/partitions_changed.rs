//! `POST /api/v1/partitions/changed`: lanes by name, with those written since an instant. Contract
//! section 4.9. 1.5 and later. `after` and `next` are lane names, in byte order.

use std::ops::Bound;

use serde::Deserialize;
use serde_json::{Value, json};

use super::Call;
use super::fetch_offsets::instant_ms;
use crate::http::error::ApiError;
use crate::http::reply::Reply;
use crate::options::Version;
use crate::time;

/// Entries of one call.
const MAX_ENTRIES: usize = 64;
/// Lanes shown for an entry.
const LIMIT: std::ops::RangeInclusive<usize> = 1..=1000;

#[derive(Deserialize)]
struct Body {
    entries: Vec<Entry>,
}

#[derive(Deserialize)]
struct Entry {
    queue: String,
    since: Option<Value>,
    after: Option<Value>,
    limit: Option<usize>,
}

/// Answers.
///
/// # Errors
/// 404 before 1.5; 400 for the shape of the body.
pub fn handle(call: &Call<'_>) -> Result<Reply, ApiError> {
    if call.node.options.version < Version::V1_5 {
        return Err(ApiError::NoSuchRoute);
    }
    let body: Body = call.json()?;
    if body.entries.len() > MAX_ENTRIES {
        return Err(ApiError::BadRequest("too many entries (max 64)"));
    }
    let entries: Vec<Value> = body
        .entries
        .iter()
        .map(|entry| answer(call, entry))
        .collect();
    let now_ms = call.node.host.clock.wall().epoch_ms();
    Ok(Reply::value(&json!({
        "safeTime": time::millis_string(now_ms),
        "safeTimeDegraded": false,
        "entries": entries,
    })))
}

fn answer(call: &Call<'_>, entry: &Entry) -> Value {
    let error =
        |text: &str| json!({"queue": entry.queue, "partitions": [], "next": null, "error": text});
    let state = call.node.engine.shared.read();
    let Some(queue) = state.queue(call.tenant, &entry.queue) else {
        return error("UNKNOWN_TOPIC_OR_PARTITION");
    };
    let since_us = match entry.since.as_ref().map(instant_ms) {
        None => i64::MIN,
        Some(Some(ms)) => ms.saturating_mul(1000),
        Some(None) => return error("BAD_CURSOR"),
    };
    let after = match &entry.after {
        None | Some(Value::Null) => Bound::Unbounded,
        Some(Value::String(name)) => Bound::Excluded(name.as_str()),
        Some(_) => return error("BAD_CURSOR"),
    };
    let limit = entry
        .limit
        .unwrap_or(*LIMIT.end())
        .clamp(*LIMIT.start(), *LIMIT.end());
    let mut lanes = queue
        .lanes
        .range::<str, _>((after, Bound::Unbounded))
        .filter(|(_, lane)| lane.row.last_append_us >= since_us)
        .peekable();
    let mut partitions = Vec::new();
    let mut last = None;
    while partitions.len() < limit
        && let Some((name, lane)) = lanes.next()
    {
        last = Some(name);
        partitions.push(json!({
            "name": &**name,
            "lastOffset": lane.row.high_watermark - 1,
            "logStart": lane.row.log_start,
            "lastWriteAt": time::millis_string(lane.row.last_append_us / 1000),
        }));
    }
    let next = last.filter(|_| lanes.peek().is_some()).map(|name| &**name);
    json!({"queue": entry.queue, "partitions": partitions, "next": next})
}
