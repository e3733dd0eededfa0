//! API keys, version ranges, and the windows a door serves. Constants only; no I/O, no allocation.

use std::fmt;

/// The number that names a Kafka API on the wire. Any `i16` is representable: an unknown key is a
/// value to be answered, not a parse failure.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct ApiKey(pub i16);

macro_rules! api_keys {
    ($($constant:ident = $key:literal, $name:literal;)*) => {
        impl ApiKey {
            $(
                #[doc = $name]
                pub const $constant: ApiKey = ApiKey($key);
            )*

            /// Every key this crate knows, ascending.
            pub const ALL: &'static [ApiKey] = &[$(ApiKey($key)),*];
        }

        const NAMES: &[&str] = &[$($name),*];
    };
}

api_keys! {
    PRODUCE = 0, "Produce";
    FETCH = 1, "Fetch";
    LIST_OFFSETS = 2, "ListOffsets";
    METADATA = 3, "Metadata";
    LEADER_AND_ISR = 4, "LeaderAndIsr";
    STOP_REPLICA = 5, "StopReplica";
    UPDATE_METADATA = 6, "UpdateMetadata";
    CONTROLLED_SHUTDOWN = 7, "ControlledShutdown";
    OFFSET_COMMIT = 8, "OffsetCommit";
    OFFSET_FETCH = 9, "OffsetFetch";
    FIND_COORDINATOR = 10, "FindCoordinator";
    JOIN_GROUP = 11, "JoinGroup";
    HEARTBEAT = 12, "Heartbeat";
    LEAVE_GROUP = 13, "LeaveGroup";
    SYNC_GROUP = 14, "SyncGroup";
    DESCRIBE_GROUPS = 15, "DescribeGroups";
    LIST_GROUPS = 16, "ListGroups";
    SASL_HANDSHAKE = 17, "SaslHandshake";
    API_VERSIONS = 18, "ApiVersions";
    CREATE_TOPICS = 19, "CreateTopics";
    DELETE_TOPICS = 20, "DeleteTopics";
    DELETE_RECORDS = 21, "DeleteRecords";
    INIT_PRODUCER_ID = 22, "InitProducerId";
    OFFSET_FOR_LEADER_EPOCH = 23, "OffsetForLeaderEpoch";
    ADD_PARTITIONS_TO_TXN = 24, "AddPartitionsToTxn";
    ADD_OFFSETS_TO_TXN = 25, "AddOffsetsToTxn";
    END_TXN = 26, "EndTxn";
    WRITE_TXN_MARKERS = 27, "WriteTxnMarkers";
    TXN_OFFSET_COMMIT = 28, "TxnOffsetCommit";
    DESCRIBE_ACLS = 29, "DescribeAcls";
    CREATE_ACLS = 30, "CreateAcls";
    DELETE_ACLS = 31, "DeleteAcls";
    DESCRIBE_CONFIGS = 32, "DescribeConfigs";
    ALTER_CONFIGS = 33, "AlterConfigs";
    ALTER_REPLICA_LOG_DIRS = 34, "AlterReplicaLogDirs";
    DESCRIBE_LOG_DIRS = 35, "DescribeLogDirs";
    SASL_AUTHENTICATE = 36, "SaslAuthenticate";
    CREATE_PARTITIONS = 37, "CreatePartitions";
    CREATE_DELEGATION_TOKEN = 38, "CreateDelegationToken";
    RENEW_DELEGATION_TOKEN = 39, "RenewDelegationToken";
    EXPIRE_DELEGATION_TOKEN = 40, "ExpireDelegationToken";
    DESCRIBE_DELEGATION_TOKEN = 41, "DescribeDelegationToken";
    DELETE_GROUPS = 42, "DeleteGroups";
    ELECT_LEADERS = 43, "ElectLeaders";
    INCREMENTAL_ALTER_CONFIGS = 44, "IncrementalAlterConfigs";
    ALTER_PARTITION_REASSIGNMENTS = 45, "AlterPartitionReassignments";
    LIST_PARTITION_REASSIGNMENTS = 46, "ListPartitionReassignments";
    OFFSET_DELETE = 47, "OffsetDelete";
    DESCRIBE_CLIENT_QUOTAS = 48, "DescribeClientQuotas";
    ALTER_CLIENT_QUOTAS = 49, "AlterClientQuotas";
    DESCRIBE_USER_SCRAM_CREDENTIALS = 50, "DescribeUserScramCredentials";
    ALTER_USER_SCRAM_CREDENTIALS = 51, "AlterUserScramCredentials";
    VOTE = 52, "Vote";
    BEGIN_QUORUM_EPOCH = 53, "BeginQuorumEpoch";
    END_QUORUM_EPOCH = 54, "EndQuorumEpoch";
    DESCRIBE_QUORUM = 55, "DescribeQuorum";
    ALTER_PARTITION = 56, "AlterPartition";
    UPDATE_FEATURES = 57, "UpdateFeatures";
    ENVELOPE = 58, "Envelope";
    FETCH_SNAPSHOT = 59, "FetchSnapshot";
    DESCRIBE_CLUSTER = 60, "DescribeCluster";
    DESCRIBE_PRODUCERS = 61, "DescribeProducers";
    BROKER_REGISTRATION = 62, "BrokerRegistration";
    BROKER_HEARTBEAT = 63, "BrokerHeartbeat";
    UNREGISTER_BROKER = 64, "UnregisterBroker";
    DESCRIBE_TRANSACTIONS = 65, "DescribeTransactions";
    LIST_TRANSACTIONS = 66, "ListTransactions";
    ALLOCATE_PRODUCER_IDS = 67, "AllocateProducerIds";
    CONSUMER_GROUP_HEARTBEAT = 68, "ConsumerGroupHeartbeat";
    CONSUMER_GROUP_DESCRIBE = 69, "ConsumerGroupDescribe";
    CONTROLLER_REGISTRATION = 70, "ControllerRegistration";
    GET_TELEMETRY_SUBSCRIPTIONS = 71, "GetTelemetrySubscriptions";
    PUSH_TELEMETRY = 72, "PushTelemetry";
    ASSIGN_REPLICAS_TO_DIRS = 73, "AssignReplicasToDirs";
    LIST_CONFIG_RESOURCES = 74, "ListConfigResources";
    DESCRIBE_TOPIC_PARTITIONS = 75, "DescribeTopicPartitions";
    SHARE_GROUP_HEARTBEAT = 76, "ShareGroupHeartbeat";
    SHARE_GROUP_DESCRIBE = 77, "ShareGroupDescribe";
    SHARE_FETCH = 78, "ShareFetch";
    SHARE_ACKNOWLEDGE = 79, "ShareAcknowledge";
    ADD_RAFT_VOTER = 80, "AddRaftVoter";
    REMOVE_RAFT_VOTER = 81, "RemoveRaftVoter";
    UPDATE_RAFT_VOTER = 82, "UpdateRaftVoter";
    INITIALIZE_SHARE_GROUP_STATE = 83, "InitializeShareGroupState";
    READ_SHARE_GROUP_STATE = 84, "ReadShareGroupState";
    WRITE_SHARE_GROUP_STATE = 85, "WriteShareGroupState";
    DELETE_SHARE_GROUP_STATE = 86, "DeleteShareGroupState";
    READ_SHARE_GROUP_STATE_SUMMARY = 87, "ReadShareGroupStateSummary";
    STREAMS_GROUP_HEARTBEAT = 88, "StreamsGroupHeartbeat";
    STREAMS_GROUP_DESCRIBE = 89, "StreamsGroupDescribe";
    DESCRIBE_SHARE_GROUP_OFFSETS = 90, "DescribeShareGroupOffsets";
    ALTER_SHARE_GROUP_OFFSETS = 91, "AlterShareGroupOffsets";
    DELETE_SHARE_GROUP_OFFSETS = 92, "DeleteShareGroupOffsets";
    STREAMS_GROUP_TOPOLOGY_DESCRIPTION_UPDATE = 93, "StreamsGroupTopologyDescriptionUpdate";
    UNREGISTER_CONTROLLER = 94, "UnregisterController";
}

