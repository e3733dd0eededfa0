//! The entries of a history.

use serde::{Deserialize, Serialize};

use crate::call::{Call, Failure, Producer, Reply};
use crate::value::{Name, Seen, TopicPartition, Value};

/// One entry. A history holds them in the order in which they happened.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Entry {
    /// Milliseconds since the start of the history.
    pub at_ms: u64,
    /// The client whose doing it is, or `world`.
    pub who: Name,
    /// What.
    pub event: Event,
}

/// The number of an operation, unique in a history.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(transparent)]
pub struct Op(pub u64);

/// What happened.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case", deny_unknown_fields)]
pub enum Event {
    /// A client says what it is, before anything else it does.
    Client {
        /// The library it behaves like: `librdkafka 2.12`.
        profile: Name,
        /// What may be demanded of it, or of what it gets. Without one, nothing of its kind is.
        #[serde(default)]
        promises: Vec<Promise>,
    },
    /// An operation begins.
    Invoke {
        /// Its number.
        op: Op,
        /// What is asked.
        call: Call,
        /// It must end so many milliseconds after it began, or after the world healed, whatever
        /// comes later.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        within_ms: Option<u64>,
    },
    /// An operation took effect.
    Ok {
        /// Which.
        op: Op,
        /// What it brought.
        reply: Reply,
    },
    /// An operation took no effect and never will.
    Fail {
        /// Which.
        op: Op,
        /// Why.
        failure: Failure,
    },
    /// An operation may have taken effect, or may yet.
    Unknown {
        /// Which.
        op: Op,
        /// Why nobody knows.
        failure: Failure,
    },
    /// A batch, or an offset commit, goes out, for the first time or again. What went out more than
    /// once may take effect once more after its operation has ended: a try that hung on a lost
    /// connection is carried out when it arrives.
    Attempt {
        /// The operation it belongs to.
        op: Op,
        /// 1 for the first time.
        attempt: u32,
        /// The identity it is sent under, of an idempotent producer.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        producer: Option<Producer>,
        /// The sequence of its first record, of an idempotent producer.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        sequence: Option<i32>,
    },
    /// A request was written to a connection.
    Asked {
        /// The client's number for the connection, unique in its life.
        connection: u64,
        /// The API key.
        api: i16,
        /// Its version.
        version: i16,
        /// Its correlation id.
        correlation: i32,
    },
    /// A whole answer came.
    Answered {
        /// On which connection.
        connection: u64,
        /// The API key of the request.
        api: i16,
        /// Its version.
        version: i16,
        /// Its correlation id.
        correlation: i32,
        /// `throttle_time_ms`, 0 where the version has none.
        #[serde(default)]
        throttle_ms: u32,
    },
    /// A consumer chose its topics.
    Subscribed {
        /// The group.
        group: Name,
        /// The topics.
        topics: Vec<Name>,
    },
    /// A consumer owns partitions now, beside those that it owned.
    Assigned {
        /// The group; empty for a consumer that assigned itself.
        group: Name,
        /// The member.
        member: Name,
        /// Its generation or epoch.
        generation: i32,
        /// Which.
        partitions: Vec<TopicPartition>,
    },
    /// A consumer gave partitions back, in good order.
    Revoked {
        /// The group.
        group: Name,
        /// The member.
        member: Name,
        /// Its generation or epoch.
        generation: i32,
        /// Which.
        partitions: Vec<TopicPartition>,
    },
    /// A consumer heard too late that partitions are no longer its own.
    Lost {
        /// The group.
        group: Name,
        /// The member.
        member: Name,
        /// Its generation or epoch.
        generation: i32,
        /// Which.
        partitions: Vec<TopicPartition>,
    },
    /// A consumer's position was set, not read on to: by the committed offset, by
    /// `auto.offset.reset`, or by its application.
    Seek {
        /// Where.
        at: TopicPartition,
        /// To where.
        offset: i64,
    },
    /// What came back isn't Kafka's protocol, or not what was asked for.
    Malformed {
        /// What is wrong.
        what: String,
    },
    /// A record is made from one that was read: of all that are made from it, one is to be in the
    /// log once it counts as read.
    Derived {
        /// From what.
        of: Value,
        /// What.
        value: Value,
    },
    /// A piece of the log, read after everything has ended.
    Log {
        /// By whom.
        source: Source,
        /// Of which partition.
        at: TopicPartition,
        /// What is there, by ascending offset.
        records: Vec<Seen>,
    },
    /// All of a partition's log has been read.
    LogEnd {
        /// By whom.
        source: Source,
        /// Of which partition.
        at: TopicPartition,
        /// The first offset it keeps.
        start: i64,
        /// The offset after its last.
        end: i64,
    },
    /// The values that a transaction wrote and a reader of committed records must not see, because
    /// the log marks them aborted.
    Aborted {
        /// Of which partition.
        at: TopicPartition,
        /// Which.
        values: Vec<Value>,
    },
    /// How many bytes a listener holds, and how many it may.
    Memory {
        /// Whose.
        node: Name,
        /// Bytes.
        used_bytes: u64,
        /// Bytes.
        bound_bytes: u64,
    },
    /// A door served a request.
    Served {
        /// Its number among the door's deeds.
        deed: u64,
        /// Who asked.
        principal: Name,
        /// For which tenant.
        tenant: Name,
        /// What: the API's name.
        action: Name,
        /// On what.
        resource: Name,
        /// When it was asked for, where that is known: a credential that has ended meanwhile is
        /// judged by that.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        asked_ms: Option<u64>,
    },
    /// A connection was authenticated, for the first time or again: what it is served from now on,
    /// it is served as this.
    Authenticated {
        /// Which.
        connection: u64,
        /// The credential.
        principal: Name,
        /// Whose it is.
        tenant: Name,
    },
    /// A connection ended, and not because its client wanted it to.
    Closed {
        /// Which.
        connection: u64,
        /// How it showed.
        what: String,
    },
    /// A record of the audit, read after everything has ended, in the audit's order.
    Audit {
        /// Its number.
        sequence: u64,
        /// The deed it tells of.
        deed: u64,
        /// Who asked.
        principal: Name,
        /// What.
        action: Name,
        /// On what.
        resource: Name,
    },
    /// All of the audit has been read.
    AuditEnd,
    /// Something that a checker can't see in what clients did.
    Mark(Mark),
}

