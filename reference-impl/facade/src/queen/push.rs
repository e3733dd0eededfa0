//! `POST /api/v1/push`: records in, one verdict per record out.
//!
//! A push is put together from [`Fragment`]s: the items of one stretch of records of one lane,
//! encoded once. Gathering, splitting and bisecting a push moves fragments about without encoding
//! anything again.

use std::borrow::Cow;
use std::fmt;

use bytes::Bytes;
use http::Method;
use serde::Deserialize;
use serde::de::{SeqAccess, Visitor};

use super::body::Chunks;
use super::transport::{CALL_TIMEOUT, Call, Repeat, Wait};
use super::{Client, Credential, Error, json};
use crate::envelope::{self, HeaderNameNotUtf8, RecordParts};

/// Largest push body that the proxy lets through.
pub const MAX_PUSH_BYTES: usize = 16 << 20;
/// Most items of one push that the proxy lets through.
pub const MAX_PUSH_ITEMS: usize = 10_000;

/// Encoded items of one lane, ready to be put into a push or a transaction.
#[derive(Clone, Debug)]
pub struct Fragment {
    json: Bytes,
    items: usize,
}

impl Fragment {
    /// How many items it holds.
    pub fn items(&self) -> usize {
        self.items
    }

    /// Its part of a body, the separating comma not counted.
    pub fn len_bytes(&self) -> usize {
        self.json.len()
    }

    /// The items, separated by commas.
    pub fn json(&self) -> &Bytes {
        &self.json
    }
}

/// Encodes items of one lane.
#[derive(Debug)]
pub struct FragmentWriter {
    json: Vec<u8>,
    /// Every item begins with these bytes: queue and partition.
    head: Vec<u8>,
    items: usize,
}

impl FragmentWriter {
    /// A writer for partition `partition` of `queue` with room for about `capacity_bytes` of JSON.
    pub fn new(queue: &str, partition: i32, capacity_bytes: usize) -> Self {
        let mut head = Vec::with_capacity(queue.len() + 48);
        head.extend_from_slice(b"{\"queue\":");
        json::write_str(&mut head, queue);
        head.extend_from_slice(b",\"partition\":\"");
        json::write_display(&mut head, partition);
        head.extend_from_slice(b"\",");
        Self {
            json: Vec::with_capacity(capacity_bytes),
            head,
            items: 0,
        }
    }

    /// Appends one record. With a `transaction_id`, Queen recognises a repetition within the
    /// queue's dedup window and answers [`Pushed::Duplicate`].
    ///
    /// # Errors
    ///
    /// [`HeaderNameNotUtf8`]; the fragment is then as it was.
    pub fn record<'h>(
        &mut self,
        transaction_id: Option<&str>,
        record: RecordParts<'_>,
        headers: impl IntoIterator<Item = (&'h [u8], Option<&'h [u8]>)>,
    ) -> Result<(), HeaderNameNotUtf8> {
        let mark = self.json.len();
        if self.items > 0 {
            self.json.push(b',');
        }
        self.json.extend_from_slice(&self.head);
        if let Some(id) = transaction_id {
            self.json.extend_from_slice(b"\"transactionId\":");
            json::write_str(&mut self.json, id);
            self.json.push(b',');
        }
        self.json.extend_from_slice(b"\"payload\":");
        if let Err(error) = envelope::write(&mut self.json, record, headers) {
            self.json.truncate(mark);
            return Err(error);
        }
        self.json.push(b'}');
        self.items += 1;
        Ok(())
    }

    /// How many items were appended.
    pub fn items(&self) -> usize {
        self.items
    }

    /// Bytes of JSON so far.
    pub fn len_bytes(&self) -> usize {
        self.json.len()
    }

    /// The fragment.
    pub fn finish(self) -> Fragment {
        Fragment {
            json: self.json.into(),
            items: self.items,
        }
    }
}

