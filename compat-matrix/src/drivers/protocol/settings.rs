//! What a scenario may ask of a client's configuration, in words of no client.
//!
//! On a line the settings of one client are one object, `{"acks":"all","linger_ms":5}`. What is not
//! named stays as the client has it by default.

use std::collections::BTreeMap;

use serde::{Deserialize, Deserializer, Serialize, Serializer};

/// One setting.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Setting {
    /// Producer: who must have a record before it counts as delivered.
    Acks(Acks),
    /// Producer: with an id and sequences (KIP-98).
    Idempotence(bool),
    /// Producer: with transactions.
    TransactionalId(String),
    /// Producer: after so long the server gives an open transaction up.
    TransactionTimeoutMs(u32),
    /// Producer: codec of its batches.
    Compression(Codec),
    /// Producer: how a record without a partition gets one.
    Partitioner(Partitioner),
    /// Producer: the largest request, in bytes.
    MaxRequestBytes(u32),
    /// Producer, hint: how long a batch waits for company.
    LingerMs(u32),
    /// Producer, hint: the most records of a batch.
    BatchRecords(u32),
    /// Producer, hint: the most bytes of a batch.
    BatchBytes(u32),
    /// Producer, hint: requests that wait for an answer on one connection.
    MaxInFlight(u32),
    /// Producer, hint: how long a record is tried.
    DeliveryTimeoutMs(u32),
    /// Consumer: its group.
    GroupId(String),
    /// Consumer: static membership (KIP-345).
    GroupInstanceId(String),
    /// Consumer: which group protocol (KIP-848).
    GroupProtocol(GroupProtocol),
    /// Consumer: assignors, the preferred one first.
    Assignors(Vec<Assignor>),
    /// Consumer: commits by itself.
    AutoCommit(bool),
    /// Consumer: how often it does.
    AutoCommitIntervalMs(u32),
    /// Consumer: where to go when there is no offset, or one out of range.
    OffsetReset(OffsetReset),
    /// Consumer: whether it sees what transactions have not committed.
    Isolation(Isolation),
    /// Consumer: how long the server may hold a fetch that has nothing.
    FetchMaxWaitMs(u32),
    /// Consumer: the most bytes of a fetch, and of each of its partitions.
    FetchMaxBytes(u32),
    /// Consumer: whether asking for a topic creates it.
    AutoCreateTopics(bool),
    /// Consumer, hint: silence after which it counts as dead.
    SessionTimeoutMs(u32),
    /// Consumer, hint: between heartbeats.
    HeartbeatIntervalMs(u32),
    /// Consumer, hint: the longest time between two polls.
    MaxPollIntervalMs(u32),
    /// Both: how old the picture of the cluster may be.
    MetadataRefreshMs(u32),
    /// Both, hint: how long an answer may take.
    RequestTimeoutMs(u32),
    /// Both, hint: wait before a request is repeated.
    RetryBackoffMs(u32),
    /// Both, hint: wait before the first new connection.
    ReconnectBackoffMs(u32),
    /// Both, hint: the longest wait before a new connection.
    ReconnectBackoffMaxMs(u32),
    /// Both, hint: how long a client hopes that an unknown topic still spreads.
    TopicPropagationMs(u32),
}

impl Setting {
    /// The names of all settings.
    pub const NAMES: [&'static str; 32] = [
        "acks",
        "idempotence",
        "transactional_id",
        "transaction_timeout_ms",
        "compression",
        "partitioner",
        "max_request_bytes",
        "linger_ms",
        "batch_records",
        "batch_bytes",
        "max_in_flight",
        "delivery_timeout_ms",
        "group_id",
        "group_instance_id",
        "group_protocol",
        "assignors",
        "auto_commit",
        "auto_commit_interval_ms",
        "offset_reset",
        "isolation",
        "fetch_max_wait_ms",
        "fetch_max_bytes",
        "auto_create_topics",
        "session_timeout_ms",
        "heartbeat_interval_ms",
        "max_poll_interval_ms",
        "metadata_refresh_ms",
        "request_timeout_ms",
        "retry_backoff_ms",
        "reconnect_backoff_ms",
        "reconnect_backoff_max_ms",
        "topic_propagation_ms",
    ];

    /// Whether a client without it may go on as if it had not been asked: it changes how fast things
    /// happen, and not what happens.
    pub const fn is_hint(&self) -> bool {
        matches!(
            self,
            Self::LingerMs(_)
                | Self::BatchRecords(_)
                | Self::BatchBytes(_)
                | Self::MaxInFlight(_)
                | Self::DeliveryTimeoutMs(_)
                | Self::SessionTimeoutMs(_)
                | Self::HeartbeatIntervalMs(_)
                | Self::MaxPollIntervalMs(_)
                | Self::RequestTimeoutMs(_)
                | Self::RetryBackoffMs(_)
                | Self::ReconnectBackoffMs(_)
                | Self::ReconnectBackoffMaxMs(_)
                | Self::TopicPropagationMs(_)
        )
    }

