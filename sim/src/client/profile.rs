//! How a client behaves where clients differ. Data only.
//!
//! A library's file cites where each of its values was looked up. Waits are the library's defaults,
//! far longer than a run; [`Profile::hurried`] shortens them as an operator would, and leaves the
//! rest of the behaviour alone.

mod franz_go;
mod java;
mod librdkafka;

use std::time::Duration;

use kafka_wire::ApiKey;

use super::backoff::BackoffRule;
use super::consumer::assignor::Assignor;
use super::partitioner::Partitioner;

pub use franz_go::FRANZ_GO;
pub use java::JAVA;
pub use librdkafka::LIBRDKAFKA;

/// The choices of one client library.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Profile {
    /// Its name and version.
    pub name: &'static str,
    /// Name and version that ApiVersions tells (KIP-511).
    pub software: (&'static str, &'static str),
    /// The highest version it speaks of the APIs it uses; others it doesn't call.
    pub ceilings: &'static [(ApiKey, i16)],
    /// How long it waits for a connection.
    pub connect_timeout: Duration,
    /// Between attempts to connect to one broker.
    pub reconnect: BackoffRule,
    /// How long it waits for an answer before it drops the connection.
    pub request_timeout: Duration,
    /// Between a failed request and its repetition.
    pub retry: BackoffRule,
    /// What it does on connections of its own; everything else of a broker shares one.
    pub own_connections: &'static [Purpose],
    /// Whether it keeps quiet when a broker throttles it (KIP-219).
    pub obeys_throttle: bool,
    /// When it asks for Metadata.
    pub metadata: MetadataRules,
    /// How it writes.
    pub producer: ProducerRules,
    /// How it reads.
    pub consumer: ConsumerRules,
    /// How it is a member.
    pub group: GroupRules,
    /// How it writes in transactions.
    pub transactions: TransactionRules,
}

/// What a connection is for.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Purpose {
    /// Metadata, coordinators, offsets, administration.
    Control,
    /// Produce.
    Produce,
    /// Fetch.
    Fetch,
    /// What a coordinator of groups or transactions is asked, but for the next.
    Coordinator,
    /// JoinGroup and SyncGroup, which a coordinator may keep for long.
    Rebalance,
}

/// When Metadata is asked for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct MetadataRules {
    /// The oldest it may get.
    pub max_age: Duration,
    /// Between two requests that errors cause.
    pub min_age: Duration,
}

/// How records are written.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ProducerRules {
    /// Whether a batch sent again is stored once.
    pub idempotent: bool,
    /// `acks`: 0, 1, or -1 for all.
    pub acks: i16,
    /// Requests without an answer on one connection.
    pub max_in_flight: usize,
    /// How long a batch waits for more records.
    pub linger: Duration,
    /// The largest batch, in bytes of keys and values.
    pub batch_bytes: usize,
    /// The most records of a batch.
    pub batch_records: usize,
    /// After so long a batch has failed.
    pub delivery_timeout: Duration,
    /// The request's `timeout_ms`: how long the broker may take.
    pub ack_timeout: Duration,
    /// How often a batch is sent again; `None` until its time is over.
    pub retries: Option<u32>,
    /// Which partitions share a request.
    pub request: RequestShape,
    /// What happens to the batches behind one that is sent again.
    pub repetition: Repetition,
    /// What follows when the broker misses a sequence of the first batch in flight.
    pub desynchronised: Desynchronised,
    /// Where records go when the application leaves it open.
    pub partitioner: Partitioner,
}

/// Which partitions share a Produce request.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum RequestShape {
    /// One batch of one partition.
    OnePartition,
    /// One batch of each partition that has one ready for the broker.
    EveryPartition,
}

/// What happens to batches of a partition behind one that is sent again.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Repetition {
    /// Those with an identity go out again one by one, each when all before it are stored; those
    /// that were stored are left alone.
    OneByOne,
    /// All go out again, whatever is answered for them, once nothing of the partition is in flight.
    Rewind,
    /// All that are not stored go out again, once nothing of the producer is in flight, under a
    /// new epoch when a later batch was refused as out of order.
    Drain,
}

/// What follows when the broker answers OUT_OF_ORDER_SEQUENCE_NUMBER or UNKNOWN_PRODUCER_ID for the
/// first batch in flight.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Desynchronised {
    /// A new epoch, sequences from 0, and the batch again (KIP-360).
    NewEpoch,
    /// The producer is of no use any more.
    Fatal,
}

