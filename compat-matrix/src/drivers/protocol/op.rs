//! The operations.

use serde::{Deserialize, Serialize};

use super::settings::Settings;
use super::values::{NewTopic, Outgoing, Place, TopicConfig};

/// One operation of a session. What it answers is said as a type of [`super::values`]; `{}` is an empty
/// object.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(tag = "op", rename_all = "snake_case")]
pub enum Op {
    /// Opens the session's producer, in place of one that is open. Answer: `{}`.
    OpenProducer {
        /// Its settings.
        settings: Settings,
    },
    /// Sends and waits for every delivery report. Answer: [`super::Deliveries`].
    Produce {
        /// In order.
        records: Vec<Outgoing>,
        /// How long to wait for the last report.
        timeout_ms: u64,
    },
    /// Sends `count` records whose values are `first`, `first + 1`, … in decimal, padded with `.` to
    /// `value_bytes`, and waits for every report. Answer: [`super::Deliveries`].
    ProduceNumbers {
        /// Where to.
        topic: String,
        /// `None` leaves it to the client's partitioner; the key is the number then.
        partition: Option<i32>,
        /// The first number.
        first: u64,
        /// How many.
        count: u64,
        /// Least length of a value.
        value_bytes: usize,
        /// How long to wait for the last report.
        timeout_ms: u64,
    },
    /// Closes the producer in good order. Answer: `{}`.
    CloseProducer,
    /// Makes the producer ready for transactions, fencing those before it. Answer: `{}`.
    InitTransactions,
    /// Answer: `{}`.
    BeginTransaction,
    /// Puts offsets of the session's consumer's group into the transaction. Answer: `{}`.
    SendOffsets {
        /// The next offsets to read.
        offsets: Vec<Place>,
    },
    /// Answer: `{}`.
    CommitTransaction,
    /// Answer: `{}`.
    AbortTransaction,
    /// Opens the session's consumer, in place of one that is open. Answer: `{}`.
    OpenConsumer {
        /// Its settings.
        settings: Settings,
    },
    /// Joins the group for these topics. Answer: `{}`.
    Subscribe {
        /// Names, or patterns that begin with `^`.
        topics: Vec<String>,
    },
    /// Takes these partitions without a group's say. Answer: `{}`.
    Assign {
        /// `offset` −2 is the beginning, −1 the end.
        partitions: Vec<Place>,
    },
    /// Polls until `max` records came, or nothing came for `idle_ms`. Answer: [`super::Polled`].
    Poll {
        /// At most so many records.
        max: usize,
        /// How long a silence ends the poll.
        idle_ms: u64,
    },
    /// Commits; waits for the answer unless `asynchronous`. Answer: `{}`.
    Commit {
        /// `None` commits what was polled.
        offsets: Option<Vec<Place>>,
        /// Does not wait.
        asynchronous: bool,
    },
    /// The group's committed offsets. Answer: [`super::Places`]; −1 where there is none.
    Committed {
        /// Which; offsets are ignored.
        partitions: Vec<Place>,
    },
    /// The next offsets this consumer will read. Answer: [`super::Places`]; −1 where that is open.
    Position,
    /// What this consumer holds. Answer: [`super::Places`]; offsets mean nothing.
    Assignment,
    /// Stops fetching. Answer: `{}`.
    Pause {
        /// Which; offsets are ignored.
        partitions: Vec<Place>,
    },
    /// Fetches again. Answer: `{}`.
    Resume {
        /// Which; offsets are ignored.
        partitions: Vec<Place>,
    },
    /// Moves the position. Answer: `{}`.
    Seek {
        /// Where to; −2 and −1 as in `assign`.
        partition: Place,
    },
    /// First offset at or after a time. Answer: [`super::Places`]; −1 past the end.
    OffsetsForTimes {
        /// `offset` holds the time in milliseconds since the Unix epoch.
        partitions: Vec<Place>,
    },
    /// Earliest and next offset. Answer: [`super::Watermarks`].
    Watermarks {
        /// Topic.
        topic: String,
        /// Partition.
        partition: i32,
    },
    /// Leaves the group. Answer: `{}`.
    Unsubscribe,
    /// Closes the consumer, leaving the group in good order. Answer: `{}`.
    CloseConsumer,
    /// Topics as the cluster describes them, and its brokers. Answer: [`super::Topics`].
    Metadata {
        /// `None` lists all.
        topic: Option<String>,
    },
    /// Answer: [`super::Outcomes`] by topic.
    CreateTopics {
        /// What to create.
        topics: Vec<NewTopic>,
        /// Only says what would happen.
        validate_only: bool,
    },
    /// Answer: [`super::Outcomes`] by topic.
    DeleteTopics {
        /// Names.
        topics: Vec<String>,
    },
    /// Answer: [`super::Outcomes`] by topic.
    CreatePartitions {
        /// Topic.
        topic: String,
        /// The new total.
        count: usize,
    },
    /// Deletes records before an offset. Answer: [`super::Places`] with the new starts.
    DeleteRecords {
        /// `offset` is the first to keep; −1 keeps none.
        partitions: Vec<Place>,
    },
    /// Offsets as an admin client asks for them. Answer: [`super::Places`].
    ListOffsets {
        /// `offset` −2 is the earliest, −1 the latest, −3 that of the greatest timestamp (KIP-734),
        /// else a time in milliseconds since the Unix epoch.
        partitions: Vec<Place>,
    },
    /// A topic's settings. Answer: [`super::Configs`].
    DescribeTopicConfig {
        /// Topic.
        topic: String,
    },
    /// Replaces a topic's settings (AlterConfigs). Answer: [`super::Outcomes`] by topic.
    AlterTopicConfig {
        /// Topic.
        topic: String,
        /// All of them; the rest falls back to its default.
        config: TopicConfig,
    },
    /// Changes some of a topic's settings (IncrementalAlterConfigs, KIP-339). Answer:
    /// [`super::Outcomes`] by topic.
    ChangeTopicConfig {
        /// Topic.
        topic: String,
        /// To set.
        set: TopicConfig,
        /// To give back to the default.
        delete: Vec<String>,
    },
    /// Groups with their members. Answer: [`super::Groups`].
    Groups {
        /// `None` lists all; assignor and members may be left out then.
        group: Option<String>,
    },
    /// Answer: [`super::Outcomes`] by group.
    DeleteGroups {
        /// Ids.
        groups: Vec<String>,
    },
    /// All committed offsets of a group, asked from outside. Answer: [`super::Places`].
    GroupOffsets {
        /// Id.
        group: String,
    },
    /// Sets offsets of a group that has no members. Answer: `{}`.
    AlterGroupOffsets {
        /// Id.
        group: String,
        /// The next offsets to read.
        offsets: Vec<Place>,
    },
    /// Forgets offsets of a group (OffsetDelete). Answer: `{}`.
    DeleteGroupOffsets {
        /// Id.
        group: String,
        /// Which; offsets are ignored.
        partitions: Vec<Place>,
    },
    /// The cluster by the admin client's own request. Answer: [`super::Cluster`].
    DescribeCluster,
    /// How many bytes each partition takes. Answer: [`super::Places`], `offset` being the bytes.
    DescribeLogDirs {
        /// The node.
        node: i32,
    },
    /// Starts an application of a framework that counts words, exactly once: the words of `input`'s
    /// values, divided by spaces, and to `output` each word with its new count in decimal. What it has
    /// counted it keeps in the cluster. Answer: `{}`, when it runs.
    StartWordCount {
        /// The application's id: its group, and what its own topics begin with.
        application: String,
        /// Topic.
        input: String,
        /// Topic.
        output: String,
    },
    /// Ends the application in good order. Answer: `{}`.
    StopWordCount,
    /// The id and epoch of the open transaction's producer. Answer: [`super::ProducerIdentity`].
    TransactionIdentity,
    /// Makes the session's producer, which has not asked for an id, the one of this id and epoch in
    /// its open transaction. Answer: `{}`.
    ResumeTransaction {
        /// As [`Op::TransactionIdentity`] answered.
        producer_id: i64,
        /// As [`Op::TransactionIdentity`] answered.
        epoch: i16,
    },
    /// Starts a worker that copies the lines of a file to a topic, exactly once, and the topic's
    /// values to another file, at least once. What it has done it keeps in the cluster. Answer: `{}`,
    /// when it runs.
    StartFileCopy {
        /// Its group, and what its own topics begin with.
        application: String,
        /// Path of a file that is there.
        from: String,
        /// Topic.
        topic: String,
        /// Path of a file.
        to: String,
    },
    /// Ends the worker in good order. Answer: `{}`.
    StopFileCopy,
    /// Starts a listener that copies values from `input` to partition 0 of `output`, each in a
    /// transaction, and fails after it has copied one that begins with `bad`; what has failed three
    /// times goes to partition 0 of `dead`. Answer: `{}`, when partitions are assigned.
    StartListener {
        /// Its group.
        group: String,
        /// Topic.
        input: String,
        /// Topic.
        output: String,
        /// Topic.
        dead: String,
    },
    /// Ends the listener in good order. Answer: `{}`.
    StopListener,
    /// Opens a client of Queen itself. Answer: `{}`.
    OpenQueen {
        /// `http://host:port`.
        url: String,
    },
    /// Pushes to partition `0` of a queue. Answer: `{}`.
    QueenPush {
        /// Queue.
        queue: String,
        /// Any JSON.
        payloads: Vec<serde_json::Value>,
    },
    /// Pops from partition `0` of a queue, from its beginning on, and acknowledges. Does not wait.
    /// Answer: [`super::Payloads`].
    QueenPop {
        /// Queue.
        queue: String,
        /// Consumer group of Queen's own.
        group: String,
        /// At most so many.
        max: usize,
    },
    /// Pops as [`Op::QueenPop`], and acknowledges and pushes to another queue in one transaction.
    /// Answer: [`super::Payloads`].
    QueenMove {
        /// Queue.
        from: String,
        /// Queue.
        to: String,
        /// Consumer group of Queen's own.
        group: String,
        /// At most so many.
        max: usize,
    },
}

