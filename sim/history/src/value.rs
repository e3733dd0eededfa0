//! The nouns of a history: names, partitions, and records with values that tell who wrote them.

use std::fmt;
use std::str::FromStr;
use std::sync::Arc;

use serde::{Deserialize, Serialize};

/// The name of a client, a machine, a topic, a group or a member. Cheap to copy.
#[derive(Clone, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(into = "String", from = "String")]
pub struct Name(Arc<str>);

impl Name {
    /// Its text.
    pub fn as_str(&self) -> &str {
        &self.0
    }

    /// Whether it is no name: a member that was not given one yet.
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }
}

impl fmt::Display for Name {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(&self.0)
    }
}

impl From<&str> for Name {
    fn from(text: &str) -> Self {
        Self(text.into())
    }
}

impl From<String> for Name {
    fn from(text: String) -> Self {
        Self(text.into())
    }
}

impl From<Name> for String {
    fn from(name: Name) -> Self {
        name.0.as_ref().to_owned()
    }
}

/// A partition of a topic, written as Kafka writes it: `orders-3`.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(into = "String", try_from = "String")]
pub struct TopicPartition {
    /// The topic.
    pub topic: Name,
    /// Its partition.
    pub partition: i32,
}

impl TopicPartition {
    /// Partition `partition` of `topic`.
    pub fn new(topic: impl Into<Name>, partition: i32) -> Self {
        Self {
            topic: topic.into(),
            partition,
        }
    }
}

impl fmt::Display for TopicPartition {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}-{}", self.topic, self.partition)
    }
}

impl From<TopicPartition> for String {
    fn from(at: TopicPartition) -> Self {
        at.to_string()
    }
}

/// The text names no partition.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{0:?} is no partition: TOPIC-NUMBER is, as orders-3")]
pub struct NotAPartition(pub String);

impl FromStr for TopicPartition {
    type Err = NotAPartition;

    fn from_str(text: &str) -> Result<Self, NotAPartition> {
        // Topics may hold dashes: the last one parts the number.
        let parsed = text.rsplit_once('-').and_then(|(topic, number)| {
            let partition: i32 = number.parse().ok()?;
            (!topic.is_empty() && partition >= 0).then(|| Self::new(topic, partition))
        });
        parsed.ok_or_else(|| NotAPartition(text.to_owned()))
    }
}

impl TryFrom<String> for TopicPartition {
    type Error = NotAPartition;

    fn try_from(text: String) -> Result<Self, NotAPartition> {
        text.parse()
    }
}

/// A record's value: who wrote it, and its number among those, counted in the order in which they
/// were handed to the producer. Unique in a history.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(into = "String", try_from = "String")]
pub struct Value {
    /// The producer.
    pub producer: u32,
    /// Counts from 0.
    pub number: u64,
}

impl fmt::Display for Value {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}-{}", self.producer, self.number)
    }
}

impl From<Value> for String {
    fn from(value: Value) -> Self {
        value.to_string()
    }
}

/// The bytes are no value of a history.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{0:?} was written by nobody: a value is PRODUCER-NUMBER, as 2-17")]
pub struct NotAValue(pub String);

impl FromStr for Value {
    type Err = NotAValue;

    fn from_str(text: &str) -> Result<Self, NotAValue> {
        let parsed = text.split_once('-').and_then(|(producer, number)| {
            Some(Self {
                producer: producer.parse().ok()?,
                number: number.parse().ok()?,
            })
        });
        parsed.ok_or_else(|| NotAValue(text.to_owned()))
    }
}

impl TryFrom<String> for Value {
    type Error = NotAValue;

    fn try_from(text: String) -> Result<Self, NotAValue> {
        text.parse()
    }
}

/// A record as it was handed to a producer.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Written {
    /// Its value.
    pub value: Value,
    /// A checksum of everything in it (key, value, headers, timestamp), where the writer made one.
    /// Any function will do, as long as writers and readers of a history use the same.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub digest: Option<u32>,
}

impl From<Value> for Written {
    fn from(value: Value) -> Self {
        Self {
            value,
            digest: None,
        }
    }
}

/// A record as a reader got it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Seen {
    /// Where it is.
    pub offset: i64,
    /// Its value.
    pub value: Value,
    /// The checksum of everything in it, as in [`Written`].
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub digest: Option<u32>,
}

/// Records written together, to be stored one after the other.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Batch {
    /// Where they go.
    pub to: TopicPartition,
    /// What, in order.
    pub records: Vec<Written>,
}

impl Batch {
    /// `count` values of `first`'s producer from `first` on, without checksums.
    pub fn of_values(to: TopicPartition, first: Value, count: u32) -> Self {
        let Value { producer, number } = first;
        let numbers = number..number + u64::from(count);
        Self {
            to,
            records: numbers
                .map(|number| Value { producer, number }.into())
                .collect(),
        }
    }

    /// The values.
    pub fn values(&self) -> impl Iterator<Item = Value> {
        self.records.iter().map(|record| record.value)
    }
}

impl fmt::Display for Batch {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.records.first() {
            Some(first) => {
                let more = self.records.len() - 1;
                write!(f, "{}+{more} to {}", first.value, self.to)
            }
            None => write!(f, "nothing to {}", self.to),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_partition_reads_as_kafka_writes_it() {
        let at: TopicPartition = "a-b-12".parse().unwrap();
        assert_eq!((at.topic.as_str(), at.partition), ("a-b", 12));
        assert_eq!(at.to_string(), "a-b-12");
        for wrong in ["", "orders", "-1", "orders-x", "orders--1"] {
            let parsed = wrong.parse::<TopicPartition>();
            // `orders--1` is partition 1 of `orders-`, which Kafka allows.
            assert_eq!(parsed.is_ok(), wrong == "orders--1", "{wrong}");
        }
    }

    #[test]
    fn a_value_reads_as_it_is_written() {
        assert_eq!(
            "2-17".parse(),
            Ok(Value {
                producer: 2,
                number: 17
            })
        );
        for wrong in ["", "2", "2-", "-17", "2-17x", "2--17", "4294967296-0"] {
            assert!(wrong.parse::<Value>().is_err(), "{wrong}");
        }
    }
}
