//! What a client can ask, and what it can be told.

use serde::{Deserialize, Serialize};

use crate::value::{Batch, Name, Seen, TopicPartition};

/// An operation, as an application sees it: a library may send many requests for one, or none.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case", deny_unknown_fields)]
pub enum Call {
    /// A batch is handed to the producer. Ends [`Reply::Stored`]; fails when it is known not to be
    /// in the log, now or later.
    Produce {
        /// Which.
        batch: Batch,
        /// `acks`: 0, 1 or -1. With 0, an ok means no more than that it was sent.
        acks: i16,
        /// The number of the client's transaction it belongs to.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        transaction: Option<u64>,
    },
    /// A consumer asks for records. Ends [`Reply::Polled`]; one that got none need not be recorded.
    Poll {
        /// What it may see.
        #[serde(default)]
        isolation: Isolation,
        /// The number of the client's transaction that the records are processed in.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        transaction: Option<u64>,
    },
    /// JoinGroup, the first one of a member or a later one. Ends [`Reply::Joined`].
    Join {
        /// The group.
        group: Name,
        /// The member; empty when it has no id yet.
        member: Name,
        /// `group.instance.id` of a static member.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        instance: Option<Name>,
    },
    /// SyncGroup. Ends [`Reply::Synced`].
    Sync {
        /// The group.
        group: Name,
        /// The member.
        member: Name,
        /// Its generation.
        generation: i32,
    },
    /// Heartbeat of a classic member. Ends [`Reply::Done`].
    Heartbeat {
        /// The group.
        group: Name,
        /// The member.
        member: Name,
        /// Its generation.
        generation: i32,
        /// `group.instance.id` of a static member.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        instance: Option<Name>,
    },
    /// ConsumerGroupHeartbeat (KIP-848). Ends [`Reply::Beat`].
    ConsumerHeartbeat {
        /// The group.
        group: Name,
        /// The member.
        member: Name,
        /// `group.instance.id` of a static member.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        instance: Option<Name>,
        /// The epoch it says it has: 0 joins, -1 and -2 leave.
        epoch: i32,
        /// What it says it owns, when it says so.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        owned: Option<Vec<TopicPartition>>,
    },
    /// LeaveGroup. Ends [`Reply::Done`].
    Leave {
        /// The group.
        group: Name,
        /// The member.
        member: Name,
        /// `group.instance.id` of a static member.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        instance: Option<Name>,
    },
    /// OffsetCommit. Ends [`Reply::Committed`].
    Commit {
        /// The group.
        group: Name,
        /// The member; empty for a commit from outside the group.
        member: Name,
        /// Its generation or epoch; -1 for a commit from outside the group.
        generation: i32,
        /// The next offset to be read, of each partition.
        offsets: Vec<(TopicPartition, i64)>,
        /// Whether it means to go back: a reset.
        #[serde(default)]
        reset: bool,
    },
    /// OffsetFetch. Ends [`Reply::Offsets`].
    FetchOffsets {
        /// The group.
        group: Name,
        /// Of which partitions.
        partitions: Vec<TopicPartition>,
    },
    /// InitProducerId. Ends [`Reply::Producer`].
    InitProducer {
        /// `transactional.id`, of a transactional producer.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        transactional: Option<Name>,
    },
    /// A transaction begins, in the client. Ends [`Reply::Done`].
    Begin {
        /// Its number among the client's.
        transaction: u64,
    },
    /// Offsets are committed as part of a transaction (TxnOffsetCommit). Ends
    /// [`Reply::Committed`].
    SendOffsets {
        /// The number of the transaction.
        transaction: u64,
        /// The group.
        group: Name,
        /// The member.
        member: Name,
        /// Its generation or epoch.
        generation: i32,
        /// The next offset to be read, of each partition.
        offsets: Vec<(TopicPartition, i64)>,
    },
    /// EndTxn. Ends [`Reply::Done`].
    End {
        /// The number of the transaction.
        transaction: u64,
        /// Commit, or abort.
        commit: bool,
    },
    /// Something an administrator does. Ends [`Reply::Done`].
    Admin(Admin),
}

