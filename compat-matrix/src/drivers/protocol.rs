//! What a scenario asks of a client and what it hears: one JSON object each way.
//!
//! The same objects go to a driver in this process and, as one line each, over the standard streams
//! of a driver in another language. Bytes are Base64 strings, because keys and values are not text.

use std::collections::BTreeMap;

use serde::{Deserialize, Deserializer, Serialize, Serializer};

/// Bytes that may be absent: `null`, or a Base64 string. Empty and absent differ, as in Kafka.
#[derive(Clone, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub struct Blob(pub Option<Vec<u8>>);

impl Blob {
    /// These bytes.
    pub fn of(bytes: impl AsRef<[u8]>) -> Self {
        Self(Some(bytes.as_ref().to_vec()))
    }

    /// The bytes as text; absent and undecodable bytes are the empty string.
    pub fn text(&self) -> &str {
        self.0
            .as_deref()
            .and_then(|bytes| std::str::from_utf8(bytes).ok())
            .unwrap_or_default()
    }
}

impl Serialize for Blob {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        match &self.0 {
            Some(bytes) => serializer.serialize_str(&base64_simd::STANDARD.encode_to_string(bytes)),
            None => serializer.serialize_none(),
        }
    }
}

impl<'de> Deserialize<'de> for Blob {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let text = Option::<String>::deserialize(deserializer)?;
        let bytes = text
            .map(|text| base64_simd::STANDARD.decode_to_vec(text))
            .transpose()
            .map_err(serde::de::Error::custom)?;
        Ok(Self(bytes))
    }
}

/// A client's own configuration, in its own names (librdkafka's in process).
pub type Settings = BTreeMap<String, String>;

/// One operation.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(tag = "op", rename_all = "snake_case")]
pub enum Op {
    /// Opens the session's producer. Answer: `{}`.
    OpenProducer {
        /// Over `bootstrap.servers`, which the driver sets.
        config: Settings,
    },
    /// Sends and waits for every delivery report. Answer: [`Deliveries`].
    Produce {
        /// In order.
        records: Vec<Outgoing>,
        /// How long to wait for the last report.
        timeout_ms: u64,
    },
    /// Sends `count` records whose values are `first`, `first + 1`, … in decimal, padded with `.` to
    /// `value_bytes`, and waits for every report. Answer: [`Deliveries`].
    ProduceNumbers {
        /// Where to.
        topic: String,
        /// `None` leaves it to the client's partitioner; the key is the number then.
        partition: Option<i32>,
        /// The first number.
        first: u64,
        /// How many.
        count: u64,
        /// Least length of a value.
        value_bytes: usize,
        /// How long to wait for the last report.
        timeout_ms: u64,
    },
    /// Opens the session's consumer. Answer: `{}`.
    OpenConsumer {
        /// Over `bootstrap.servers`, which the driver sets.
        config: Settings,
    },
    /// Joins the group for these topics. Answer: `{}`.
    Subscribe {
        /// Names, or patterns that begin with `^`.
        topics: Vec<String>,
    },
    /// Takes these partitions without a group's say. Answer: `{}`.
    Assign {
        /// `offset` −2 is the beginning, −1 the end.
        partitions: Vec<Place>,
    },
    /// Polls until `max` records came, or nothing came for `idle_ms`. Answer: [`Polled`].
    Poll {
        /// At most so many records.
        max: usize,
        /// How long a silence ends the poll.
        idle_ms: u64,
    },
    /// Commits; waits for the answer unless `asynchronous`. Answer: `{}`.
    Commit {
        /// `None` commits what was polled.
        offsets: Option<Vec<Place>>,
        /// Does not wait.
        asynchronous: bool,
    },
    /// The group's committed offsets. Answer: [`Places`]; −1001 where there is none.
    Committed {
        /// Which.
        partitions: Vec<Place>,
    },
    /// The next offsets this consumer will read. Answer: [`Places`].
    Position,
    /// What this consumer holds. Answer: [`Places`].
    Assignment,
    /// Stops fetching. Answer: `{}`.
    Pause {
        /// Which; offsets are ignored.
        partitions: Vec<Place>,
    },
    /// Fetches again. Answer: `{}`.
    Resume {
        /// Which; offsets are ignored.
        partitions: Vec<Place>,
    },
    /// Moves the position. Answer: `{}`.
    Seek {
        /// Where to.
        partition: Place,
    },
    /// First offset at or after a time. Answer: [`Places`]; −1 past the end.
    OffsetsForTimes {
        /// `offset` holds the time in milliseconds since the Unix epoch.
        partitions: Vec<Place>,
    },
    /// Earliest and next offset. Answer: [`Watermarks`].
    Watermarks {
        /// Topic.
        topic: String,
        /// Partition.
        partition: i32,
    },
    /// Leaves the group. Answer: `{}`.
    Unsubscribe,
    /// Closes the consumer, leaving the group in good order. Answer: `{}`.
    CloseConsumer,
    /// Topics as the cluster describes them. Answer: [`Topics`].
    Metadata {
        /// `None` lists all.
        topic: Option<String>,
    },
    /// Answer: [`Outcomes`] by topic.
    CreateTopics {
        /// What to create.
        topics: Vec<NewTopic>,
        /// Only says what would happen.
        validate_only: bool,
    },
    /// Answer: [`Outcomes`] by topic.
    DeleteTopics {
        /// Names.
        topics: Vec<String>,
    },
    /// Answer: [`Outcomes`] by topic.
    CreatePartitions {
        /// Topic.
        topic: String,
        /// The new total.
        count: usize,
    },
    /// Deletes records before an offset. Answer: [`Places`] with the new starts.
    DeleteRecords {
        /// `offset` is the first to keep; −1 keeps none.
        partitions: Vec<Place>,
    },
    /// A topic's settings. Answer: [`Configs`].
    DescribeTopicConfig {
        /// Topic.
        topic: String,
    },
    /// Replaces a topic's settings. Answer: [`Outcomes`] by topic.
    AlterTopicConfig {
        /// Topic.
        topic: String,
        /// All of them; the rest falls back to its default.
        config: Settings,
    },
    /// Groups with their members. Answer: [`Groups`].
    Groups {
        /// `None` lists all.
        group: Option<String>,
    },
    /// Answer: [`Outcomes`] by group.
    DeleteGroups {
        /// Ids.
        groups: Vec<String>,
    },
}

