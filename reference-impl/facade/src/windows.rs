//! The versions this door serves, per API. The one table fills ApiVersions and gates requests.
//!
//! [`NOTES`] says what a row leaves out and why, and the generated tables print that.

use kafka_wire::{ApiKey, VersionRange, Windows};

/// What is served. Everything else closes the connection, as Apache Kafka does.
pub const WINDOWS: Windows = Windows::new(&[
    (ApiKey::PRODUCE, VersionRange::new(3, 13)),
    (ApiKey::FETCH, VersionRange::new(4, 18)),
    (ApiKey::LIST_OFFSETS, VersionRange::new(1, 11)),
    (ApiKey::METADATA, VersionRange::new(0, 13)),
    (ApiKey::OFFSET_COMMIT, VersionRange::new(2, 10)),
    (ApiKey::OFFSET_FETCH, VersionRange::new(1, 10)),
    (ApiKey::FIND_COORDINATOR, VersionRange::new(0, 6)),
    (ApiKey::JOIN_GROUP, VersionRange::new(0, 9)),
    (ApiKey::HEARTBEAT, VersionRange::new(0, 4)),
    (ApiKey::LEAVE_GROUP, VersionRange::new(0, 5)),
    (ApiKey::SYNC_GROUP, VersionRange::new(0, 5)),
    (ApiKey::DESCRIBE_GROUPS, VersionRange::new(0, 6)),
    (ApiKey::LIST_GROUPS, VersionRange::new(0, 5)),
    (ApiKey::SASL_HANDSHAKE, VersionRange::new(0, 1)),
    (ApiKey::API_VERSIONS, VersionRange::new(0, 4)),
    (ApiKey::CREATE_TOPICS, VersionRange::new(2, 7)),
    (ApiKey::DELETE_TOPICS, VersionRange::new(1, 6)),
    (ApiKey::DELETE_RECORDS, VersionRange::new(0, 2)),
    (ApiKey::INIT_PRODUCER_ID, VersionRange::new(0, 5)),
    (ApiKey::OFFSET_FOR_LEADER_EPOCH, VersionRange::new(2, 4)),
    (ApiKey::ADD_PARTITIONS_TO_TXN, VersionRange::new(0, 3)),
    (ApiKey::ADD_OFFSETS_TO_TXN, VersionRange::new(0, 4)),
    (ApiKey::END_TXN, VersionRange::new(0, 5)),
    (ApiKey::TXN_OFFSET_COMMIT, VersionRange::new(0, 5)),
    (ApiKey::DESCRIBE_ACLS, VersionRange::new(1, 3)),
    (ApiKey::CREATE_ACLS, VersionRange::new(1, 3)),
    (ApiKey::DELETE_ACLS, VersionRange::new(1, 3)),
    (ApiKey::DESCRIBE_CONFIGS, VersionRange::new(1, 4)),
    (ApiKey::ALTER_CONFIGS, VersionRange::new(0, 2)),
    (ApiKey::DESCRIBE_LOG_DIRS, VersionRange::new(1, 5)),
    (ApiKey::SASL_AUTHENTICATE, VersionRange::new(0, 2)),
    (ApiKey::CREATE_PARTITIONS, VersionRange::new(0, 3)),
    (ApiKey::DELETE_GROUPS, VersionRange::new(0, 2)),
    (ApiKey::INCREMENTAL_ALTER_CONFIGS, VersionRange::new(0, 1)),
    (ApiKey::OFFSET_DELETE, VersionRange::new(0, 0)),
    (ApiKey::DESCRIBE_CLUSTER, VersionRange::new(0, 2)),
    (ApiKey::CONSUMER_GROUP_HEARTBEAT, VersionRange::new(0, 1)),
    (ApiKey::CONSUMER_GROUP_DESCRIBE, VersionRange::new(0, 1)),
    (ApiKey::DESCRIBE_PRODUCERS, VersionRange::new(0, 0)),
    (ApiKey::DESCRIBE_TRANSACTIONS, VersionRange::new(0, 0)),
    (ApiKey::LIST_TRANSACTIONS, VersionRange::new(0, 2)),
    (ApiKey::DESCRIBE_TOPIC_PARTITIONS, VersionRange::new(0, 0)),
]);

/// A feature of a cluster that all its brokers have agreed on (KIP-584).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Feature {
    /// Its name.
    pub name: &'static str,
    /// The highest level served; it is also the finalized one.
    pub level: i16,
}

/// What is finalized: only what holds in every rule.
pub const FEATURES: &[Feature] = &[GROUP_VERSION];

/// Consumer groups of KIP-848.
pub const GROUP_VERSION: Feature = Feature {
    name: "group.version",
    level: 1,
};

/// Versions that ApiVersions names although their requests are refused: librdkafka turns
/// compression off when Produce does not start at 0 (KAFKA-18659).
pub const ADVERTISED_PRODUCE: VersionRange = VersionRange::new(0, 13);

/// What a client is told about `key`; `None` when the API is not served.
pub const fn advertised(key: ApiKey) -> Option<VersionRange> {
    match key {
        ApiKey::PRODUCE => Some(ADVERTISED_PRODUCE),
        _ => WINDOWS.get(key),
    }
}

/// Remarks on rows, for the generated tables.
pub const NOTES: &[(ApiKey, &str)] = &[
    (
        ApiKey::PRODUCE,
        "advertised from 0, refused below 3: librdkafka disables compression when it does not see 0",
    ),
    (ApiKey::ADD_PARTITIONS_TO_TXN, "4 and 5 are between brokers"),
    (ApiKey::DESCRIBE_ACLS, "answers SECURITY_DISABLED"),
    (ApiKey::CREATE_ACLS, "answers SECURITY_DISABLED"),
    (ApiKey::DELETE_ACLS, "answers SECURITY_DISABLED"),
];

#[cfg(test)]
mod tests {
    use kafka_protocol::messages as typed;

    use super::*;
    use crate::dispatch::beyond;

    #[test]
    fn every_window_is_within_the_typed_codec() {
        for (key, window) in WINDOWS.iter() {
            let typed = typed::ApiKey::try_from(key.0).expect("the codec knows every served key");
            let known = typed.valid_versions();
            for version in window.iter() {
                assert!(
                    known.min <= version && version <= known.max || beyond::reaches(key, version),
                    "{key} {version} against {known:?}"
                );
            }
        }
    }

    #[test]
    fn only_produce_is_advertised_wider_than_it_is_served() {
        for key in ApiKey::ALL {
            if *key == ApiKey::PRODUCE {
                assert_eq!(advertised(*key), Some(VersionRange::new(0, 13)));
            } else {
                assert_eq!(advertised(*key), WINDOWS.get(*key));
            }
        }
    }
}
