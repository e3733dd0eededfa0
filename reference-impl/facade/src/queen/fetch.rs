//! `POST /api/v1/fetch`: reads of many lanes by offset.
//!
//! The answer is parsed once, borrowed; every key, value and header ends in one arena. Large
//! answers are parsed away from the reactor.

use std::borrow::Cow;
use std::fmt;
use std::time::Duration;

use bytes::Bytes;
use host::budget::Reservation;
use http::Method;
use serde::de::{DeserializeSeed, Deserializer, SeqAccess, Visitor};
use serde_json::value::RawValue;

use super::transport::{CALL_TIMEOUT, Call, Repeat, Wait};
use super::{Client, Credential, Error, json, time};
use crate::envelope::{self, Decoded, DecodedHeader, Span};

/// Most entries of one fetch.
pub const MAX_FETCH_ENTRIES: usize = 1024;
/// Largest `max_bytes` of an entry that Queen honours (compressed bytes).
pub const MAX_ENTRY_BYTES: u32 = 8 << 20;
/// Longest wait that Queen honours.
pub const MAX_FETCH_WAIT: Duration = Duration::from_secs(30);
/// The offset that no lane reaches: asking for it answers `OFFSET_OUT_OF_RANGE` with both bounds.
pub const BOUNDS_PROBE: i64 = i64::MAX;
/// Answers at least this long are parsed where blocking work runs.
const PARSE_ELSEWHERE_BYTES: usize = 256 << 10;

/// What to read of one lane.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct FetchEntry<'a> {
    /// The queue.
    pub queue: &'a str,
    /// The Kafka partition.
    pub partition: i32,
    /// First offset wanted, not negative ([`BOUNDS_PROBE`] asks for the bounds only).
    pub offset: i64,
    /// Budget in compressed bytes; Queen clamps it to 1..=[`MAX_ENTRY_BYTES`].
    pub max_bytes: u32,
}

/// What a lane of an answer says beside its records.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum LaneStatus {
    /// Read (perhaps nothing new).
    Ok,
    /// No such queue for this credential (or, before Queen 1.4, a lane nobody pushed to).
    Unknown,
    /// The offset is outside the bounds, which are filled in.
    OffsetOutOfRange,
    /// Another error of the entry; the call itself worked.
    Failed,
}

/// The answer to a fetch: one [`Lane`] per entry, in the entries' order.
#[derive(Debug, Default)]
pub struct Fetched {
    arena: Vec<u8>,
    records: Vec<StoredRecord>,
    headers: Vec<DecodedHeader>,
    lanes: Vec<StoredLane>,
    room: Option<Reservation>,
}

#[derive(Clone, Copy, Debug)]
struct StoredLane {
    status: LaneStatus,
    high_watermark: i64,
    log_start_offset: i64,
    records: (usize, usize),
}

#[derive(Debug)]
struct StoredRecord {
    offset: i64,
    append_ms: i64,
    parts: Decoded,
    first_header: usize,
}

impl Fetched {
    /// How many lanes there are: as many as entries were asked for.
    pub fn len(&self) -> usize {
        self.lanes.len()
    }

    /// Whether nothing was asked for.
    pub fn is_empty(&self) -> bool {
        self.lanes.is_empty()
    }

    /// The answer to entry `index`.
    pub fn lane(&self, index: usize) -> Option<Lane<'_>> {
        Some(Lane {
            fetched: self,
            lane: *self.lanes.get(index)?,
        })
    }

    /// Every lane in order.
    pub fn lanes(&self) -> impl ExactSizeIterator<Item = Lane<'_>> {
        self.lanes.iter().map(|&lane| Lane {
            fetched: self,
            lane,
        })
    }

    /// Bytes of all keys, values and header parts.
    pub fn len_bytes(&self) -> usize {
        self.arena.len()
    }

    /// Bytes of memory that it takes.
    fn held_bytes(&self) -> usize {
        self.arena.capacity()
            + self.records.capacity() * size_of::<StoredRecord>()
            + self.headers.capacity() * size_of::<DecodedHeader>()
            + self.lanes.capacity() * size_of::<StoredLane>()
    }

    /// Its room in the budget of answers: given back with it, or by who holds it elsewhere.
    pub fn take_room(&mut self) -> Option<Reservation> {
        self.room.take()
    }
}