impl Call {
    /// What it is, in a word.
    pub const fn name(&self) -> &'static str {
        match self {
            Self::Produce { .. } => "produce",
            Self::Poll { .. } => "poll",
            Self::Join { .. } => "join",
            Self::Sync { .. } => "sync",
            Self::Heartbeat { .. } => "heartbeat",
            Self::ConsumerHeartbeat { .. } => "consumer heartbeat",
            Self::Leave { .. } => "leave",
            Self::Commit { .. } => "commit",
            Self::FetchOffsets { .. } => "fetch offsets",
            Self::InitProducer { .. } => "init producer",
            Self::Begin { .. } => "begin transaction",
            Self::SendOffsets { .. } => "send offsets",
            Self::End { commit: true, .. } => "commit transaction",
            Self::End { commit: false, .. } => "abort transaction",
            Self::Admin(_) => "admin",
        }
    }
}

/// What a consumer may see.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Isolation {
    /// Everything.
    #[default]
    ReadUncommitted,
    /// Only what is committed.
    ReadCommitted,
}

/// What an administrator does.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case", deny_unknown_fields)]
pub enum Admin {
    /// CreateTopics.
    CreateTopic {
        /// Which.
        topic: Name,
        /// How many partitions.
        partitions: i32,
    },
    /// DeleteTopics.
    DeleteTopic {
        /// Which.
        topic: Name,
    },
    /// CreatePartitions.
    CreatePartitions {
        /// Of which topic.
        topic: Name,
        /// How many there are to be.
        partitions: i32,
    },
    /// DeleteRecords.
    DeleteRecords {
        /// Of which partition.
        at: TopicPartition,
        /// The first offset that is kept.
        before: i64,
    },
    /// AlterConfigs or IncrementalAlterConfigs, of a topic or a broker.
    AlterConfigs {
        /// Of what.
        resource: Name,
    },
    /// DeleteGroups.
    DeleteGroup {
        /// Which.
        group: Name,
    },
    /// OffsetDelete.
    DeleteOffsets {
        /// Of which group.
        group: Name,
        /// Which.
        partitions: Vec<TopicPartition>,
    },
    /// Anything that only looks: DescribeConfigs, ListGroups and the like.
    Look {
        /// The API's name, as Kafka writes it.
        api: Name,
    },
}

/// What an operation that succeeded brought.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case", deny_unknown_fields)]
pub enum Reply {
    /// Nothing but success.
    Done,
    /// The batch is in the log.
    Stored {
        /// Where its first record is, when that was told.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        base_offset: Option<i64>,
    },
    /// Records, by partition.
    Polled(Vec<Polled>),
    /// A place in a generation.
    Joined {
        /// The generation.
        generation: i32,
        /// The member's id, which may be new.
        member: Name,
        /// The member that assigns.
        leader: Name,
        /// The assignor that was chosen; empty without one.
        protocol: Name,
        /// The group's members: only the leader is told.
        #[serde(default)]
        members: Vec<Name>,
    },
    /// What a member is to read in its generation.
    Synced {
        /// Which.
        assignment: Vec<TopicPartition>,
    },
    /// The answer to a heartbeat of KIP-848.
    Beat {
        /// The member's id.
        member: Name,
        /// Its epoch.
        epoch: i32,
        /// What it is to own, when that changed.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        assignment: Option<Vec<TopicPartition>>,
    },
    /// Offsets are committed, but for these.
    Committed {
        /// Partitions that were refused, and Kafka's code.
        #[serde(default)]
        refused: Vec<(TopicPartition, i16)>,
    },
    /// Committed offsets; `None` where there is none.
    Offsets(Vec<(TopicPartition, Option<i64>)>),
    /// An identity of a producer.
    Producer(Producer),
}

/// What one poll brought from one partition.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Polled {
    /// Which partition.
    pub at: TopicPartition,
    /// The consumer's position before.
    pub from: i64,
    /// Its position after.
    pub next: i64,
    /// The records between, in the order they came.
    pub records: Vec<Seen>,
}

/// An identity of a producer.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Producer {
    /// The producer id.
    pub id: i64,
    /// Its epoch.
    pub epoch: i16,
}

/// Why an operation brought nothing.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Failure {
    /// Kafka's error code, when the broker said so.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub code: Option<i16>,
    /// In words.
    pub what: String,
}

impl Failure {
    /// The broker said `code`, which means `what`.
    pub fn code(code: i16, what: impl Into<String>) -> Self {
        Self {
            code: Some(code),
            what: what.into(),
        }
    }

    /// The client gave up by itself.
    pub fn here(what: impl Into<String>) -> Self {
        Self {
            code: None,
            what: what.into(),
        }
    }
}
