//! What a refusal means to a transaction. Data and one function.
//!
//! | Code | Where it was looked up |
//! |---|---|
//! | PRODUCER_FENCED and INVALID_PRODUCER_EPOCH of a coordinator | fatal: TransactionManager's handlers; rdkafka_txnmgr.c |
//! | INVALID_PRODUCER_EPOCH of a Produce | Java: abortable, with a new epoch (TransactionManager.transitionToAbortableErrorOrFatalError); librdkafka: fatal (rdkafka_request.c) |
//! | INVALID_PRODUCER_ID_MAPPING, UNKNOWN_PRODUCER_ID | abortable, with a new epoch: `abortableErrorIfPossible` |
//! | ILLEGAL_GENERATION, UNKNOWN_MEMBER_ID, FENCED_INSTANCE_ID of TxnOffsetCommit | abortable: CommitFailedException (KIP-447) |
//! | INVALID_TXN_STATE of a coordinator, authorization of the id | fatal |

use kafka_wire::ErrorCode;

use crate::client::profile::TransactionRules;
use crate::history::Failure;

/// Why a transaction doesn't go on.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Trouble {
    /// It has to be aborted.
    #[error("the transaction has to be aborted: {code:?}")]
    Abortable {
        /// What was answered; `None` where the client gave up by itself.
        code: Option<ErrorCode>,
        /// A new epoch is needed before the next one (KIP-360).
        bump: bool,
    },
    /// The producer is of no use any more.
    #[error("the producer is of no use any more: {0:?}")]
    Fatal(ErrorCode),
    /// Its time is over, and nobody knows what became of it. Another producer ends it.
    #[error("given up in doubt")]
    Unknown,
}

/// What was asked.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Asking {
    Coordinator,
    Group,
    Produce,
}

/// A refusal, for the application and for the history.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Refusal {
    pub trouble: Trouble,
    pub failure: Failure,
}

/// Whether the same request may be answered otherwise later.
pub(super) fn may_pass(asking: Asking, code: ErrorCode) -> bool {
    match code {
        ErrorCode::ConcurrentTransactions => true,
        // By then the partitions may be another member's.
        ErrorCode::RebalanceInProgress => asking != Asking::Group,
        code => code.retriable(),
    }
}

pub(super) fn of(asking: Asking, code: ErrorCode, rules: TransactionRules) -> Trouble {
    let abortable = |bump| Trouble::Abortable {
        code: Some(code),
        bump,
    };
    match code {
        ErrorCode::InvalidProducerEpoch
            if asking == Asking::Produce && rules.epoch_refused_is_abortable =>
        {
            abortable(true)
        }
        ErrorCode::ProducerFenced
        | ErrorCode::InvalidProducerEpoch
        | ErrorCode::TransactionalIdAuthorizationFailed
        | ErrorCode::ClusterAuthorizationFailed
        | ErrorCode::UnsupportedVersion
        | ErrorCode::InvalidTransactionTimeout => Trouble::Fatal(code),
        ErrorCode::InvalidTxnState if asking == Asking::Coordinator => Trouble::Fatal(code),
        ErrorCode::IllegalGeneration
        | ErrorCode::UnknownMemberId
        | ErrorCode::FencedInstanceId
        | ErrorCode::RebalanceInProgress
        | ErrorCode::TopicAuthorizationFailed
        | ErrorCode::GroupAuthorizationFailed => abortable(false),
        _ => abortable(true),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::client::profile::{JAVA, LIBRDKAFKA};

    #[test]
    fn a_fenced_producer_is_of_no_use() {
        let rules = JAVA.transactions;
        for code in [ErrorCode::ProducerFenced, ErrorCode::InvalidProducerEpoch] {
            assert_eq!(of(Asking::Coordinator, code, rules), Trouble::Fatal(code));
        }
    }

    #[test]
    fn libraries_differ_in_what_a_refused_epoch_of_a_produce_costs() {
        let code = ErrorCode::InvalidProducerEpoch;
        let java = of(Asking::Produce, code, JAVA.transactions);
        assert!(matches!(java, Trouble::Abortable { bump: true, .. }));
        let librdkafka = of(Asking::Produce, code, LIBRDKAFKA.transactions);
        assert_eq!(librdkafka, Trouble::Fatal(code));
    }

    #[test]
    fn a_lost_generation_costs_the_transaction_and_no_epoch() {
        let code = ErrorCode::IllegalGeneration;
        let trouble = of(Asking::Group, code, JAVA.transactions);
        assert!(matches!(trouble, Trouble::Abortable { bump: false, .. }));
        assert!(!may_pass(Asking::Group, ErrorCode::RebalanceInProgress));
        assert!(may_pass(
            Asking::Coordinator,
            ErrorCode::ConcurrentTransactions
        ));
    }
}