impl ApiKey {
    /// One more than the largest key this crate knows.
    pub const COUNT: usize = NAMES.len();

    /// Kafka's name for the API, such as `Produce`; `None` for a key this crate does not know.
    pub const fn name(self) -> Option<&'static str> {
        match self.index() {
            Some(index) => Some(NAMES[index]),
            None => None,
        }
    }

    /// Position in a table of [`ApiKey::COUNT`] entries.
    pub(crate) const fn index(self) -> Option<usize> {
        if self.0 >= 0 && (self.0 as usize) < Self::COUNT {
            Some(self.0 as usize)
        } else {
            None
        }
    }
}

impl fmt::Display for ApiKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.name() {
            Some(name) => f.write_str(name),
            None => write!(f, "ApiKey({})", self.0),
        }
    }
}

impl fmt::Debug for ApiKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.name() {
            Some(name) => write!(f, "{name}({})", self.0),
            None => write!(f, "ApiKey({})", self.0),
        }
    }
}

/// An inclusive range of versions.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct VersionRange {
    /// Lowest version.
    pub min: i16,
    /// Highest version.
    pub max: i16,
}

impl VersionRange {
    /// The range that holds no version.
    pub const NONE: VersionRange = VersionRange { min: 0, max: -1 };

    /// `min..=max`.
    pub const fn new(min: i16, max: i16) -> Self {
        VersionRange { min, max }
    }

    /// `min` and everything above it (`min+` in Kafka's definitions).
    pub const fn from(min: i16) -> Self {
        VersionRange { min, max: i16::MAX }
    }