    /// Its name and value on the line.
    pub fn to_pair(&self) -> (String, serde_json::Value) {
        // A variant with one field is an object with one entry; anything else is a change of this file
        // that its tests catch.
        match serde_json::to_value(self) {
            Ok(serde_json::Value::Object(object)) => object.into_iter().next().unwrap_or_default(),
            _ => Default::default(),
        }
    }
}

macro_rules! words {
    ($(#[$doc:meta])* $name:ident { $($(#[$variant_doc:meta])* $variant:ident = $word:literal,)+ }) => {
        $(#[$doc])*
        #[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
        pub enum $name {
            $($(#[$variant_doc])* #[serde(rename = $word)] $variant,)+
        }

        impl $name {
            /// Every word.
            pub const WORDS: &'static [&'static str] = &[$($word),+];

            /// The word on the line.
            pub const fn word(self) -> &'static str {
                match self { $(Self::$variant => $word),+ }
            }
        }
    };
}

words! {
    /// Levels of acknowledgement.
    Acks {
        /// None.
        None = "0",
        /// The leader.
        Leader = "1",
        /// Every replica in sync.
        All = "all",
    }
}

words! {
    /// Codecs of a batch.
    Codec {
        /// None.
        None = "none",
        /// gzip.
        Gzip = "gzip",
        /// Snappy.
        Snappy = "snappy",
        /// LZ4.
        Lz4 = "lz4",
        /// Zstandard (KIP-110).
        Zstd = "zstd",
    }
}

words! {
    /// Partitioners that give one key one partition.
    Partitioner {
        /// Murmur2 of the key, as Java's client has it.
        Murmur2 = "murmur2",
    }
}

words! {
    /// Group protocols.
    GroupProtocol {
        /// JoinGroup and SyncGroup.
        Classic = "classic",
        /// ConsumerGroupHeartbeat (KIP-848).
        Consumer = "consumer",
    }
}

words! {
    /// Assignors of the classic protocol.
    Assignor {
        /// Neighbouring partitions of each topic.
        Range = "range",
        /// One by one.
        RoundRobin = "roundrobin",
        /// As few moves as possible, eagerly.
        Sticky = "sticky",
        /// As few moves as possible, without stopping (KIP-429).
        CooperativeSticky = "cooperative-sticky",
    }
}

words! {
    /// Where to start without an offset.
    OffsetReset {
        /// At the first record.
        Earliest = "earliest",
        /// After the last.
        Latest = "latest",
        /// Nowhere: tell it.
        Error = "error",
    }
}

words! {
    /// What transactions hide.
    Isolation {
        /// Nothing.
        ReadUncommitted = "read_uncommitted",
        /// What is not committed.
        ReadCommitted = "read_committed",
    }
}

/// The settings of one client.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Settings(pub Vec<Setting>);

impl Serialize for Settings {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        // Of two settings with one name the last counts, as in every configuration file.
        let map: BTreeMap<_, _> = self.0.iter().map(Setting::to_pair).collect();
        serializer.collect_map(map)
    }
}

impl<'de> Deserialize<'de> for Settings {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let map = BTreeMap::<String, serde_json::Value>::deserialize(deserializer)?;
        map.into_iter()
            .map(|(name, value)| {
                serde_json::from_value(serde_json::Value::Object(
                    std::iter::once((name, value)).collect(),
                ))
                .map_err(serde::de::Error::custom)
            })
            .collect::<Result<_, _>>()
            .map(Self)
    }
}

#[cfg(test)]
mod tests {
    use super::{Acks, Assignor, Setting, Settings};

    #[test]
    fn settings_are_one_object_and_the_last_of_a_name_counts() {
        let settings = Settings(vec![
            Setting::Acks(Acks::None),
            Setting::LingerMs(5),
            Setting::Assignors(vec![Assignor::CooperativeSticky, Assignor::Range]),
            Setting::Acks(Acks::All),
        ]);
        let line = serde_json::to_string(&settings).unwrap();
        assert_eq!(
            line,
            r#"{"acks":"all","assignors":["cooperative-sticky","range"],"linger_ms":5}"#
        );
        let read: Settings = serde_json::from_str(&line).unwrap();
        assert_eq!(read.0.len(), 3);
        assert_eq!(read.0[0], Setting::Acks(Acks::All));
        assert!(serde_json::from_str::<Settings>(r#"{"no_such":1}"#).is_err());
    }

    /// Every name is one that the enum reads, with a value of some shape.
    #[test]
    fn names_are_those_of_the_settings() {
        for name in Setting::NAMES {
            let read = [
                "1",
                "true",
                "\"x\"",
                "\"all\"",
                "\"gzip\"",
                "\"murmur2\"",
                "\"classic\"",
                "[\"range\"]",
                "\"error\"",
                "\"read_committed\"",
            ]
            .iter()
            .find_map(|value| {
                serde_json::from_str::<Setting>(&format!("{{\"{name}\":{value}}}")).ok()
            });
            assert_eq!(read.unwrap().to_pair().0, name);
        }
    }
}