/// Queen's verdict on one item.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Pushed {
    /// Durable at this offset; `None` from a broker too old to say (before 1.4).
    Queued(Option<i64>),
    /// Recognised by its transaction id: the offset of the earlier record.
    Duplicate(Option<i64>),
    /// This item was refused.
    Refused,
    /// Spooled by Queen in maintenance or without its database: will be stored later, at an offset
    /// nobody knows yet.
    Buffered,
    /// Spooling failed as well: not stored.
    Failed,
}

impl Client {
    /// Pushes `fragments` in their order and returns one verdict per item, in the same order.
    ///
    /// Each lane's items are stored whole or not at all; different lanes are independent. `repeat`
    /// is [`Repeat::Safe`] when every item carries a transaction id.
    ///
    /// # Errors
    ///
    /// All of [`Error`]; an answer that doesn't name every item exactly once is
    /// [`Error::Unreadable`] (effect unknown).
    pub async fn push(
        &self,
        credential: &Credential,
        fragments: &[Fragment],
        repeat: Repeat,
    ) -> Result<Vec<Pushed>, Error> {
        let items = fragments.iter().map(Fragment::items).sum();
        let mut body = Chunks::default();
        body.push(Bytes::from_static(b"{\"items\":["));
        append_fragments(&mut body, fragments);
        body.push(Bytes::from_static(b"]}"));
        let answer = self
            .transport
            .call(Call {
                method: Method::POST,
                path: "/api/v1/push".into(),
                body,
                credential,
                timeout: CALL_TIMEOUT,
                wait: Wait::Prompt,
                repeat,
            })
            .await?;
        parse_verdicts(&answer, items)
    }
}

/// Appends the items of `fragments`, separated by commas.
pub(super) fn append_fragments(body: &mut Chunks, fragments: &[Fragment]) {
    let mut first = true;
    for fragment in fragments.iter().filter(|fragment| fragment.items > 0) {
        if !first {
            body.push(Bytes::from_static(b","));
        }
        first = false;
        body.push(fragment.json.clone());
    }
}

#[derive(Deserialize)]
struct ItemVerdict<'a> {
    index: usize,
    #[serde(borrow)]
    status: Cow<'a, str>,
    #[serde(default)]
    offset: Option<i64>,
}

impl ItemVerdict<'_> {
    fn verdict(&self) -> Option<Pushed> {
        match self.status.as_ref() {
            "queued" => Some(Pushed::Queued(self.offset)),
            "duplicate" => Some(Pushed::Duplicate(self.offset)),
            "error" => Some(Pushed::Refused),
            "buffered" => Some(Pushed::Buffered),
            "failed" => Some(Pushed::Failed),
            _ => None,
        }
    }
}

/// Aligns the answer's elements by their `index`: each of `0..items` exactly once.
fn parse_verdicts(answer: &[u8], items: usize) -> Result<Vec<Pushed>, Error> {
    // Once for the whole answer, instead of once for each of its strings.
    let text = std::str::from_utf8(answer).map_err(Error::unreadable)?;
    let mut json = serde_json::Deserializer::from_str(text);
    let verdicts = serde::Deserializer::deserialize_seq(&mut json, Verdicts(items))
        .map_err(Error::unreadable)?;
    json.end().map_err(Error::unreadable)?;
    verdicts
        .into_iter()
        .collect::<Option<Vec<_>>>()
        .ok_or_else(|| Error::unreadable("an item of the push has no verdict"))
}

struct Verdicts(usize);