    /// Whether `version` is in the range.
    #[inline]
    pub const fn contains(self, version: i16) -> bool {
        self.min <= version && version <= self.max
    }

    /// Whether the range holds no version.
    pub const fn is_empty(self) -> bool {
        self.min > self.max
    }

    /// The versions both ranges hold; `None` when they share none.
    pub const fn intersect(self, other: VersionRange) -> Option<VersionRange> {
        let min = if self.min > other.min {
            self.min
        } else {
            other.min
        };
        let max = if self.max < other.max {
            self.max
        } else {
            other.max
        };
        if min > max {
            None
        } else {
            Some(VersionRange { min, max })
        }
    }

    /// Every version of the range, ascending.
    pub fn iter(self) -> impl Iterator<Item = i16> {
        self.min..=self.max
    }
}

impl fmt::Display for VersionRange {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match (self.is_empty(), self.max) {
            (true, _) => f.write_str("none"),
            (false, i16::MAX) => write!(f, "{}+", self.min),
            (false, max) if max == self.min => write!(f, "{max}"),
            (false, max) => write!(f, "{}-{max}", self.min),
        }
    }
}

impl fmt::Debug for VersionRange {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, f)
    }
}

/// The versions a door serves per API. One constant both fills the ApiVersions answer and gates
/// requests, so that what is advertised and what is accepted cannot differ.
///
/// ```
/// use kafka_wire::{ApiKey, VersionRange, Windows};
///
/// const WINDOWS: Windows = Windows::new(&[
///     (ApiKey::PRODUCE, VersionRange::new(3, 13)),
///     (ApiKey::API_VERSIONS, VersionRange::new(0, 4)),
/// ]);
/// assert!(WINDOWS.serves(ApiKey::PRODUCE, 13));
/// assert!(!WINDOWS.serves(ApiKey::FETCH, 4));
/// ```
#[derive(Clone, Copy, PartialEq, Eq)]
pub struct Windows {
    ranges: [Option<VersionRange>; ApiKey::COUNT],
}

impl Windows {
    /// Builds the table.
    ///
    /// # Panics
    ///
    /// On a key this crate does not know, a key listed twice or an empty range. Windows are
    /// constants, so each is a compile error.
    pub const fn new(entries: &[(ApiKey, VersionRange)]) -> Self {
        let mut ranges = [None; ApiKey::COUNT];
        let mut next = 0;
        while next < entries.len() {
            let (key, range) = entries[next];
            let Some(index) = key.index() else {
                panic!("a window for an unknown API key")
            };
            assert!(ranges[index].is_none(), "two windows for one API key");
            assert!(!range.is_empty() && range.min >= 0, "an empty window");
            ranges[index] = Some(range);
            next += 1;
        }
        Windows { ranges }
    }

    /// The versions of `key` that are served; `None` when the API is not.
    pub const fn get(&self, key: ApiKey) -> Option<VersionRange> {
        match key.index() {
            Some(index) => self.ranges[index],
            None => None,
        }
    }

    /// Whether `version` of `key` is served.
    pub const fn serves(&self, key: ApiKey, version: i16) -> bool {
        match self.get(key) {
            Some(range) => range.contains(version),
            None => false,
        }
    }

    /// Every served API with its versions, by ascending key.
    pub fn iter(&self) -> impl Iterator<Item = (ApiKey, VersionRange)> + '_ {
        ApiKey::ALL
            .iter()
            .filter_map(|&key| self.get(key).map(|range| (key, range)))
    }
}

impl fmt::Debug for Windows {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_map().entries(self.iter()).finish()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn keys_are_dense_so_that_a_key_is_its_own_index() {
        for (index, key) in ApiKey::ALL.iter().enumerate() {
            assert_eq!(key.index(), Some(index));
        }
        assert_eq!(ApiKey::PRODUCE.name(), Some("Produce"));
        assert_eq!(ApiKey(95).name(), None);
        assert_eq!(ApiKey(-1).name(), None);
        assert_eq!(
            format!("{} {:?} {}", ApiKey::FETCH, ApiKey::FETCH, ApiKey(127)),
            "Fetch Fetch(1) ApiKey(127)"
        );
    }

    #[test]
    fn ranges_say_themselves_as_kafka_does() {
        let all = [
            VersionRange::NONE,
            VersionRange::from(3),
            VersionRange::new(2, 2),
            VersionRange::new(0, 9),
        ];
        assert_eq!(
            all.map(|range| range.to_string()),
            ["none", "3+", "2", "0-9"]
        );
        assert_eq!(
            VersionRange::new(0, 5).intersect(VersionRange::new(3, 9)),
            Some(VersionRange::new(3, 5))
        );
        assert_eq!(
            VersionRange::new(0, 2).intersect(VersionRange::new(3, 9)),
            None
        );
    }
}
