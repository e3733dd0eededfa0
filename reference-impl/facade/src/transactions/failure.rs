//! Why a transactional call is not answered with success.

use coordinator::transaction::Refusal;
use kafka_wire::ErrorCode;

use super::marker::UnreadableMarker;
use crate::queen::Error;
use crate::upstream_errors::{self, Api};

/// Why not.
#[derive(Clone, Debug, thiserror::Error)]
pub enum Failure {
    /// By Kafka's rules.
    #[error(transparent)]
    Refused(#[from] Refusal),
    /// A call to Queen failed.
    #[error(transparent)]
    Queen(#[from] Error),
    /// Another node coordinates the id.
    #[error("another node coordinates the transactional id")]
    NotCoordinator,
    /// This node cannot say who coordinates the id.
    #[error("this node cannot say who coordinates the transactional id")]
    NoCoordinator,
    /// Not all nodes of the cluster serve transactions.
    #[error("a node of the cluster does not serve transactions")]
    Unserved,
    /// The id is longer than Queen keeps.
    #[error("the transactional id is too long")]
    IdTooLong,
    /// The outcome of a write isn't known yet; it is carried on.
    #[error("the outcome of the last write is not known yet")]
    Pending,
    /// No room: too many ids, or the node drains.
    #[error("the coordinator has no room for another transactional id")]
    NoRoom,
    /// Too much waits in this process.
    #[error("too many bytes of open transactions wait in this process")]
    StageFull,
    /// The stage holds less than was put into it.
    #[error("the stage of the transaction is not complete")]
    StageIncomplete,
    /// The marker is nobody's we know.
    #[error(transparent)]
    Unreadable(#[from] UnreadableMarker),
}

impl Failure {
    /// The code of a coordinator API at `version`; `fenced` is its first version that knows
    /// PRODUCER_FENCED.
    pub fn code(&self, version: i16, fenced: i16) -> ErrorCode {
        match self {
            Self::Refused(Refusal::ProducerFenced) if version < fenced => {
                ErrorCode::InvalidProducerEpoch
            }
            Self::Refused(refusal) => refusal.error_code(),
            Self::Queen(error) => upstream_errors::answer(Api::Transaction, version, error).code,
            Self::NotCoordinator => ErrorCode::NotCoordinator,
            // Fatal, so that a client stops instead of trying for ever.
            Self::Unserved => ErrorCode::TransactionalIdAuthorizationFailed,
            Self::IdTooLong => ErrorCode::InvalidRequest,
            Self::Pending | Self::NoRoom | Self::StageIncomplete | Self::NoCoordinator => {
                ErrorCode::CoordinatorNotAvailable
            }
            Self::StageFull => ErrorCode::RequestTimedOut,
            Self::Unreadable(_) => ErrorCode::UnknownServerError,
        }
    }

    /// The code of an OffsetFetch: what waits in transactions can't be read.
    pub fn group_code(&self) -> ErrorCode {
        const VERSION: i16 = 0;
        match self {
            Self::Queen(error) => upstream_errors::answer(Api::Group, VERSION, error).code,
            _ => ErrorCode::CoordinatorLoadInProgress,
        }
    }

    /// The code of a Produce at `version`: its clients know nothing of coordinators.
    pub fn produce_code(&self, version: i16) -> ErrorCode {
        /// The first version whose clients add partitions by producing (KIP-890).
        const TRANSACTIONS_2: i16 = 12;
        /// The version whose clients know `TRANSACTION_ABORTABLE` and add partitions themselves (KIP-890).
        const ABORTABLE: i16 = 11;
        match self.code(version, 0) {
            ErrorCode::ProducerFenced => ErrorCode::InvalidProducerEpoch,
            // Versions before know no such code, and later ones add the partition.
            ErrorCode::InvalidTxnState if version == ABORTABLE => ErrorCode::TransactionAbortable,
            ErrorCode::ConcurrentTransactions if version >= TRANSACTIONS_2 => {
                ErrorCode::ConcurrentTransactions
            }
            ErrorCode::ConcurrentTransactions
            | ErrorCode::CoordinatorNotAvailable
            | ErrorCode::CoordinatorLoadInProgress
            | ErrorCode::NotCoordinator => ErrorCode::NotEnoughReplicas,
            code => code,
        }
    }
}
