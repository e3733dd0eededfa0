//! franz-go 1.19 (pkg/kgo).
//!
//! | What | Where it was looked up |
//! |---|---|
//! | ceilings | `MaxVersions(kversion.Stable())` in defaultCfg (config.go); the versions of 4.0 in pkg/kversion |
//! | software | defaultCfg |
//! | connect timeout, request timeout | `dialTimeout`, `requestTimeoutOverhead` in defaultCfg; a timeout kills the connection (doc of RequestTimeoutOverhead) |
//! | reconnect, retry | `retryBackoff` in defaultCfg: 250 ms doubled up to 2.5 s, ±20 % |
//! | own connections | `loadConnection` in broker.go: produce, fetch, and join and sync |
//! | bootstrap stays a seed | `seedBrokers` have connections of their own: client.go |
//! | throttle time | a response's `Throttle()` in broker.go: the connection writes nothing meanwhile, when it throttles after the response |
//! | metadata | `metadataMaxAge`, `metadataMinAge` in defaultCfg |
//! | producer | defaultCfg: acks, `produceTimeout`, `maxRecordBatchBytes`, `recordRetries`; idempotent unless disabled, then five in flight (sink.go); no linger |
//! | rewind | `handleRetryBatches`, `handleReqRespBatch`, `isOwnersFirstBatch` in sink.go: answers for later batches are skipped |
//! | new epoch | `failProducerID` with `errReloadProducerID` in sink.go, unless StopProducerOnDataLossDetected |
//! | partitioner | `UniformBytesPartitioner` with keys hashed as Kafka does |
//! | consumer | defaultCfg: `maxWait`, `minBytes`, `maxBytes`, `maxPartBytes`; sessions unless disabled: source.go |
//! | group | defaultCfg: `balancers`, `sessionTimeout`, `rebalanceTimeout`, `heartbeatInterval`, `autocommitInterval`; nobody watches the application's polls |
//! | rebalances in background | consumer_group.go: `manage` runs beside polls, unless BlockRebalanceOnPoll |
//! | commits | CommitOffsets goes through the client's retries (`retries` in defaultCfg), with whatever `memberGen` holds |

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
    (ApiKey::PRODUCE, 12),
    (ApiKey::FETCH, 17),
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

const BACKOFF: BackoffRule = BackoffRule {
    initial: Duration::from_millis(250),
    max: Duration::from_millis(2_500),
    jitter_percent: (20, 20),
};

/// The profile.
pub const FRANZ_GO: Profile = Profile {
    name: "franz-go 1.19",
    software: ("kgo", "v1.19.5"),
    ceilings: CEILINGS,
    connect_timeout: Duration::from_secs(10),
    reconnect: BACKOFF,
    request_timeout: Duration::from_secs(20),
    retry: BACKOFF,
    own_connections: &[Purpose::Produce, Purpose::Fetch, Purpose::Rebalance],
    obeys_throttle: true,
    metadata: MetadataRules {
        max_age: Duration::from_secs(300),
        min_age: Duration::from_secs(5),
    },
    producer: ProducerRules {
        idempotent: true,
        acks: -1,
        max_in_flight: 5,
        linger: Duration::ZERO,
        batch_bytes: 1_000_012,
        batch_records: usize::MAX,
        delivery_timeout: Duration::from_secs(24 * 3600),
        ack_timeout: Duration::from_secs(10),
        retries: None,
        request: RequestShape::EveryPartition,
        repetition: Repetition::Rewind,
        desynchronised: Desynchronised::NewEpoch,
        partitioner: Partitioner::Murmur2,
    },
    consumer: ConsumerRules {
        max_wait: Duration::from_secs(5),
        min_bytes: 1,
        max_bytes: 50 << 20,
        partition_max_bytes: 1 << 20,
        sessions: true,
        error_backoff: Duration::from_millis(250),
        max_poll_records: None,
    },
    group: GroupRules {
        protocol: GroupProtocol::Classic,
        assignors: &[Assignor::CooperativeSticky],
        session_timeout: Duration::from_secs(45),
        rebalance_timeout: Duration::from_secs(60),
        heartbeat_interval: Duration::from_secs(3),
        max_poll_interval: None,
        rebalances: Rebalances::InBackground,
        auto_commit_interval: Duration::from_secs(5),
        commits_as_nobody: true,
        async_commit_retries: 20,
        finds_coordinator_at_once: false,
    },
    transactions: TransactionRules {
        epoch_refused_is_abortable: true,
        implicit: false,
    },
};
