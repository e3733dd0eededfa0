//! `POST /api/v1/fetch/offsets`: the first record appended at or after an instant. Contract
//! section 4.8. On the 2.x line; 404 before, which is the default here.

use std::borrow::Cow;
use std::sync::Arc;

use serde::Deserialize;
use serde_json::Value;

use super::Call;
use super::fetch::{LaneName, MAX_ENTRIES};
use super::push::DEFAULT_LANE;
use crate::engine::read::{self, UnknownLane};
use crate::http::error::ApiError;
use crate::http::reply::Reply;
use crate::{json, time};

#[derive(Deserialize)]
struct Body<'a> {
    #[serde(borrow)]
    entries: Vec<Entry<'a>>,
}

#[derive(Deserialize)]
struct Entry<'a> {
    #[serde(borrow)]
    queue: Cow<'a, str>,
    #[serde(borrow)]
    partition: Option<LaneName<'a>>,
    timestamp: Value,
}

/// Answers.
///
/// # Errors
/// 404 when the route is off, 400 for the shape of the body, 500 for the store.
pub async fn handle(call: &Call<'_>) -> Result<Reply, ApiError> {
    if !call.node.options.fetch_offsets {
        return Err(ApiError::NoSuchRoute);
    }
    let body: Body<'_> = call.json()?;
    if body.entries.len() > MAX_ENTRIES {
        return Err(ApiError::BadRequest("too many entries (max 1024)"));
    }
    let entries: Vec<(String, String, i64)> = body
        .entries
        .into_iter()
        .map(|entry| {
            let instant_ms = instant_ms(&entry.timestamp)
                .filter(|ms| *ms >= 0)
                .ok_or(ApiError::BadRequest("timestamp must be an instant"))?;
            let lane = entry
                .partition
                .map_or_else(|| DEFAULT_LANE.to_owned(), |name| name.0.into_owned());
            Ok((entry.queue.into_owned(), lane, instant_ms))
        })
        .collect::<Result<_, ApiError>>()?;
    let shared = Arc::clone(&call.node.engine.shared);
    let unknown_lane = call.injected.unknown_lane().unwrap_or(UnknownLane::Empty);
    let mut out = b"{\"entries\":[".to_vec();
    for (at, (queue, lane, instant_ms)) in entries.iter().enumerate() {
        let instant_us = instant_ms.saturating_mul(1000);
        let (found, first) =
            read::first_since(&shared, call.tenant, queue, lane, instant_us, unknown_lane).await?;
        json::raw(
            &mut out,
            if at > 0 {
                ",{\"queue\":"
            } else {
                "{\"queue\":"
            },
        );
        json::string(&mut out, queue);
        json::raw(&mut out, ",\"partition\":");
        json::string(&mut out, lane);
        match first {
            Some((offset, created_us)) => {
                json::raw(&mut out, ",\"offset\":");
                json::int(&mut out, offset);
                json::raw(&mut out, ",\"ts\":\"");
                time::micros(&mut out, created_us);
                out.push(b'"');
            }
            None => json::raw(&mut out, ",\"offset\":null,\"ts\":null"),
        }
        json::raw(&mut out, ",\"highWatermark\":");
        json::int(&mut out, found.high_watermark);
        json::raw(&mut out, ",\"logStartOffset\":");
        json::int(&mut out, found.log_start);
        if let Some(error) = found.error {
            json::raw(&mut out, ",\"error\":");
            json::string(&mut out, error.text());
        }
        out.push(b'}');
    }
    json::raw(&mut out, "]}");
    Ok(Reply::ok(out))
}

/// Epoch milliseconds from a number or an ISO string.
pub fn instant_ms(value: &Value) -> Option<i64> {
    match value {
        Value::Number(number) => number.as_i64(),
        Value::String(text) => time::parse_ms(text),
        _ => None,
    }
}
