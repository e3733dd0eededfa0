//! librdkafka 2.12.1, as the crate rdkafka builds it.
//!
//! | What | Where it was looked up |
//! |---|---|
//! | ceilings | `rd_kafka_broker_ApiVersion_supported` calls in rdkafka_request.c, rdkafka_fetcher.c (Fetch), rdkafka_msgset_writer.c (Produce); ApiVersions: rdkafka_broker.c |
//! | software | `rd_kafka_ApiVersionRequest` in rdkafka_request.c |
//! | connect timeout, reconnect | `socket.connection.setup.timeout.ms`, `reconnect.backoff.ms`, `reconnect.backoff.max.ms` in CONFIGURATION.md; jitter −25 % to +50 %: `rd_kafka_broker_update_reconnect_backoff` |
//! | request timeout | `socket.timeout.ms`; one timeout closes the connection (`socket.max.fails` 1) |
//! | retry | `retry.backoff.ms`, `retry.backoff.max.ms`; jitter `RD_KAFKA_RETRY_JITTER_PERCENT` |
//! | own connections | the logical broker `GroupCoordinator`: rdkafka_cgrp.c |
//! | the bootstrap server's connection stays its own | recorded: fixtures/sequences/librdkafka.json |
//! | throttle time only reported | `rd_kafka_op_throttle_time` in rdkafka_op.c: an event for the application, nothing waits |
//! | metadata | `topic.metadata.refresh.interval.ms`, `topic.metadata.refresh.fast.interval.ms` |
//! | idempotence off, acks all | `enable.idempotence`, `request.required.acks` |
//! | in flight | `max.in.flight.requests.per.connection`; 5 when idempotent: rdkafka_conf.c |
//! | linger, batches | `queue.buffering.max.ms`, `batch.size`, `batch.num.messages` |
//! | delivery, ack timeout, retries | `message.timeout.ms`, `request.timeout.ms`, `message.send.max.retries` |
//! | a partition a request | `rd_kafka_ProduceRequest` in rdkafka_request.c takes one partition |
//! | drain and new epoch | `rd_kafka_handle_idempotent_Produce_error` in rdkafka_request.c, `rd_kafka_idemp_drain_done` in rdkafka_idempotence.c |
//! | partitioner | `partitioner` = `consistent_random` |
//! | fetch | `fetch.wait.max.ms`, `fetch.min.bytes`, `fetch.max.bytes`, `fetch.message.max.bytes`, `fetch.error.backoff.ms`; session id 0, epoch −1: rdkafka_fetcher.c |
//! | group | `partition.assignment.strategy`, `session.timeout.ms`, `heartbeat.interval.ms`, `max.poll.interval.ms` (also JoinGroup's rebalance timeout), `auto.commit.interval.ms` |
//! | rebalances | rdkafka_cgrp.c runs in the main thread; `rebalance_cb` is served by poll (INTRODUCTION.md) |
//! | the coordinator is looked for at once | `rd_kafka_cgrp_serve` in rdkafka_cgrp.c runs as soon as there is a `group.id`; recorded |
//! | commit retries | `rd_kafka_cgrp_handle_OffsetCommit` retries what `rd_kafka_err_action` calls retriable, up to `RD_KAFKA_REQUEST_DEFAULT_RETRIES` |

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
    (ApiKey::PRODUCE, 10),
    (ApiKey::FETCH, 16),
    (ApiKey::LIST_OFFSETS, 7),
    (ApiKey::METADATA, 13),
    (ApiKey::OFFSET_COMMIT, 9),
    (ApiKey::OFFSET_FETCH, 9),
    (ApiKey::FIND_COORDINATOR, 2),
    (ApiKey::JOIN_GROUP, 5),
    (ApiKey::HEARTBEAT, 3),
    (ApiKey::LEAVE_GROUP, 1),
    (ApiKey::SYNC_GROUP, 3),
    (ApiKey::DESCRIBE_GROUPS, 4),
    (ApiKey::LIST_GROUPS, 5),
    (ApiKey::SASL_HANDSHAKE, 1),
    (ApiKey::SASL_AUTHENTICATE, 1),
    (ApiKey::API_VERSIONS, 3),
    (ApiKey::CREATE_TOPICS, 4),
    (ApiKey::DELETE_TOPICS, 1),
    (ApiKey::DELETE_RECORDS, 1),
    (ApiKey::INIT_PRODUCER_ID, 4),
    (ApiKey::OFFSET_FOR_LEADER_EPOCH, 2),
    (ApiKey::ADD_PARTITIONS_TO_TXN, 0),
    (ApiKey::ADD_OFFSETS_TO_TXN, 0),
    (ApiKey::END_TXN, 1),
    (ApiKey::TXN_OFFSET_COMMIT, 3),
    (ApiKey::DESCRIBE_CONFIGS, 1),
    (ApiKey::ALTER_CONFIGS, 2),
    (ApiKey::CREATE_PARTITIONS, 0),
    (ApiKey::DELETE_GROUPS, 1),
    (ApiKey::INCREMENTAL_ALTER_CONFIGS, 1),
    (ApiKey::CONSUMER_GROUP_HEARTBEAT, 1),
];

/// The profile.
pub const LIBRDKAFKA: Profile = Profile {
    name: "librdkafka 2.12",
    software: ("librdkafka", "2.12.1"),
    ceilings: CEILINGS,
    connect_timeout: Duration::from_secs(30),
    reconnect: BackoffRule {
        initial: Duration::from_millis(100),
        max: Duration::from_secs(10),
        jitter_percent: (25, 50),
    },
    request_timeout: Duration::from_secs(60),
    retry: BackoffRule {
        initial: Duration::from_millis(100),
        max: Duration::from_secs(1),
        jitter_percent: (20, 20),
    },
    own_connections: &[Purpose::Coordinator],
    obeys_throttle: false,
    metadata: MetadataRules {
        max_age: Duration::from_secs(300),
        min_age: Duration::from_millis(100),
    },
    producer: ProducerRules {
        idempotent: false,
        acks: -1,
        max_in_flight: 1_000_000,
        linger: Duration::from_millis(5),
        batch_bytes: 1_000_000,
        batch_records: 10_000,
        delivery_timeout: Duration::from_secs(300),
        ack_timeout: Duration::from_secs(30),
        retries: None,
        request: RequestShape::OnePartition,
        repetition: Repetition::Drain,
        desynchronised: Desynchronised::Fatal,
        partitioner: Partitioner::Crc32,
    },
    consumer: ConsumerRules {
        max_wait: Duration::from_millis(500),
        min_bytes: 1,
        max_bytes: 52_428_800,
        partition_max_bytes: 1_048_576,
        sessions: false,
        error_backoff: Duration::from_millis(500),
        max_poll_records: Some(1),
    },
    group: GroupRules {
        protocol: GroupProtocol::Classic,
        assignors: &[Assignor::Range, Assignor::RoundRobin],
        session_timeout: Duration::from_secs(45),
        rebalance_timeout: Duration::from_secs(300),
        heartbeat_interval: Duration::from_secs(3),
        max_poll_interval: Some(Duration::from_secs(300)),
        rebalances: Rebalances::ServedByPoll,
        auto_commit_interval: Duration::from_secs(5),
        commits_as_nobody: true,
        async_commit_retries: 2,
        finds_coordinator_at_once: true,
    },
    transactions: TransactionRules {
        epoch_refused_is_abortable: false,
        implicit: false,
    },
};
