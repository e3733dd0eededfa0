//! What operations carry and answer.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

use super::Blob;

/// Settings of a topic, in Kafka's names: `retention.ms`.
pub type TopicConfig = BTreeMap<String, String>;

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
    /// Partition and offset in the order they were sent, without those that failed; −1 where a client
    /// does not know it (with acks=0 nobody tells the offset).
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

/// What is in messages of Queen.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Payloads {
    /// In order.
    pub payloads: Vec<serde_json::Value>,
}

/// Who is in a transaction.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct ProducerIdentity {
    /// The server's id of the producer.
    pub producer_id: i64,
    /// How often somebody took the transactional id over.
    pub epoch: i16,
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
    pub config: TopicConfig,
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

/// A cluster.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Cluster {
    /// Its id.
    pub id: String,
    /// The controller's node id.
    pub controller: i32,
    /// `host:port` by node id.
    pub brokers: BTreeMap<i32, String>,
}