/// One record to send.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Outgoing {
    /// Where to.
    pub topic: String,
    /// `None` leaves it to the client's partitioner.
    pub partition: Option<i32>,
    /// Key.
    pub key: Blob,
    /// Value; absent is a tombstone.
    pub value: Blob,
    /// In order, names may repeat.
    pub headers: Vec<(String, Blob)>,
    /// Milliseconds since the Unix epoch; `None` lets the client stamp it.
    pub timestamp_ms: Option<i64>,
}

/// What became of sent records.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Deliveries {
    /// In the order they were sent; `None` where a client does not say it (acks=0 has no offset).
    pub places: Vec<(i32, i64)>,
    /// Those that failed: index and why.
    pub failed: Vec<(usize, String)>,
}

/// A topic partition and an offset (or what the operation says it is).
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
pub struct Place {
    /// Topic.
    pub topic: String,
    /// Partition.
    pub partition: i32,
    /// Offset.
    pub offset: i64,
    /// Commit metadata.
    #[serde(default)]
    pub metadata: String,
}

impl Place {
    /// A place without metadata.
    pub fn new(topic: impl Into<String>, partition: i32, offset: i64) -> Self {
        Self {
            topic: topic.into(),
            partition,
            offset,
            metadata: String::new(),
        }
    }
}

/// Places, sorted.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Places {
    /// Sorted by topic and partition.
    pub places: Vec<Place>,
}

/// One record that was read.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Incoming {
    /// Topic.
    pub topic: String,
    /// Partition.
    pub partition: i32,
    /// Offset.
    pub offset: i64,
    /// Key.
    pub key: Blob,
    /// Value.
    pub value: Blob,
    /// In order.
    pub headers: Vec<(String, Blob)>,
    /// Milliseconds since the Unix epoch.
    pub timestamp_ms: Option<i64>,
}

/// What a poll brought.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Polled {
    /// In the order the client gave them.
    pub records: Vec<Incoming>,
    /// Rebalances and errors since the last poll.
    pub events: Vec<Event>,
}

/// What happened besides records.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(tag = "event", rename_all = "snake_case")]
pub enum Event {
    /// Partitions were given.
    Assigned {
        /// Which.
        partitions: Vec<Place>,
    },
    /// Partitions were taken.
    Revoked {
        /// Which.
        partitions: Vec<Place>,
    },
    /// An asynchronous commit was answered.
    Committed {
        /// Why it failed, if it did.
        error: Option<String>,
    },
    /// The client reported an error.
    Error {
        /// In its own words.
        message: String,
    },
}

/// The bounds of a partition.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Watermarks {
    /// First readable offset.
    pub low: i64,
    /// Offset of the next record.
    pub high: i64,
}

/// Topics by name with their partition counts, and the brokers.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Topics {
    /// Partition count by name.
    pub topics: BTreeMap<String, usize>,
    /// Error code names of topics that have one.
    pub errors: BTreeMap<String, String>,
    /// `host:port` by node id.
    pub brokers: BTreeMap<i32, String>,
}

/// A topic to create.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct NewTopic {
    /// Name.
    pub name: String,
    /// Partitions.
    pub partitions: i32,
    /// Settings.
    #[serde(default)]
    pub config: Settings,
}

/// Per name: `None` when it worked, else the Kafka error code's name.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Outcomes {
    /// By name.
    pub outcomes: BTreeMap<String, Option<String>>,
}

/// A topic's settings.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Configs {
    /// Value by name.
    pub entries: BTreeMap<String, Option<String>>,
    /// Names whose value was set on the topic itself.
    pub dynamic: Vec<String>,
}

/// Consumer groups.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Groups {
    /// As described.
    pub groups: Vec<Group>,
}

/// One consumer group.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Group {
    /// Group id.
    pub id: String,
    /// Kafka's name of its state.
    pub state: String,
    /// The assignor in force.
    pub protocol: String,
    /// Client ids of its members.
    pub client_ids: Vec<String>,
}

#[cfg(test)]
mod tests {
    use super::{Blob, Op, Place};

    #[test]
    fn absent_and_empty_bytes_differ_on_the_line() {
        for (blob, text) in [
            (Blob(None), "null"),
            (Blob::of(""), "\"\""),
            (Blob::of([0xff, 0]), "\"/wA=\""),
        ] {
            assert_eq!(serde_json::to_string(&blob).unwrap(), text);
            assert_eq!(serde_json::from_str::<Blob>(text).unwrap(), blob);
        }
        assert!(serde_json::from_str::<Blob>("\"?\"").is_err());
    }

    #[test]
    fn an_operation_is_an_object_that_names_itself() {
        let op = Op::Seek {
            partition: Place::new("t", 3, 7),
        };
        let line = serde_json::to_string(&op).unwrap();
        assert_eq!(
            line,
            r#"{"op":"seek","partition":{"topic":"t","partition":3,"offset":7,"metadata":""}}"#
        );
        assert_eq!(serde_json::from_str::<Op>(&line).unwrap(), op);
    }
}
