//! The names (`transactionId`s) of a lane's records, without what the records hold.

use std::borrow::Cow;
use std::time::Duration;

use http::Method;
use serde::Deserialize;

use super::{FetchEntry, LaneStatus, is_lane, lane_status, request};
use crate::queen::transport::{CALL_TIMEOUT, Call, Repeat, Wait};
use crate::queen::{Client, Credential, Error};

/// A stretch of one lane.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Named {
    /// What the entry says beside its records.
    pub status: LaneStatus,
    /// The offset that the next record will receive.
    pub high_watermark: i64,
    /// The first offset that can still be read.
    pub log_start_offset: i64,
    /// Offset and name of each record, in order of the offsets.
    pub records: Vec<(i64, Box<str>)>,
}

impl Client {
    /// Reads the names of records of one lane.
    ///
    /// # Errors
    ///
    /// As [`Client::fetch`].
    pub async fn fetch_names(
        &self,
        credential: &Credential,
        entry: FetchEntry<'_>,
    ) -> Result<Named, Error> {
        if entry.offset < 0 {
            return Err(Error::Unsendable("a negative fetch offset"));
        }
        let (answer, _room) = self
            .transport
            .call_held(&Call {
                method: Method::POST,
                path: "/api/v1/fetch".into(),
                body: request(&[entry], Duration::ZERO, 0).into(),
                credential,
                timeout: CALL_TIMEOUT,
                wait: Wait::Prompt,
                repeat: Repeat::Safe,
            })
            .await?;
        let answer: Answer<'_> = serde_json::from_slice(&answer).map_err(Error::unreadable)?;
        match answer.entries.as_slice() {
            [lane] if lane.queue == entry.queue && is_lane(&lane.partition, entry.partition) => {
                Ok(Named::from(lane))
            }
            _ => Err(Error::unreadable("the answer doesn't echo the entry")),
        }
    }
}

impl From<&RawLane<'_>> for Named {
    fn from(lane: &RawLane<'_>) -> Self {
        let names = lane.records.iter();
        Self {
            status: lane_status(lane.error.as_deref()),
            high_watermark: lane.high_watermark,
            log_start_offset: lane.log_start_offset,
            records: names
                .map(|record| (record.offset, record.transaction_id.as_ref().into()))
                .collect(),
        }
    }
}

#[derive(Deserialize)]
struct Answer<'a> {
    #[serde(borrow)]
    entries: Vec<RawLane<'a>>,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct RawLane<'a> {
    #[serde(borrow)]
    queue: Cow<'a, str>,
    #[serde(borrow)]
    partition: Cow<'a, str>,
    #[serde(borrow, default)]
    records: Vec<RawName<'a>>,
    #[serde(default)]
    high_watermark: i64,
    #[serde(default)]
    log_start_offset: i64,
    #[serde(borrow, default)]
    error: Option<Cow<'a, str>>,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct RawName<'a> {
    offset: i64,
    #[serde(borrow, default)]
    transaction_id: Cow<'a, str>,
}