/// How records are read.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ConsumerRules {
    /// `fetch.max.wait.ms`.
    pub max_wait: Duration,
    /// `fetch.min.bytes`.
    pub min_bytes: i32,
    /// `fetch.max.bytes`.
    pub max_bytes: i32,
    /// `max.partition.fetch.bytes`.
    pub partition_max_bytes: i32,
    /// Whether it asks for fetch sessions (KIP-227).
    pub sessions: bool,
    /// Between a partition's error and its next fetch.
    pub error_backoff: Duration,
    /// `max.poll.records`; `None` for all that is there.
    pub max_poll_records: Option<usize>,
}

/// How membership in a group is kept.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct GroupRules {
    /// `group.protocol`.
    pub protocol: GroupProtocol,
    /// `partition.assignment.strategy`, in order of preference.
    pub assignors: &'static [Assignor],
    /// `session.timeout.ms`.
    pub session_timeout: Duration,
    /// JoinGroup's `rebalance_timeout_ms`.
    pub rebalance_timeout: Duration,
    /// `heartbeat.interval.ms`.
    pub heartbeat_interval: Duration,
    /// `max.poll.interval.ms`; `None` where nobody watches the application.
    pub max_poll_interval: Option<Duration>,
    /// Who does what in a rebalance.
    pub rebalances: Rebalances,
    /// `auto.commit.interval.ms`.
    pub auto_commit_interval: Duration,
    /// Whether a member that is out of its group commits all the same, as nobody in particular.
    pub commits_as_nobody: bool,
    /// How often a commit that failed for a passing reason is sent again when the application does
    /// not wait for it.
    pub async_commit_retries: u32,
    /// Whether the coordinator is found and connected as soon as there is a group, even for a
    /// consumer that is no member and asks it nothing.
    pub finds_coordinator_at_once: bool,
}

/// `group.protocol`, and what only one of them has.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum GroupProtocol {
    /// JoinGroup and SyncGroup: members assign.
    Classic,
    /// ConsumerGroupHeartbeat (KIP-848): the coordinator assigns.
    Consumer {
        /// `group.remote.assignor`; the coordinator's choice when absent.
        assignor: Option<&'static str>,
    },
}

/// How transactions are kept.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct TransactionRules {
    /// Whether a Produce that is answered INVALID_PRODUCER_EPOCH costs the transaction, and not the
    /// producer.
    pub epoch_refused_is_abortable: bool,
    /// Whether partitions and groups are added by what is written (KIP-890), where the versions are
    /// there, whatever `transaction.version` says.
    pub implicit: bool,
}

/// Who does what in a rebalance.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Rebalances {
    /// All of it happens while the application polls; a thread beside it only sends heartbeats.
    InPoll,
    /// A thread joins and syncs; the application hears of it when it polls, and what it loses is
    /// given up then.
    ServedByPoll,
    /// A thread does all of it, whatever the application does.
    InBackground,
}

impl Profile {
    /// On which connection it does what is done for `purpose`.
    pub fn lane(&self, purpose: Purpose) -> Purpose {
        let own = |purpose| self.own_connections.contains(&purpose);
        match purpose {
            purpose if own(purpose) => purpose,
            // It is the coordinator's all the same.
            Purpose::Rebalance if own(Purpose::Coordinator) => Purpose::Coordinator,
            _ => Purpose::Control,
        }
    }

    /// The highest version of `key` it speaks.
    pub fn ceiling(&self, key: ApiKey) -> Option<i16> {
        self.ceilings
            .iter()
            .find(|(known, _)| *known == key)
            .map(|(_, version)| *version)
    }

    /// The same with waits short enough that one run of twenty simulated seconds sees several of
    /// them.
    #[must_use]
    pub const fn hurried(mut self) -> Self {
        const fn millis(millis: u64) -> Duration {
            Duration::from_millis(millis)
        }
        self.connect_timeout = millis(2_000);
        self.reconnect.max = millis(400);
        self.request_timeout = millis(3_000);
        if self.retry.max.as_millis() > 400 {
            self.retry.max = millis(400);
        }
        self.metadata.max_age = millis(10_000);
        if self.metadata.min_age.as_millis() > 250 {
            self.metadata.min_age = millis(250);
        }
        self.producer.delivery_timeout = millis(120_000);
        self.producer.ack_timeout = millis(3_000);
        self.consumer.max_wait = millis(500);
        self.group.session_timeout = millis(6_000);
        self.group.rebalance_timeout = millis(6_000);
        self.group.heartbeat_interval = millis(500);
        if self.group.max_poll_interval.is_some() {
            self.group.max_poll_interval = Some(millis(6_000));
        }
        self.group.auto_commit_interval = millis(1_000);
        self
    }

