//! `POST /api/v1/fetch/offsets` of newer Queens: offsets by append time.

use std::borrow::Cow;

use http::Method;
use serde::Deserialize;

use super::{LaneStatus, MAX_FETCH_ENTRIES, is_lane, lane_status, open_entry};
use crate::queen::transport::{CALL_TIMEOUT, Call, Repeat, Wait};
use crate::queen::{Class, Client, Credential, Error, json};

impl Client {
    /// The first offsets appended at or after each entry's `timestamp_ms`, by Queen's append
    /// clock; `None` when this Queen has no such route (1.x).
    ///
    /// # Errors
    ///
    /// As [`Client::fetch`].
    pub async fn fetch_offsets(
        &self,
        credential: &Credential,
        entries: &[OffsetsEntry<'_>],
    ) -> Result<Option<Vec<OffsetsFound>>, Error> {
        if entries.len() > MAX_FETCH_ENTRIES {
            return Err(Error::Unsendable("more fetch entries than a call may have"));
        }
        if entries.iter().any(|entry| entry.timestamp_ms < 0) {
            return Err(Error::Unsendable("a negative timestamp"));
        }
        let mut body = b"{\"entries\":[".to_vec();
        for (index, entry) in entries.iter().enumerate() {
            open_entry(&mut body, index, entry.queue, entry.partition);
            body.extend_from_slice(b",\"timestamp\":");
            json::write_display(&mut body, entry.timestamp_ms);
            body.push(b'}');
        }
        body.extend_from_slice(b"]}");
        let answer = self
            .transport
            .call(Call {
                method: Method::POST,
                path: "/api/v1/fetch/offsets".into(),
                body: body.into(),
                credential,
                timeout: CALL_TIMEOUT,
                wait: Wait::Prompt,
                repeat: Repeat::Safe,
            })
            .await;
        let answer = match answer {
            Ok(answer) => answer,
            Err(error) if error.class() == Class::NotFound => return Ok(None),
            Err(error) => return Err(error),
        };
        let found: OffsetsAnswer<'_> =
            serde_json::from_slice(&answer).map_err(Error::unreadable)?;
        let echoed = found.entries.len() == entries.len()
            && found.entries.iter().zip(entries).all(|(found, entry)| {
                found.queue == entry.queue && is_lane(&found.partition, entry.partition)
            });
        if !echoed {
            return Err(Error::unreadable("the answer doesn't echo the entries"));
        }
        Ok(Some(found.entries.iter().map(OffsetsFound::from).collect()))
    }
}

/// A question of `fetch/offsets`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct OffsetsEntry<'a> {
    /// The queue.
    pub queue: &'a str,
    /// The Kafka partition.
    pub partition: i32,
    /// Milliseconds since the Unix epoch, not negative.
    pub timestamp_ms: i64,
}

/// An answer of `fetch/offsets`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct OffsetsFound {
    /// What the entry says beside its offsets.
    pub status: LaneStatus,
    /// First offset appended at or after the time asked for; `None` when there is none yet.
    pub offset: Option<i64>,
    /// The offset that the next record will receive.
    pub high_watermark: i64,
    /// The first offset that can still be read.
    pub log_start_offset: i64,
}

impl From<&OffsetsLane<'_>> for OffsetsFound {
    fn from(lane: &OffsetsLane<'_>) -> Self {
        Self {
            status: lane_status(lane.error.as_deref()),
            offset: lane.offset,
            high_watermark: lane.high_watermark,
            log_start_offset: lane.log_start_offset,
        }
    }
}

#[derive(Deserialize)]
struct OffsetsAnswer<'a> {
    #[serde(borrow)]
    entries: Vec<OffsetsLane<'a>>,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct OffsetsLane<'a> {
    #[serde(borrow)]
    queue: Cow<'a, str>,
    #[serde(borrow)]
    partition: Cow<'a, str>,
    offset: Option<i64>,
    high_watermark: i64,
    log_start_offset: i64,
    #[serde(borrow, default)]
    error: Option<Cow<'a, str>>,
}
