//! Kafka's Java clients 4.1.
//!
//! | What | Where it was looked up |
//! |---|---|
//! | ceilings | `validVersions` in clients/src/main/resources/common/message/*Request.json of 4.1; where the codec stops short of it, the codec's (ListOffsets 10 for 11, OffsetCommit and OffsetFetch 9 for 10) |
//! | software | `AppInfoParser`, `ApiVersionsRequest.Builder` |
//! | connect timeout, reconnect | `socket.connection.setup.timeout.ms`, `reconnect.backoff.ms`, `reconnect.backoff.max.ms` and their 20 % of jitter: CommonClientConfigs, ClusterConnectionStates |
//! | request timeout | `request.timeout.ms`; NetworkClient.handleTimedOutRequests closes the connection |
//! | retry | `retry.backoff.ms`, `retry.backoff.max.ms`, `RETRY_BACKOFF_JITTER` in CommonClientConfigs |
//! | own connections | the coordinator's node gets the id `Integer.MAX_VALUE` − id: AbstractCoordinator.FindCoordinatorResponseHandler |
//! | throttle time | NetworkClient.maybeThrottle: the connection sends nothing meanwhile |
//! | metadata | `metadata.max.age.ms`; between refreshes `retry.backoff.ms`: Metadata |
//! | producer | defaults of ProducerConfig 4.1: `enable.idempotence`, `acks`, `max.in.flight.requests.per.connection`, `linger.ms`, `batch.size`, `delivery.timeout.ms`, `request.timeout.ms`, `retries` |
//! | one by one | RecordAccumulator.shouldStopDrainBatchesForPartition |
//! | new epoch | TransactionManager.handleFailedBatch, requestEpochBumpForPartition (KIP-360) |
//! | partitioner | BuiltInPartitioner.partitionForKey: murmur2; without a key one partition until a batch is full (KIP-794) |
//! | consumer | defaults of ConsumerConfig 4.1: `fetch.max.wait.ms`, `fetch.min.bytes`, `fetch.max.bytes`, `max.partition.fetch.bytes`, `max.poll.records`; FetchSessionHandler |
//! | group | `partition.assignment.strategy`, `session.timeout.ms`, `heartbeat.interval.ms`, `max.poll.interval.ms` (also JoinGroup's rebalance timeout), `auto.commit.interval.ms` |
//! | rebalances in poll | ConsumerCoordinator.poll; the thread beside it is AbstractCoordinator.HeartbeatThread |
//! | commits | ConsumerCoordinator: commitSync retries until its timeout, commitAsync never; sendOffsetCommitRequest fails at once without a generation |

use std::time::Duration;

use kafka_wire::ApiKey;

use super::{
    ConsumerRules, Desynchronised, GroupProtocol, GroupRules, MetadataRules, ProducerRules,
    Profile, Purpose, Rebalances, Repetition, RequestShape, TransactionRules,
};
use crate::client::backoff::BackoffRule;
use crate::client::consumer::assignor::Assignor;
use crate::client::partitioner::Partitioner;

const CEILINGS: &[(ApiKey, i16)] = &[
    (ApiKey::PRODUCE, 13),
    (ApiKey::FETCH, 18),
    (ApiKey::LIST_OFFSETS, 10),
    (ApiKey::METADATA, 13),
    (ApiKey::OFFSET_COMMIT, 9),
    (ApiKey::OFFSET_FETCH, 9),
    (ApiKey::FIND_COORDINATOR, 6),
    (ApiKey::JOIN_GROUP, 9),
    (ApiKey::HEARTBEAT, 4),
    (ApiKey::LEAVE_GROUP, 5),
    (ApiKey::SYNC_GROUP, 5),
    (ApiKey::DESCRIBE_GROUPS, 6),
    (ApiKey::LIST_GROUPS, 5),
    (ApiKey::SASL_HANDSHAKE, 1),
    (ApiKey::SASL_AUTHENTICATE, 2),
    (ApiKey::API_VERSIONS, 4),
    (ApiKey::CREATE_TOPICS, 7),
    (ApiKey::DELETE_TOPICS, 6),
    (ApiKey::DELETE_RECORDS, 2),
    (ApiKey::INIT_PRODUCER_ID, 5),
    (ApiKey::OFFSET_FOR_LEADER_EPOCH, 4),
    (ApiKey::ADD_PARTITIONS_TO_TXN, 3),
    (ApiKey::ADD_OFFSETS_TO_TXN, 4),
    (ApiKey::END_TXN, 5),
    (ApiKey::TXN_OFFSET_COMMIT, 5),
    (ApiKey::DESCRIBE_CONFIGS, 4),
    (ApiKey::ALTER_CONFIGS, 2),
    (ApiKey::CREATE_PARTITIONS, 3),
    (ApiKey::DELETE_GROUPS, 2),
    (ApiKey::INCREMENTAL_ALTER_CONFIGS, 1),
    (ApiKey::CONSUMER_GROUP_HEARTBEAT, 1),
];

/// The profile.
pub const JAVA: Profile = Profile {
    name: "java 4.1",
    software: ("apache-kafka-java", "4.1.0"),
    ceilings: CEILINGS,
    connect_timeout: Duration::from_secs(10),
    reconnect: BackoffRule {
        initial: Duration::from_millis(50),
        max: Duration::from_secs(1),
        jitter_percent: (20, 20),
    },
    request_timeout: Duration::from_secs(30),
    retry: BackoffRule {
        initial: Duration::from_millis(100),
        max: Duration::from_secs(1),
        jitter_percent: (20, 20),
    },
    own_connections: &[Purpose::Coordinator],
    obeys_throttle: true,
    metadata: MetadataRules {
        max_age: Duration::from_secs(300),
        min_age: Duration::from_millis(100),
    },
    producer: ProducerRules {
        idempotent: true,
        acks: -1,
        max_in_flight: 5,
        linger: Duration::from_millis(5),
        batch_bytes: 16_384,
        batch_records: usize::MAX,
        delivery_timeout: Duration::from_secs(120),
        ack_timeout: Duration::from_secs(30),
        retries: None,
        request: RequestShape::EveryPartition,
        repetition: Repetition::OneByOne,
        desynchronised: Desynchronised::NewEpoch,
        partitioner: Partitioner::Murmur2,
    },
    consumer: ConsumerRules {
        max_wait: Duration::from_millis(500),
        min_bytes: 1,
        max_bytes: 52_428_800,
        partition_max_bytes: 1_048_576,
        sessions: true,
        error_backoff: Duration::from_millis(100),
        max_poll_records: Some(500),
    },
    group: GroupRules {
        protocol: GroupProtocol::Classic,
        assignors: &[Assignor::Range, Assignor::CooperativeSticky],
        session_timeout: Duration::from_secs(45),
        rebalance_timeout: Duration::from_secs(300),
        heartbeat_interval: Duration::from_secs(3),
        max_poll_interval: Some(Duration::from_secs(300)),
        rebalances: Rebalances::InPoll,
        auto_commit_interval: Duration::from_secs(5),
        commits_as_nobody: false,
        async_commit_retries: 0,
        finds_coordinator_at_once: false,
    },
    transactions: TransactionRules {
        epoch_refused_is_abortable: true,
        implicit: false,
    },
};