/// One lane of an answer.
#[derive(Clone, Copy, Debug)]
pub struct Lane<'a> {
    fetched: &'a Fetched,
    lane: StoredLane,
}

impl<'a> Lane<'a> {
    /// What the entry says beside its records.
    pub fn status(&self) -> LaneStatus {
        self.lane.status
    }

    /// The offset that the next record will receive.
    pub fn high_watermark(&self) -> i64 {
        self.lane.high_watermark
    }

    /// The first offset that can still be read.
    pub fn log_start_offset(&self) -> i64 {
        self.lane.log_start_offset
    }

    /// The records in ascending order of offset.
    pub fn records(&self) -> impl ExactSizeIterator<Item = Record<'a>> + use<'a> {
        let fetched = self.fetched;
        let (from, to) = self.lane.records;
        fetched.records[from..to]
            .iter()
            .map(move |record| Record { fetched, record })
    }
}

/// One record of an answer.
#[derive(Clone, Copy, Debug)]
pub struct Record<'a> {
    fetched: &'a Fetched,
    record: &'a StoredRecord,
}

impl<'a> Record<'a> {
    /// Its offset.
    pub fn offset(&self) -> i64 {
        self.record.offset
    }

    /// Its timestamp as Kafka serves it: the producer's, else the append time, else −1.
    pub fn timestamp_ms(&self) -> i64 {
        self.record
            .parts
            .timestamp_ms
            .unwrap_or(self.record.append_ms)
    }

    /// When Queen stored it, −1 when Queen didn't say.
    pub fn append_ms(&self) -> i64 {
        self.record.append_ms
    }

    /// The key; `None` is null.
    pub fn key(&self) -> Option<&'a [u8]> {
        self.bytes(self.record.parts.key)
    }

    /// The value; `None` is null. A native payload is its JSON text.
    pub fn value(&self) -> Option<&'a [u8]> {
        self.bytes(self.record.parts.value)
    }

    /// The headers in order: name (UTF-8) and value.
    pub fn headers(&self) -> impl ExactSizeIterator<Item = (&'a [u8], Option<&'a [u8]>)> + use<'a> {
        let fetched = self.fetched;
        let from = self.record.first_header;
        fetched.headers[from..from + self.record.parts.header_count]
            .iter()
            .map(|header| {
                (
                    header.name.of(&fetched.arena),
                    header.value.map(|value| value.of(&fetched.arena)),
                )
            })
    }

    fn bytes(&self, span: Option<Span>) -> Option<&'a [u8]> {
        span.map(|span| span.of(&self.fetched.arena))
    }
}

