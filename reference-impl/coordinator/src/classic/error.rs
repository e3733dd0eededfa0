//! Why the coordinator refuses a call.

use kafka_wire::error_code::ErrorCode;

/// A refusal, one variant for each Kafka error code a classic group answers.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum GroupError {
    /// The member id is not in the group (expired, left, never joined).
    #[error("the member is not in the group")]
    UnknownMemberId,
    /// The generation is not the group's.
    #[error("the generation is not the current one")]
    IllegalGeneration,
    /// Protocol type or name don't fit the group's.
    #[error("the protocol type or name does not fit the group")]
    InconsistentGroupProtocol,
    /// Session timeout outside the configured bounds.
    #[error("the session timeout is outside the allowed range")]
    InvalidSessionTimeout,
    /// The group is between generations: rejoin.
    #[error("the group is rebalancing")]
    RebalanceInProgress,
    /// Rejoin with the member id of this answer (KIP-394).
    #[error("the member must rejoin with the id it was given")]
    MemberIdRequired,
    /// No room for another member, or for its metadata.
    #[error("the group is full")]
    GroupMaxSizeReached,
    /// Another process took over this `group.instance.id` (KIP-345).
    #[error("the static member was replaced by another process")]
    FencedInstanceId,
    /// The group is gone or its coordinator stops: find it again.
    #[error("the coordinator is not available")]
    CoordinatorNotAvailable,
    /// The group has members.
    #[error("the group is not empty")]
    NonEmptyGroup,
    /// There is no such group.
    #[error("the group does not exist")]
    GroupIdNotFound,
    /// A live member subscribes to the topic.
    #[error("the group is subscribed to the topic")]
    GroupSubscribedToTopic,
    /// The assignment is larger than the group may hold.
    #[error("the assignment is too large")]
    AssignmentTooLarge,
}

impl GroupError {
    /// The code on the wire.
    pub const fn error_code(self) -> ErrorCode {
        match self {
            Self::UnknownMemberId => ErrorCode::UnknownMemberId,
            Self::IllegalGeneration => ErrorCode::IllegalGeneration,
            Self::InconsistentGroupProtocol => ErrorCode::InconsistentGroupProtocol,
            Self::InvalidSessionTimeout => ErrorCode::InvalidSessionTimeout,
            Self::RebalanceInProgress => ErrorCode::RebalanceInProgress,
            Self::MemberIdRequired => ErrorCode::MemberIdRequired,
            Self::GroupMaxSizeReached => ErrorCode::GroupMaxSizeReached,
            Self::FencedInstanceId => ErrorCode::FencedInstanceId,
            Self::CoordinatorNotAvailable => ErrorCode::CoordinatorNotAvailable,
            Self::NonEmptyGroup => ErrorCode::NonEmptyGroup,
            Self::GroupIdNotFound => ErrorCode::GroupIdNotFound,
            Self::GroupSubscribedToTopic => ErrorCode::GroupSubscribedToTopic,
            // Kafka answers this when the group's record does not fit its log.
            Self::AssignmentTooLarge => ErrorCode::UnknownServerError,
        }
    }
}