    /// The same without idempotence: what it sends again is stored again.
    #[must_use]
    pub const fn plain(mut self) -> Self {
        self.producer.idempotent = false;
        self
    }

    /// The same with idempotence.
    #[must_use]
    pub const fn idempotent(mut self) -> Self {
        self.producer.idempotent = true;
        if self.producer.max_in_flight > 5 {
            // What librdkafka does with a higher `max.in.flight` by itself.
            self.producer.max_in_flight = 5;
        }
        self
    }
}

/// An idempotent producer with five requests in flight that sends again, in order, what is not
/// known to be stored, and never makes up an epoch.
pub const IDEMPOTENT: Profile = {
    let mut profile = FRANZ_GO.hurried().idempotent();
    profile.name = "idempotent";
    profile.retry = BackoffRule::fixed(Duration::from_millis(100));
    profile
};

/// The same without idempotence.
pub const PLAIN: Profile = {
    let mut profile = IDEMPOTENT.plain();
    profile.name = "plain";
    profile.producer.max_in_flight = 5;
    profile
};

/// A client that keeps transactions as KIP-890 has it. Libraries do where `transaction.version`
/// says so.
pub const TRANSACTIONS_2: Profile = {
    let mut profile = JAVA.hurried();
    profile.name = "transactions 2";
    profile.transactions.implicit = true;
    profile
};

/// Java's consumer under `group.protocol=consumer` (KIP-848). A thread of its own keeps the
/// membership; what comes and goes is told the application while it polls (AsyncKafkaConsumer).
pub const JAVA_CONSUMER_PROTOCOL: Profile = {
    let mut profile = JAVA.hurried();
    profile.name = "java 4.1, consumer protocol";
    profile.group.protocol = GroupProtocol::Consumer { assignor: None };
    profile.group.rebalances = Rebalances::ServedByPoll;
    profile
};

/// Every library.
pub const ALL: [&Profile; 3] = [&LIBRDKAFKA, &JAVA, &FRANZ_GO];

/// Every library in a hurry, with idempotent producers.
pub const HURRIED: [&Profile; 3] = [
    &LIBRDKAFKA.hurried().idempotent(),
    &JAVA.hurried(),
    &FRANZ_GO.hurried(),
];

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_library_speaks_each_api_in_one_ceiling_that_the_codec_writes() {
        for profile in ALL {
            let keys: std::collections::BTreeSet<_> =
                profile.ceilings.iter().map(|(key, _)| *key).collect();
            assert_eq!(keys.len(), profile.ceilings.len(), "{}", profile.name);
            for (key, ceiling) in profile.ceilings {
                let known = kafka_protocol::messages::ApiKey::try_from(key.0);
                let known = known.expect("a known API").valid_versions();
                assert!(*ceiling >= known.min, "{}: {key} v{ceiling}", profile.name);
            }
        }
    }

    #[test]
    fn join_and_sync_go_where_the_coordinator_is_asked() {
        assert_eq!(JAVA.lane(Purpose::Rebalance), Purpose::Coordinator);
        assert_eq!(FRANZ_GO.lane(Purpose::Rebalance), Purpose::Rebalance);
        assert_eq!(FRANZ_GO.lane(Purpose::Coordinator), Purpose::Control);
        assert_eq!(LIBRDKAFKA.lane(Purpose::Produce), Purpose::Control);
    }

    #[test]
    fn hurry_changes_waits_and_nothing_else() {
        for profile in ALL {
            let hurried = profile.clone().hurried();
            assert!(hurried.request_timeout < profile.request_timeout);
            assert_eq!(hurried.ceilings, profile.ceilings);
            assert_eq!(hurried.obeys_throttle, profile.obeys_throttle);
            assert_eq!(hurried.producer.repetition, profile.producer.repetition);
            assert_eq!(hurried.group.rebalances, profile.group.rebalances);
            let heartbeat = hurried.group.heartbeat_interval;
            assert!(heartbeat * 3 <= hurried.group.session_timeout);
        }
    }
}
