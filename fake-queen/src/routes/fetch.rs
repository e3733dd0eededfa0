//! `POST /api/v1/fetch`: records of many lanes from offsets on. Contract sections 4.4 to 4.7.
//! Answers in request order with the names echoed; no lease, no cursor, no side effect. Parks until
//! `minBytes` of payload are there, an entry has an error, or `maxWaitMs` passed.
//! Budgets are spent in stored (compressed) bytes; a record costs its share of its segment.

use std::borrow::Cow;
use std::time::Duration;

use bytes::Bytes;
use serde::Deserialize;
use serde::de::{self, Visitor};

use super::Call;
use super::push::DEFAULT_LANE;
use crate::engine::Shared;
use crate::engine::read::{self, Found, UnknownLane, Want};
use crate::engine::segment::{Segment, records};
use crate::http::error::ApiError;
use crate::http::reply::Reply;
use crate::options::Version;
use crate::{ids, json, time};

/// Entries of one call.
pub const MAX_ENTRIES: usize = 1024;
/// `maxBytes` of an entry that names none.
const DEFAULT_MAX_BYTES: i64 = 1 << 20;
/// Largest `maxBytes`.
const MAX_BYTES: i64 = 8 << 20;
/// Largest `maxWaitMs`.
const MAX_WAIT_MS: u64 = 30_000;
/// Stored bytes read for one call.
const CALL_BYTES: usize = 64 << 20;
/// Records of one entry.
const MAX_RECORDS: usize = 10_000;
/// Rendered bytes of one answer.
const MAX_RENDERED: usize = 64 << 20;
/// Rendered between two chances for other tasks.
const YIELD_BYTES: usize = 1 << 20;

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct Body<'a> {
    #[serde(borrow)]
    entries: Vec<Entry<'a>>,
    #[serde(default)]
    max_wait_ms: u64,
    #[serde(default = "default_min_bytes")]
    min_bytes: i64,
}

fn default_min_bytes() -> i64 {
    1
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct Entry<'a> {
    #[serde(borrow)]
    queue: Cow<'a, str>,
    #[serde(borrow)]
    partition: Option<LaneName<'a>>,
    offset: i64,
    max_bytes: Option<i64>,
}

/// A lane's name: a string, or a JSON number whose text it is.
pub struct LaneName<'a>(pub Cow<'a, str>);

impl<'de: 'a, 'a> Deserialize<'de> for LaneName<'a> {
    fn deserialize<D: de::Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct Name;
        impl<'de> Visitor<'de> for Name {
            type Value = Cow<'de, str>;

            fn expecting(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
                f.write_str("a partition name or number")
            }

            fn visit_borrowed_str<E>(self, text: &'de str) -> Result<Self::Value, E> {
                Ok(Cow::Borrowed(text))
            }

            fn visit_str<E>(self, text: &str) -> Result<Self::Value, E> {
                Ok(Cow::Owned(text.to_owned()))
            }

            fn visit_u64<E>(self, number: u64) -> Result<Self::Value, E> {
                Ok(Cow::Owned(number.to_string()))
            }

            fn visit_i64<E>(self, number: i64) -> Result<Self::Value, E> {
                Ok(Cow::Owned(number.to_string()))
            }
        }
        deserializer.deserialize_any(Name).map(LaneName)
    }
}

/// Answers.
///
/// # Errors
/// 400 for the shape of the body, too many entries or a negative offset; 500 for the store.
pub async fn handle(call: &Call<'_>) -> Result<Reply, ApiError> {
    let body: Body<'_> = call.json()?;
    if body.entries.len() > MAX_ENTRIES {
        return Err(ApiError::BadRequest("too many entries (max 1024)"));
    }
    if body.entries.iter().any(|entry| entry.offset < 0) {
        return Err(ApiError::BadRequest("offset must not be negative"));
    }
    let wants: Vec<Want> = body
        .entries
        .into_iter()
        .map(|entry| Want {
            queue: entry.queue.into_owned(),
            lane: entry
                .partition
                .map_or_else(|| DEFAULT_LANE.to_owned(), |name| name.0.into_owned()),
            offset: entry.offset,
            // Within a few megabytes after the clamp.
            max_bytes: entry
                .max_bytes
                .unwrap_or(DEFAULT_MAX_BYTES)
                .clamp(1, MAX_BYTES) as usize,
        })
        .collect();
    // Negative means no waiting, as zero does.
    let min_bytes = usize::try_from(body.min_bytes).unwrap_or(0);
    let wait = Duration::from_millis(body.max_wait_ms.min(MAX_WAIT_MS));
    let unknown_lane = call.injected.unknown_lane().unwrap_or({
        if call.node.options.version >= Version::V1_4 {
            UnknownLane::Empty
        } else {
            UnknownLane::Unknown
        }
    });
    let shared = &call.node.engine.shared;
    if wait.is_zero() || min_bytes == 0 || wants.is_empty() {
        let found = read::read(shared, call.tenant, &wants, CALL_BYTES, unknown_lane).await?;
        return Ok(Reply::ok(render(shared, &wants, &found).await?.out));
    }
    let deadline = tokio::time::Instant::now() + wait;
    let lanes = wants.iter().map(|want| (&*want.queue, &*want.lane));
    let parked = shared.park.register(call.tenant, lanes);
    let mut last_chance = false;
    loop {
        let found = read::read(shared, call.tenant, &wants, CALL_BYTES, unknown_lane).await?;
        let failed = found.iter().any(|found| found.error.is_some());
        let empty = found.iter().all(|found| found.segments.is_empty());
        if failed || last_chance || !empty {
            let rendered = render(shared, &wants, &found).await?;
            if failed || last_chance || rendered.payload_bytes >= min_bytes {
                return Ok(Reply::ok(rendered.out));
            }
        }
        tokio::select! {
            biased;
            () = parked.woken() => {}
            () = shared.stopping() => last_chance = true,
            () = tokio::time::sleep_until(deadline) => last_chance = true,
        }
    }
}

