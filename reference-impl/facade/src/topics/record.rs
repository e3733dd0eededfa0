//! The topic record: what Kafka clients asked for when they created or altered a topic, kept in
//! row `qk:topiccfg:<topic>` and pinned to the queue's id.

use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};

use super::MAX_PARTITIONS;

/// The key of a topic's record. The name isn't escaped: legal topic names need no escaping.
pub fn record_key(topic: &str) -> String {
    format!("{RECORD_PREFIX}{topic}")
}

/// What the keys of all records begin with.
pub(super) const RECORD_PREFIX: &str = "qk:topiccfg:";

/// A topic record. It counts only while `qid` is the id of the live queue.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct TopicRecord {
    /// The queue's id as the list reported it; `None` when the list reports none.
    #[serde(default)]
    pub qid: Option<String>,
    /// The options of the queue that were set from here, in configure's spelling.
    pub set: Map<String, Value>,
    /// When it was written, milliseconds since the Unix epoch.
    #[serde(default)]
    pub at: i64,
    /// The declared width, a floor; `None` when none was declared.
    #[serde(default, deserialize_with = "floor")]
    pub partitions: Option<i32>,
    /// Topic configs as clients set them, in Kafka's spelling.
    #[serde(
        default,
        skip_serializing_if = "Map::is_empty",
        deserialize_with = "map"
    )]
    pub kafka: Map<String, Value>,
    /// What newer programs keep here; carried along.
    #[serde(flatten)]
    pub other: Map<String, Value>,
}

/// A row that is no topic record: the topic counts as untracked.
#[derive(Debug, thiserror::Error)]
#[error("not a topic record: {0}")]
pub struct TopicRecordError(#[from] serde_json::Error);

impl TopicRecord {
    /// Reads a row.
    ///
    /// # Errors
    ///
    /// [`TopicRecordError`] for anything without an object `set`.
    pub fn parse(json: &str) -> Result<Self, TopicRecordError> {
        Ok(serde_json::from_str(json)?)
    }

    /// Whether it describes the live queue with this id, rather than one of the same name that
    /// was deleted.
    pub fn tracks(&self, queue_id: Option<&str>) -> bool {
        self.qid.as_deref() == queue_id
    }

    /// The dedup window that was set from here; `None` when none was.
    pub fn dedup_window_seconds(&self) -> Option<u64> {
        self.set.get("dedupWindowSeconds")?.as_u64()
    }
}

/// A floor outside 1..=[`MAX_PARTITIONS`], or of another type, counts as not declared.
fn floor<'de, D: serde::Deserializer<'de>>(deserializer: D) -> Result<Option<i32>, D::Error> {
    let value = Option::<Value>::deserialize(deserializer)?;
    Ok(value
        .and_then(|value| value.as_i64())
        .and_then(|floor| i32::try_from(floor).ok())
        .filter(|floor| (1..=MAX_PARTITIONS).contains(floor)))
}

/// Anything but an object counts as empty.
fn map<'de, D: serde::Deserializer<'de>>(deserializer: D) -> Result<Map<String, Value>, D::Error> {
    Ok(match Value::deserialize(deserializer)? {
        Value::Object(map) => map,
        _ => Map::new(),
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use rstest::rstest;
    use serde_json::json;

    #[test]
    fn a_record_of_an_older_facade_is_read_and_written_alike() {
        let row = json!({"qid": "6f0e", "set": {"retentionEnabled": true, "retentionSeconds": 60},
                         "at": 1_789_115_415_123_i64, "partitions": 12});
        let record = TopicRecord::parse(&row.to_string()).expect("a record");
        assert_eq!(record.partitions, Some(12));
        assert!(record.tracks(Some("6f0e")));
        assert!(!record.tracks(Some("6f0f")));
        assert!(!record.tracks(None));
        assert_eq!(serde_json::to_value(&record).expect("JSON"), row);
    }

    #[test]
    fn what_newer_programs_keep_is_carried_along() {
        let row = json!({"qid": null, "set": {}, "at": 1, "partitions": null, "kafka": {"segment.ms": "5"}, "raft": {"x": [1]}});
        let record = TopicRecord::parse(&row.to_string()).expect("a record");
        assert!(record.tracks(None));
        assert_eq!(serde_json::to_value(&record).expect("JSON"), row);
    }

    #[rstest]
    #[case(json!(null), None)]
    #[case(json!(0), None)]
    #[case(json!(-1), None)]
    #[case(json!(1), Some(1))]
    #[case(json!(100_000), Some(100_000))]
    #[case(json!(100_001), None)]
    #[case(json!(1.5), None)]
    #[case(json!("3"), None)]
    fn only_a_floor_in_range_counts(#[case] floor: Value, #[case] counts: Option<i32>) {
        let row = json!({"qid": "x", "set": {}, "partitions": floor});
        let record = TopicRecord::parse(&row.to_string()).expect("a record");
        assert_eq!(record.partitions, counts);
    }

    #[rstest]
    #[case("null")]
    #[case("[]")]
    #[case("{}")]
    #[case(r#"{"qid":"x","set":null}"#)]
    #[case(r#"{"qid":7,"set":{}}"#)]
    fn anything_without_set_is_no_record(#[case] row: &str) {
        assert!(TopicRecord::parse(row).is_err());
    }
}
