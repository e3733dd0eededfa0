//! Why a call on a transactional id is refused.

use kafka_wire::ErrorCode;

/// A refusal, one variant for each Kafka error code of the coordinator.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Refusal {
    /// The marker wasn't read yet.
    #[error("the coordinator does not know the transactional id yet")]
    NotLoaded,
    /// The id has another producer, or none.
    #[error("the producer id is not the one of the transactional id")]
    InvalidProducerIdMapping,
    /// The epoch isn't the current one: another instance took over, or the transaction timed out.
    #[error("the producer was fenced by a newer epoch")]
    ProducerFenced,
    /// An earlier request is on its way, or too many transactions are open: try again.
    #[error("another request of the transactional id is on its way")]
    ConcurrentTransactions,
    /// Not in this state: nothing open, a partition or group that wasn't added, a transaction that
    /// can only be aborted.
    #[error("the transaction is not in a state for this")]
    InvalidTxnState,
    /// Zero, negative or above the ceiling.
    #[error("the transaction timeout is outside the allowed range")]
    InvalidTransactionTimeout,
    /// More records or bytes than a transaction may hold; it can only be aborted now.
    #[error("the transaction is larger than one may be")]
    MessageTooLarge,
    /// More offsets or groups than a transaction may hold.
    #[error("the transaction commits more offsets than one may")]
    InvalidCommitOffsetSize,
    /// More partitions than a transaction may hold.
    #[error("the transaction has more partitions than one may")]
    TooManyPartitions,
}

impl Refusal {
    /// The code on the wire. Which versions of an API know `PRODUCER_FENCED` is the caller's to
    /// know.
    pub const fn error_code(self) -> ErrorCode {
        match self {
            Self::NotLoaded => ErrorCode::CoordinatorLoadInProgress,
            Self::InvalidProducerIdMapping => ErrorCode::InvalidProducerIdMapping,
            Self::ProducerFenced => ErrorCode::ProducerFenced,
            Self::ConcurrentTransactions => ErrorCode::ConcurrentTransactions,
            Self::InvalidTxnState => ErrorCode::InvalidTxnState,
            Self::InvalidTransactionTimeout => ErrorCode::InvalidTransactionTimeout,
            // Of AddPartitionsToTxn's codes this is the one that makes every client abort.
            Self::MessageTooLarge | Self::TooManyPartitions => ErrorCode::MessageTooLarge,
            Self::InvalidCommitOffsetSize => ErrorCode::InvalidCommitOffsetSize,
        }
    }
}