impl Client {
    /// Reads `entries`. Queen answers as soon as `min_bytes` (compressed) are there, an entry has
    /// an error, or `max_wait` (at most [`MAX_FETCH_WAIT`]) has passed.
    ///
    /// # Errors
    ///
    /// [`Error::Unsendable`] for more than [`MAX_FETCH_ENTRIES`] or a negative offset, which Queen
    /// would answer by refusing every entry; else all of [`Error`]. An answer that doesn't echo
    /// the entries is [`Error::Unreadable`].
    pub async fn fetch(
        &self,
        credential: &Credential,
        entries: &[FetchEntry<'_>],
        max_wait: Duration,
        min_bytes: u32,
    ) -> Result<Fetched, Error> {
        if entries.is_empty() {
            return Ok(Fetched::default());
        }
        if entries.len() > MAX_FETCH_ENTRIES {
            return Err(Error::Unsendable("more fetch entries than a call may have"));
        }
        if entries.iter().any(|entry| entry.offset < 0) {
            return Err(Error::Unsendable("a negative fetch offset"));
        }
        let max_wait = max_wait.min(MAX_FETCH_WAIT);
        let parked = !max_wait.is_zero() && min_bytes > 0;
        let (answer, mut room) = self
            .transport
            .call_held(&Call {
                method: Method::POST,
                path: "/api/v1/fetch".into(),
                body: request(entries, max_wait, min_bytes).into(),
                credential,
                timeout: CALL_TIMEOUT + max_wait,
                wait: if parked { Wait::Parked } else { Wait::Prompt },
                repeat: Repeat::Safe,
            })
            .await?;
        let mut fetched = if answer.len() < PARSE_ELSEWHERE_BYTES {
            parse(&answer, Echo::of(entries))?
        } else {
            let echo = Echo::of(entries);
            self.blocking.run(move || parse(&answer, echo)).await?
        };
        room.resize(fetched.held_bytes());
        fetched.room = Some(room);
        Ok(fetched)
    }
}

pub(super) fn lane_status(error: Option<&str>) -> LaneStatus {
    match error {
        None => LaneStatus::Ok,
        Some("UNKNOWN_TOPIC_OR_PARTITION") => LaneStatus::Unknown,
        Some("OFFSET_OUT_OF_RANGE") => LaneStatus::OffsetOutOfRange,
        Some(_) => LaneStatus::Failed,
    }
}

fn is_lane(name: &str, partition: i32) -> bool {
    name.parse() == Ok(partition)
}

fn open_entry(body: &mut Vec<u8>, index: usize, queue: &str, partition: i32) {
    if index > 0 {
        body.push(b',');
    }
    body.extend_from_slice(b"{\"queue\":");
    json::write_str(body, queue);
    body.extend_from_slice(b",\"partition\":\"");
    json::write_display(body, partition);
    body.push(b'"');
}

fn request(entries: &[FetchEntry<'_>], max_wait: Duration, min_bytes: u32) -> Vec<u8> {
    let mut body = Vec::with_capacity(64 + entries.len() * 80);
    body.extend_from_slice(b"{\"entries\":[");
    for (index, entry) in entries.iter().enumerate() {
        open_entry(&mut body, index, entry.queue, entry.partition);
        body.extend_from_slice(b",\"offset\":");
        json::write_display(&mut body, entry.offset);
        body.extend_from_slice(b",\"maxBytes\":");
        json::write_display(&mut body, entry.max_bytes);
        body.push(b'}');
    }
    body.extend_from_slice(b"],\"maxWaitMs\":");
    json::write_display(&mut body, max_wait.as_millis());
    body.extend_from_slice(b",\"minBytes\":");
    json::write_display(&mut body, min_bytes);
    body.push(b'}');
    body
}

/// The lanes asked for, to check the answer against.
#[derive(Debug)]
struct Echo {
    /// Queue names end to end.
    names: String,
    /// End of each entry's queue name in `names`, and its partition.
    lanes: Vec<(usize, i32)>,
}

impl Echo {
    fn of(entries: &[FetchEntry<'_>]) -> Self {
        let mut echo = Self {
            names: String::new(),
            lanes: Vec::with_capacity(entries.len()),
        };
        for entry in entries {
            echo.names.push_str(entry.queue);
            echo.lanes.push((echo.names.len(), entry.partition));
        }
        echo
    }

    fn matches(&self, index: usize, queue: &str, partition: &str) -> bool {
        let from = match index.checked_sub(1) {
            Some(before) => self.lanes.get(before).map_or(0, |lane| lane.0),
            None => 0,
        };
        self.lanes
            .get(index)
            .is_some_and(|&(to, asked)| &self.names[from..to] == queue && is_lane(partition, asked))
    }
}

fn parse(answer: &Bytes, echo: Echo) -> Result<Fetched, Error> {
    let mut fetched = Fetched {
        // Base64 shrinks by a quarter; the text around it is not kept.
        arena: Vec::with_capacity(answer.len() / 4 * 3),
        lanes: Vec::with_capacity(echo.lanes.len()),
        ..Fetched::default()
    };
    // Once for the whole answer, instead of once for each of its strings.
    let text = std::str::from_utf8(answer).map_err(Error::unreadable)?;
    let mut json = serde_json::Deserializer::from_str(text);
    AnswerSeed {
        fetched: &mut fetched,
        echo: &echo,
    }
    .deserialize(&mut json)
    .and_then(|()| json.end())
    .map_err(Error::unreadable)?;
    if fetched.lanes.len() != echo.lanes.len() {
        return Err(Error::unreadable("the answer lacks entries"));
    }
    Ok(fetched)
}

mod names;
mod offsets;
mod seeds;

pub use names::Named;
pub use offsets::{OffsetsEntry, OffsetsFound};
use seeds::AnswerSeed;

#[cfg(test)]
mod tests;