impl<'de> Visitor<'de> for Verdicts {
    type Value = Vec<Option<Pushed>>;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("an array of verdicts")
    }

    fn visit_seq<A: SeqAccess<'de>>(self, mut seq: A) -> Result<Self::Value, A::Error> {
        use serde::de::Error as _;

        let mut verdicts = vec![None; self.0];
        while let Some(item) = seq.next_element::<ItemVerdict<'de>>()? {
            let Some(slot) = verdicts.get_mut(item.index) else {
                return Err(A::Error::custom("a verdict on an item that was not pushed"));
            };
            if slot.is_some() {
                return Err(A::Error::custom("two verdicts on one item"));
            }
            *slot = Some(
                item.verdict()
                    .ok_or_else(|| A::Error::custom("a verdict with an unknown status"))?,
            );
        }
        Ok(verdicts)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use rstest::rstest;
    use serde_json::json;

    fn fragment(queue: &str, partition: i32, values: &[&str]) -> Fragment {
        let mut writer = FragmentWriter::new(queue, partition, 0);
        for value in values {
            let record = RecordParts {
                value: Some(value.as_bytes()),
                timestamp_ms: -1,
                ..RecordParts::default()
            };
            writer
                .record(None, record, std::iter::empty())
                .expect("no header");
        }
        writer.finish()
    }

    #[test]
    fn an_item_names_its_lane_and_its_transaction() {
        let mut writer = FragmentWriter::new("a\"b", 7, 0);
        let record = RecordParts {
            key: Some(b"k"),
            value: None,
            timestamp_ms: 5,
        };
        writer
            .record(
                Some("p-1"),
                record,
                [(b"n".as_slice(), Some(b"".as_slice()))],
            )
            .expect("UTF-8");
        let bad = writer.record(None, record, [(b"\xff".as_slice(), None)]);
        assert_eq!(bad, Err(HeaderNameNotUtf8));
        let fragment = writer.finish();
        assert_eq!(fragment.items(), 1);
        let item: serde_json::Value = serde_json::from_slice(&fragment.json).expect("JSON");
        assert_eq!(
            item,
            json!({"queue": "a\"b", "partition": "7", "transactionId": "p-1",
                   "payload": {"h": [{"k": "n", "v": ""}], "k": "aw==", "t": 5, "v": null}})
        );
    }

    #[test]
    fn empty_fragments_leave_no_comma() {
        let mut body = Chunks::default();
        let fragments = [
            fragment("q", 0, &[]),
            fragment("q", 0, &["a", "b"]),
            fragment("q", 1, &[]),
            fragment("q", 1, &["c"]),
        ];
        append_fragments(&mut body, &fragments);
        assert_eq!(
            body.len_bytes() as usize,
            fragments[1].len_bytes() + 1 + fragments[3].len_bytes()
        );
    }

    #[test]
    fn verdicts_are_aligned_by_index() {
        let answer = br#"[
            {"index":1,"message_id":"m","transaction_id":"t","queueName":"q","status":"duplicate","offset":9007199254740993},
            {"index":0,"status":"queued","offset":3},
            {"index":2,"status":"queued"},
            {"index":3,"status":"error","error":"no"},
            {"index":4,"status":"buffered"},
            {"index":5,"status":"failed","offset":null}]"#;
        assert_eq!(
            parse_verdicts(answer, 6).expect("aligned"),
            [
                Pushed::Queued(Some(3)),
                Pushed::Duplicate(Some(9_007_199_254_740_993)),
                Pushed::Queued(None),
                Pushed::Refused,
                Pushed::Buffered,
                Pushed::Failed,
            ]
        );
    }

    #[rstest]
    #[case::short(r#"[{"index":0,"status":"queued","offset":0}]"#)]
    #[case::long(r#"[{"index":0,"status":"queued"},{"index":1,"status":"queued"},{"index":2,"status":"queued"}]"#)]
    #[case::twice(r#"[{"index":0,"status":"queued"},{"index":0,"status":"queued"}]"#)]
    #[case::unknown_status(r#"[{"index":0,"status":"queued"},{"index":1,"status":"lost"}]"#)]
    #[case::negative_index(r#"[{"index":-1,"status":"queued"},{"index":1,"status":"queued"}]"#)]
    #[case::no_index(r#"[{"status":"queued"},{"index":1,"status":"queued"}]"#)]
    #[case::object(r#"{"items":[]}"#)]
    #[case::truncated(r#"[{"index":0,"status":"que"#)]
    #[case::trailing(r#"[{"index":0,"status":"queued"},{"index":1,"status":"queued"}] x"#)]
    #[case::empty("")]
    fn anything_else_is_unreadable(#[case] answer: &str) {
        let error = parse_verdicts(answer.as_bytes(), 2).expect_err("not aligned");
        assert!(matches!(error, Error::Unreadable(_)), "{error}");
    }
}
