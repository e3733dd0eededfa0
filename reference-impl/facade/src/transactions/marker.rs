//! The marker row of a transactional id, `qk:txn:<id>` (docs/queen-contract.md, section 7.9).

use std::time::Duration;

use coordinator::producer::ProducerEpoch;
use coordinator::transaction::{Ended, Marker, Producer, ProducerId};
use serde::{Deserialize, Serialize};

use crate::queen::kv::{MAX_KEY_BYTES, Row, Version, Winner, escape, unescape};

/// What the keys of all markers begin with.
pub(super) const MARKER_PREFIX: &str = "qk:txn:";

/// The key of an id's marker; `None` when it is longer than Queen keeps.
pub(super) fn marker_key(transactional_id: &str) -> Option<String> {
    let key = format!("{MARKER_PREFIX}{}", escape(transactional_id));
    (key.len() <= MAX_KEY_BYTES).then_some(key)
}

/// The transactional id that a marker's key names.
pub(super) fn marked_id(key: &str) -> Option<String> {
    key.strip_prefix(MARKER_PREFIX).map(unescape)
}

/// The row. What others don't know they leave alone; what they don't write has a default.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct MarkerRow {
    pid: i64,
    epoch: i16,
    /// `committed`, `aborted`, or `open`: one that waits in memory has begun since.
    state: String,
    #[serde(default)]
    seq: u64,
    #[serde(default)]
    node: Option<i32>,
    #[serde(default)]
    incarnation: Option<serde_json::Value>,
    #[serde(default)]
    ts: i64,
    /// The producer before the last bump that a client asked for.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    lpid: Option<i64>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    lepoch: Option<i16>,
    /// `transaction.timeout.ms`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    timeout: Option<u64>,
    /// Where the rows of the next transaction begin in the hidden queue.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(super) stage: Option<i64>,
}

impl MarkerRow {
    /// The row that says `marker`.
    pub(super) fn new(marker: &Marker, node: i32, ts: i64, stage: Option<i64>) -> Self {
        let millis = |timeout: Duration| u64::try_from(timeout.as_millis()).unwrap_or(u64::MAX);
        Self {
            pid: marker.producer.id.0,
            epoch: marker.producer.epoch.get(),
            state: match (marker.open, marker.ended) {
                (true, _) => "open",
                (false, Ended::Committed) => "committed",
                (false, Ended::Aborted) => "aborted",
            }
            .to_owned(),
            seq: marker.number,
            node: Some(node),
            incarnation: Some(format!("{:016x}", marker.writer).into()),
            ts,
            lpid: marker.previous.map(|producer| producer.id.0),
            lepoch: marker.previous.map(|producer| producer.epoch.get()),
            timeout: marker.timeout.map(millis),
            stage,
        }
    }

    /// What the row says; `None` when it names no producer.
    pub(super) fn marker(&self) -> Option<Marker> {
        let producer = |id, epoch| {
            Some(Producer {
                id: ProducerId(id),
                epoch: ProducerEpoch::new(epoch)?,
            })
        };
        let writer = self.incarnation.as_ref().and_then(|text| text.as_str());
        Some(Marker {
            producer: producer(self.pid, self.epoch)?,
            previous: self
                .lpid
                .zip(self.lepoch)
                .and_then(|(id, epoch)| producer(id, epoch)),
            ended: if self.state == "committed" {
                Ended::Committed
            } else {
                Ended::Aborted
            },
            open: self.state == "open",
            number: self.seq,
            timeout: self.timeout.map(Duration::from_millis),
            writer: writer
                .and_then(|text| u64::from_str_radix(text, 16).ok())
                .unwrap_or(0),
        })
    }
}

/// A marker as stored.
#[derive(Clone, Debug)]
pub(super) struct StoredMarker {
    pub(super) version: Version,
    pub(super) marker: Marker,
    pub(super) stage: Option<i64>,
}

/// A row that isn't a marker: another program's, or damaged.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("the marker of the transactional id is not readable")]
pub struct UnreadableMarker;

impl StoredMarker {
    pub(super) fn of_row(row: &Row) -> Result<Self, UnreadableMarker> {
        let parsed: MarkerRow = row.value().map_err(|_| UnreadableMarker)?;
        Self::of(row.version, &parsed).ok_or(UnreadableMarker)
    }

    /// The winner of a lost write; `None` when the answer doesn't show it whole.
    pub(super) fn of_winner(winner: &Winner) -> Option<Self> {
        Self::of(winner.version?, &winner.value()?)
    }

    fn of(version: Version, row: &MarkerRow) -> Option<Self> {
        Some(Self {
            version,
            marker: row.marker()?,
            stage: row.stage,
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn producer(id: i64, epoch: i16) -> Producer {
        Producer {
            id: ProducerId(id),
            epoch: ProducerEpoch::new(epoch).unwrap(),
        }
    }

    #[test]
    fn a_row_is_what_the_contract_says_and_more() {
        let marker = Marker {
            producer: producer(7, 3),
            previous: Some(producer(7, 2)),
            ended: Ended::Committed,
            open: false,
            number: 5,
            timeout: Some(Duration::from_secs(60)),
            writer: 255,
        };
        let row = MarkerRow::new(&marker, 0, 1_700_000_000_000, Some(12));
        let json = serde_json::to_value(&row).unwrap();
        let expected = serde_json::json!({
            "pid": 7, "epoch": 3, "state": "committed", "seq": 5, "node": 0,
            "incarnation": "00000000000000ff", "ts": 1_700_000_000_000_i64,
            "lpid": 7, "lepoch": 2, "timeout": 60_000, "stage": 12,
        });
        assert_eq!(json, expected);
        assert_eq!(row.marker(), Some(marker));
        // How the one before the open one ended is of no use any more.
        let open = Marker {
            ended: Ended::Aborted,
            open: true,
            ..marker
        };
        let row = MarkerRow::new(&open, 0, 0, None);
        assert_eq!((row.state.as_str(), row.marker()), ("open", Some(open)));
    }

    #[test]
    fn rows_of_others_are_read() {
        let text =
            r#"{"pid":9,"epoch":0,"state":"open","seq":2,"node":"n1","incarnation":12,"ts":1}"#;
        let text = text.replace("\"n1\"", "1");
        let row: MarkerRow = serde_json::from_str(&text).unwrap();
        let marker = row.marker().unwrap();
        assert_eq!(
            (marker.producer, marker.ended),
            (producer(9, 0), Ended::Aborted)
        );
        assert_eq!((marker.number, marker.timeout, marker.writer), (2, None, 0));
        let bad: MarkerRow = serde_json::from_str(r#"{"pid":9,"epoch":-1,"state":"x"}"#).unwrap();
        assert_eq!(bad.marker(), None);
    }

    #[test]
    fn a_key_is_escaped_and_bounded() {
        assert_eq!(marker_key("tx 1/a").unwrap(), "qk:txn:tx%201%2Fa");
        assert_eq!(marked_id("qk:txn:tx%201%2Fa").unwrap(), "tx 1/a");
        assert_eq!(marker_key(&"x".repeat(506)), None);
    }
}
