//! Why a consumer group refuses a call.

use kafka_wire::error_code::ErrorCode;

use super::ids::Epoch;
use super::regex::RegexError;

/// A refusal, one variant for each Kafka error code a consumer group answers. Its text is what
/// clients show their users.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Error {
    /// A field of the request is missing or out of place.
    #[error("{0}")]
    InvalidRequest(&'static str),
    /// The assignor is none of ours.
    #[error("ServerAssignor is not supported. Supported assignors: uniform, range.")]
    UnsupportedAssignor,
    /// The pattern can't be compiled, or is too large.
    #[error("{0}")]
    InvalidRegularExpression(#[from] RegexError),
    /// The member id is not in the group (expired, left, never joined).
    #[error("The member is not in the group.")]
    UnknownMemberId,
    /// The member is at another epoch: it must abandon its partitions and join again.
    #[error(
        "The member's epoch {received} is not the one known by the group coordinator ({known}). \
         The member must abandon all its partitions and rejoin."
    )]
    FencedMemberEpoch {
        /// What the member sent.
        received: Epoch,
        /// What the group knows.
        known: Epoch,
    },
    /// The epoch of a commit or a fetch of offsets is not the member's.
    #[error("The member epoch is not the one known by the group coordinator.")]
    StaleMemberEpoch,
    /// The same for a member of the classic protocol.
    #[error("The generation is not the one known by the group coordinator.")]
    IllegalGeneration,
    /// The instance id belongs to a live member (KIP-848).
    #[error("The instance id is owned by another member.")]
    UnreleasedInstanceId,
    /// Another process took over this instance id (KIP-345).
    #[error("The static member was fenced by another member with the same instance id.")]
    FencedInstanceId,
    /// No room for another member, or for its metadata.
    #[error("The consumer group has reached its maximum capacity.")]
    GroupMaxSizeReached,
    /// A member of this protocol must use a newer version of the API.
    #[error("The API must be used in a newer version by members of the consumer protocol.")]
    UnsupportedVersion,
    /// The group is not of a type that serves the call, and can't be turned into one.
    #[error("{0}")]
    GroupIdNotFound(&'static str),
    /// The group has members.
    #[error("The group is not empty.")]
    NonEmptyGroup,
    /// The coordinator stops, or can't know yet: find it again.
    #[error("The coordinator is not available.")]
    CoordinatorNotAvailable,
}

impl Error {
    /// The code on the wire.
    pub const fn error_code(&self) -> ErrorCode {
        match self {
            Self::InvalidRequest(_) => ErrorCode::InvalidRequest,
            Self::UnsupportedAssignor => ErrorCode::UnsupportedAssignor,
            Self::InvalidRegularExpression(_) => ErrorCode::InvalidRegularExpression,
            Self::UnknownMemberId => ErrorCode::UnknownMemberId,
            Self::FencedMemberEpoch { .. } => ErrorCode::FencedMemberEpoch,
            Self::StaleMemberEpoch => ErrorCode::StaleMemberEpoch,
            Self::IllegalGeneration => ErrorCode::IllegalGeneration,
            Self::UnreleasedInstanceId => ErrorCode::UnreleasedInstanceId,
            Self::FencedInstanceId => ErrorCode::FencedInstanceId,
            Self::GroupMaxSizeReached => ErrorCode::GroupMaxSizeReached,
            Self::UnsupportedVersion => ErrorCode::UnsupportedVersion,
            Self::GroupIdNotFound(_) => ErrorCode::GroupIdNotFound,
            Self::NonEmptyGroup => ErrorCode::NonEmptyGroup,
            Self::CoordinatorNotAvailable => ErrorCode::CoordinatorNotAvailable,
        }
    }
}