struct Rendered {
    out: Bytes,
    payload_bytes: usize,
}

/// What is left of the budgets of a call.
struct Budget {
    call_bytes: usize,
    rendered: usize,
    /// No record was delivered yet: the next one is, whatever it costs.
    first: bool,
}

async fn render(shared: &Shared, wants: &[Want], found: &[Found]) -> Result<Rendered, ApiError> {
    let expected = expected_bytes(wants, found);
    let room = shared.rendering.room(expected).await;
    let mut out = Vec::with_capacity(expected);
    let mut payload_bytes = 0;
    let mut budget = Budget {
        call_bytes: CALL_BYTES,
        rendered: MAX_RENDERED,
        first: true,
    };
    let mut yielded_at = 0;
    json::raw(&mut out, "{\"entries\":[");
    for (at, (want, found)) in wants.iter().zip(found).enumerate() {
        if at > 0 {
            out.push(b',');
        }
        json::raw(&mut out, "{\"queue\":");
        json::string(&mut out, &want.queue);
        json::raw(&mut out, ",\"partition\":");
        json::string(&mut out, &want.lane);
        json::raw(&mut out, ",\"records\":[");
        payload_bytes += write_records(&mut out, want, found, &mut budget)?;
        json::raw(&mut out, "],\"highWatermark\":");
        json::int(&mut out, found.high_watermark);
        json::raw(&mut out, ",\"logStartOffset\":");
        json::int(&mut out, found.log_start);
        if let Some(error) = found.error {
            json::raw(&mut out, ",\"error\":");
            json::string(&mut out, error.text());
        }
        out.push(b'}');
        if out.len() - yielded_at > YIELD_BYTES {
            yielded_at = out.len();
            tokio::task::yield_now().await;
        }
    }
    json::raw(&mut out, "]}");
    Ok(Rendered {
        out: room.hold(out),
        payload_bytes,
    })
}

/// A guess that spares the answer's buffer its growth; bounded by the answer's own bound.
fn expected_bytes(wants: &[Want], found: &[Found]) -> usize {
    const ENTRY: usize = 128;
    const RECORD: usize = 128;
    let segments = found.iter().flat_map(|found| &found.segments);
    let records: usize = segments
        .map(|segment| segment.packed.raw_len as usize + segment.packed.count as usize * RECORD)
        .sum();
    (wants.len() * ENTRY + records).min(MAX_RENDERED)
}

/// Writes an entry's records; returns their payload bytes, each record counting at least one.
fn write_records(
    out: &mut Vec<u8>,
    want: &Want,
    found: &Found,
    budget: &mut Budget,
) -> Result<usize, ApiError> {
    let mut entry_bytes = want.max_bytes.min(budget.call_bytes);
    let (mut delivered, mut payload_bytes) = (0, 0);
    let mut next = want.offset;
    for segment in &found.segments {
        let raw = segment.packed.unpack().map_err(|_| ApiError::Decode)?;
        let mut created = Vec::with_capacity(32);
        time::micros(&mut created, segment.created_us);
        for (record, offset) in records(&raw).zip(segment.base_offset..) {
            let record = record.map_err(|_| ApiError::Decode)?;
            if offset < next {
                continue;
            }
            let cost = share(segment, record.payload.len());
            let size = record.payload.len() + created.len() + 128;
            let fits = cost <= entry_bytes && size <= budget.rendered;
            if delivered == MAX_RECORDS || !(fits || budget.first) {
                return Ok(payload_bytes);
            }
            budget.first = false;
            entry_bytes = entry_bytes.saturating_sub(cost);
            budget.call_bytes = budget.call_bytes.saturating_sub(cost);
            budget.rendered = budget.rendered.saturating_sub(size);
            json::raw(
                out,
                if delivered > 0 {
                    ",{\"offset\":"
                } else {
                    "{\"offset\":"
                },
            );
            json::int(out, offset);
            json::raw(out, ",\"transactionId\":");
            match record.transaction_id {
                Some(id) => json::string(out, id),
                None => ids::write_uuid(out, segment.message_id(offset).0),
            }
            json::raw(out, ",\"payload\":");
            json::raw(out, record.payload);
            json::raw(out, ",\"ts\":\"");
            out.extend_from_slice(&created);
            json::raw(out, "\"}");
            delivered += 1;
            payload_bytes += record.payload.len().max(1);
            next = offset + 1;
        }
    }
    Ok(payload_bytes)
}

/// A record's part of its segment's stored bytes, rounded up.
fn share(segment: &Segment, payload: usize) -> usize {
    let raw = u128::from(segment.packed.raw_len.max(1));
    let part = (segment.stored_bytes() as u128 * (payload as u128 + 1)).div_ceil(raw);
    // Both factors are sizes of one request body.
    usize::try_from(part).unwrap_or(usize::MAX)
}