impl Op {
    /// The names of the operations that only frameworks have, and clients of Queen.
    pub const FRAMEWORKS: [&'static str; 12] = [
        "start_word_count",
        "stop_word_count",
        "transaction_identity",
        "resume_transaction",
        "start_file_copy",
        "stop_file_copy",
        "start_listener",
        "stop_listener",
        "open_queen",
        "queen_push",
        "queen_pop",
        "queen_move",
    ];

    /// The names of all operations.
    pub const NAMES: [&'static str; 52] = [
        "open_producer",
        "produce",
        "produce_numbers",
        "close_producer",
        "init_transactions",
        "begin_transaction",
        "send_offsets",
        "commit_transaction",
        "abort_transaction",
        "open_consumer",
        "subscribe",
        "assign",
        "poll",
        "commit",
        "committed",
        "position",
        "assignment",
        "pause",
        "resume",
        "seek",
        "offsets_for_times",
        "watermarks",
        "unsubscribe",
        "close_consumer",
        "metadata",
        "create_topics",
        "delete_topics",
        "create_partitions",
        "delete_records",
        "list_offsets",
        "describe_topic_config",
        "alter_topic_config",
        "change_topic_config",
        "groups",
        "delete_groups",
        "group_offsets",
        "alter_group_offsets",
        "delete_group_offsets",
        "describe_cluster",
        "describe_log_dirs",
        "start_word_count",
        "stop_word_count",
        "transaction_identity",
        "resume_transaction",
        "start_file_copy",
        "stop_file_copy",
        "start_listener",
        "stop_listener",
        "open_queen",
        "queen_push",
        "queen_pop",
        "queen_move",
    ];