/// What may be demanded of a client, or of what it gets.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Promise {
    /// What it writes is there at most once (an idempotent producer, or one that never retries).
    Once,
    /// What it writes to a partition is there in the order in which it was handed over.
    Ordered,
    /// No batch of it may be refused for good: nothing is wrong with them.
    NeverRefused,
    /// It asks nothing on a connection while that is throttled (KIP-219).
    ObeysThrottle,
    /// It is not answered on a connection while that is throttled: the broker mutes (KIP-219).
    MutedWhenThrottled,
    /// It reads every partition from its start, or its Seek, to its end.
    ReadsAll,
    /// Nothing goes wrong but with the credentials of others, so none of its connections is ended
    /// by the other side.
    Undisturbed,
}

/// Who read a log.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Source {
    /// A fresh Kafka consumer.
    Consumer,
    /// The storage itself, past every door.
    Storage,
}

/// What the world around the clients did.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case", deny_unknown_fields)]
pub enum Mark {
    /// A fault struck.
    Fault {
        /// Which, in the schedule's words.
        what: String,
    },
    /// A machine lost its memory.
    Crash {
        /// Which.
        node: Name,
    },
    /// A machine started.
    Start {
        /// Which.
        node: Name,
    },
    /// A client is gone and ends nothing that it began.
    ClientCrash {
        /// Which.
        client: Name,
    },
    /// From now on nothing goes wrong.
    Heal,
    /// A group has had its time: its members are in one generation, and own all of these.
    Settled {
        /// The group.
        group: Name,
        /// What its topics hold.
        partitions: Vec<TopicPartition>,
    },
    /// A credential was revoked, or lost a part of what it may do.
    Revoke {
        /// Whose.
        principal: Name,
        /// What is asked so much later may be served still.
        within_ms: u64,
        /// What it may do no longer: names of APIs; empty for everything.
        #[serde(default, skip_serializing_if = "Vec::is_empty")]
        actions: Vec<Name>,
    },
    /// A credential is good, or good again, for everything.
    Grant {
        /// Whose.
        principal: Name,
    },
    /// A resource belongs to a tenant.
    Owns {
        /// The tenant.
        tenant: Name,
        /// The resource.
        resource: Name,
    },
    /// A situation that a sweep must have met, which only the world can see.
    Situation {
        /// Its name.
        name: Name,
    },
    /// The clients didn't finish in the time they had.
    Stuck,
    /// A machine's program ended by itself.
    Broken {
        /// What it said.
        what: String,
    },
    /// The history ends.
    End,
}