    /// The operation's name on the line.
    pub const fn name(&self) -> &'static str {
        match self {
            Self::OpenProducer { .. } => "open_producer",
            Self::Produce { .. } => "produce",
            Self::ProduceNumbers { .. } => "produce_numbers",
            Self::CloseProducer => "close_producer",
            Self::InitTransactions => "init_transactions",
            Self::BeginTransaction => "begin_transaction",
            Self::SendOffsets { .. } => "send_offsets",
            Self::CommitTransaction => "commit_transaction",
            Self::AbortTransaction => "abort_transaction",
            Self::OpenConsumer { .. } => "open_consumer",
            Self::Subscribe { .. } => "subscribe",
            Self::Assign { .. } => "assign",
            Self::Poll { .. } => "poll",
            Self::Commit { .. } => "commit",
            Self::Committed { .. } => "committed",
            Self::Position => "position",
            Self::Assignment => "assignment",
            Self::Pause { .. } => "pause",
            Self::Resume { .. } => "resume",
            Self::Seek { .. } => "seek",
            Self::OffsetsForTimes { .. } => "offsets_for_times",
            Self::Watermarks { .. } => "watermarks",
            Self::Unsubscribe => "unsubscribe",
            Self::CloseConsumer => "close_consumer",
            Self::Metadata { .. } => "metadata",
            Self::CreateTopics { .. } => "create_topics",
            Self::DeleteTopics { .. } => "delete_topics",
            Self::CreatePartitions { .. } => "create_partitions",
            Self::DeleteRecords { .. } => "delete_records",
            Self::ListOffsets { .. } => "list_offsets",
            Self::DescribeTopicConfig { .. } => "describe_topic_config",
            Self::AlterTopicConfig { .. } => "alter_topic_config",
            Self::ChangeTopicConfig { .. } => "change_topic_config",
            Self::Groups { .. } => "groups",
            Self::DeleteGroups { .. } => "delete_groups",
            Self::GroupOffsets { .. } => "group_offsets",
            Self::AlterGroupOffsets { .. } => "alter_group_offsets",
            Self::DeleteGroupOffsets { .. } => "delete_group_offsets",
            Self::DescribeCluster => "describe_cluster",
            Self::DescribeLogDirs { .. } => "describe_log_dirs",
            Self::StartWordCount { .. } => "start_word_count",
            Self::StopWordCount => "stop_word_count",
            Self::TransactionIdentity => "transaction_identity",
            Self::ResumeTransaction { .. } => "resume_transaction",
            Self::StartFileCopy { .. } => "start_file_copy",
            Self::StopFileCopy => "stop_file_copy",
            Self::StartListener { .. } => "start_listener",
            Self::StopListener => "stop_listener",
            Self::OpenQueen { .. } => "open_queen",
            Self::QueenPush { .. } => "queen_push",
            Self::QueenPop { .. } => "queen_pop",
            Self::QueenMove { .. } => "queen_move",
        }
    }
}

#[cfg(test)]
mod tests {
    use super::Op;
    use crate::drivers::protocol::Place;

    #[test]
    fn an_operation_is_an_object_that_names_itself() {
        let op = Op::Seek {
            partition: Place::new("t", 3, 7),
        };
        let line = serde_json::to_string(&op).unwrap();
        assert_eq!(
            line,
            r#"{"op":"seek","partition":{"topic":"t","partition":3,"offset":7,"metadata":""}}"#
        );
        assert_eq!(serde_json::from_str::<Op>(&line).unwrap(), op);
    }

    /// A name that serde does not know is told as an unknown variant, before any field is missed.
    #[test]
    fn names_are_those_on_the_line() {
        for name in Op::NAMES {
            match serde_json::from_str::<Op>(&format!("{{\"op\":\"{name}\"}}")) {
                Ok(op) => assert_eq!(op.name(), name),
                Err(error) => {
                    assert!(
                        error.to_string().contains("missing field"),
                        "{name}: {error}"
                    );
                }
            }
        }
    }
}
