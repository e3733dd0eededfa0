//! The one table from a Queen outcome and a Kafka API to a Kafka error code.
//!
//! Described in docs/queen-contract.md, section 9.6. No handler chooses a code for a failed Queen
//! call on its own.

use std::sync::Arc;
use std::time::Duration;

use kafka_wire::error_code::ErrorCode;

use crate::catalogue::{Lookup, Topic};
use crate::queen::{Class, Error};

/// The APIs, grouped where they answer alike.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Api {
    /// Metadata and DescribeTopicPartitions, per topic that no cache knows.
    Metadata,
    /// Produce, once holding and retrying inside the request's time has not helped.
    Produce,
    /// Fetch.
    Fetch,
    /// ListOffsets and OffsetForLeaderEpoch.
    ListOffsets,
    /// DeleteRecords.
    DeleteRecords,
    /// OffsetCommit, OffsetFetch, OffsetDelete and everything else of a group.
    Group,
    /// InitProducerId with a transactional id, and the transaction APIs.
    Transaction,
    /// CreateTopics.
    CreateTopics,
    /// DeleteTopics.
    DeleteTopics,
    /// CreatePartitions.
    CreatePartitions,
    /// DescribeConfigs, AlterConfigs and IncrementalAlterConfigs.
    Configs,
    /// DescribeLogDirs.
    LogDirs,
}

/// What to answer.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Answer {
    /// The code.
    pub code: ErrorCode,
    /// `throttle_time_ms`; zero unless Queen asked to wait and the API passes that on.
    pub throttle: Duration,
    /// Why, in Queen's words or ours, for the fields that carry a text.
    pub message: String,
}

impl Answer {
    /// `throttle_time_ms` as the wire carries it.
    pub fn throttle_ms(&self) -> i32 {
        throttle_ms(self.throttle)
    }
}

/// Shortest throttle that is passed on, and the one for a 429 that names none.
pub const MIN_THROTTLE: Duration = Duration::from_secs(1);
/// Longest throttle that is passed on: clients obey it to the letter.
pub const MAX_THROTTLE: Duration = Duration::from_secs(30);

/// `throttle` as the wire carries it.
pub fn throttle_ms(throttle: Duration) -> i32 {
    i32::try_from(throttle.as_millis()).unwrap_or(i32::MAX)
}

/// What `api` at `version` answers when a call to Queen ended in `error`.
pub fn answer(api: Api, version: i16, error: &Error) -> Answer {
    let class = error.class();
    let code = code(api, version, class);
    let passed_on = match api {
        Api::Produce | Api::Fetch | Api::Metadata => true,
        // The code tells clients to wait for the throttle; without one they retry at once.
        _ => code == ErrorCode::ThrottlingQuotaExceeded,
    };
    Answer {
        code,
        throttle: if passed_on {
            throttle(error)
        } else {
            Duration::ZERO
        },
        message: error
            .server_text()
            .map_or_else(|| error.to_string(), str::to_owned),
    }
}

/// How long a client should wait after `error`: zero unless Queen answered 429.
pub fn throttle(error: &Error) -> Duration {
    if error.class() == Class::Throttled {
        error
            .retry_after()
            .unwrap_or(MIN_THROTTLE)
            .clamp(MIN_THROTTLE, MAX_THROTTLE)
    } else {
        Duration::ZERO
    }
}

/// The first version whose clients know `THROTTLING_QUOTA_EXCEEDED` (KIP-599).
fn quota_code(version: i16, first: i16) -> ErrorCode {
    if version >= first {
        ErrorCode::ThrottlingQuotaExceeded
    } else {
        ErrorCode::RequestTimedOut
    }
}

/// The topic that was looked up by name, or what `api` answers without one.
///
/// # Errors
///
/// The answer to give in place of the topic.
pub fn found(api: Api, version: i16, lookup: &Lookup) -> Result<&Arc<Topic>, Answer> {
    let plain = |code, message: &str| Answer {
        code,
        throttle: Duration::ZERO,
        message: message.to_owned(),
    };
    match lookup {
        Lookup::Found(topic) => Ok(topic),
        Lookup::Absent => Err(plain(
            ErrorCode::UnknownTopicOrPartition,
            "This server does not host this topic-partition.",
        )),
        // Only these two may say so: other clients' code paths accept a closed set of codes.
        Lookup::Illegal(why) if matches!(api, Api::Metadata | Api::CreateTopics) => {
            Err(plain(ErrorCode::InvalidTopicException, why))
        }
        Lookup::Illegal(why) => Err(plain(ErrorCode::UnknownTopicOrPartition, why)),
        Lookup::Failed(error) => Err(answer(api, version, error)),
        Lookup::Later => Err(plain(
            code(api, version, Class::Unavailable),
            "The topic is not ready yet.",
        )),
    }
}

/// The topic that was looked up by id, or what `api` answers without one.
///
/// # Errors
///
/// As [`found`].
pub fn found_by_id(api: Api, version: i16, lookup: &Lookup) -> Result<&Arc<Topic>, Answer> {
    found(api, version, lookup).map_err(|answer| match lookup {
        Lookup::Absent => Answer {
            code: ErrorCode::UnknownTopicId,
            message: "This server does not host this topic ID.".to_owned(),
            ..answer
        },
        _ => answer,
    })
}

fn code(api: Api, version: i16, class: Class) -> ErrorCode {
    use ErrorCode as Code;

    let denied = matches!(class, Class::Unauthenticated | Class::Forbidden);
    let transient = matches!(class, Class::Unavailable | Class::Unknown);
    match (api, class) {
        (Api::Group, _) if denied => Code::GroupAuthorizationFailed,
        (Api::Transaction, _) if denied => Code::TransactionalIdAuthorizationFailed,
        (Api::LogDirs, _) if denied => Code::ClusterAuthorizationFailed,
        _ if denied => Code::TopicAuthorizationFailed,

        (Api::Metadata, Class::Throttled) => Code::LeaderNotAvailable,
        (Api::Metadata, _) if transient => Code::LeaderNotAvailable,

        // Not stored for sure, or not known to be: retriable, never fatal, never success.
        (Api::Produce, Class::Throttled) => Code::RequestTimedOut,
        (Api::Produce, _) if transient => Code::RequestTimedOut,
        (Api::Produce, Class::TooLarge) => Code::MessageTooLarge,
        (Api::Produce, Class::NotFound) => Code::UnknownTopicOrPartition,

        // An empty read: the throttle says the rest.
        (Api::Fetch, Class::Throttled) => Code::None,
        (Api::Fetch, _) if transient => Code::NotLeaderOrFollower,
        (Api::Fetch, Class::NotFound) => Code::UnknownTopicOrPartition,

        (Api::ListOffsets, Class::Throttled) => Code::LeaderNotAvailable,
        (Api::ListOffsets, _) if transient => Code::LeaderNotAvailable,
        (Api::ListOffsets, Class::NotFound) => Code::UnknownTopicOrPartition,

        (Api::Group | Api::Transaction, Class::Throttled) => Code::CoordinatorNotAvailable,
        (Api::Group | Api::Transaction, _) if transient => Code::CoordinatorNotAvailable,

        (Api::CreateTopics, Class::Throttled) => quota_code(version, 6),
        (Api::DeleteTopics, Class::Throttled) => quota_code(version, 5),
        (Api::CreatePartitions, Class::Throttled) => quota_code(version, 3),
        (Api::CreateTopics | Api::CreatePartitions | Api::Configs, Class::Rejected) => {
            Code::InvalidConfig
        }
        (Api::DeleteTopics, Class::NotFound) => Code::UnknownTopicOrPartition,

        (_, Class::Throttled) => Code::RequestTimedOut,
        _ if transient => Code::RequestTimedOut,
        _ => Code::UnknownServerError,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::queen::Refusal;
    use http::StatusCode;
    use rstest::rstest;

    fn refused(status: u16, retry_after: Option<u64>) -> Error {
        Error::Refused(Refusal {
            status: StatusCode::from_u16(status).expect("a status of the table"),
            retry_after: retry_after.map(Duration::from_secs),
            code: None,
            text: Some("because".into()),
        })
    }

    #[rstest]
    #[case(Api::Metadata, 9, 401, Some(29))]
    #[case(Api::Metadata, 9, 403, Some(29))]
    #[case(Api::Metadata, 9, 429, Some(5))]
    #[case(Api::Metadata, 9, 502, Some(5))]
    #[case(Api::Produce, 9, 401, Some(29))]
    #[case(Api::Produce, 9, 403, Some(29))]
    #[case(Api::Produce, 9, 404, Some(3))]
    #[case(Api::Produce, 9, 413, Some(10))]
    #[case(Api::Produce, 9, 429, Some(7))]
    #[case(Api::Produce, 9, 500, Some(7))]
    #[case(Api::Produce, 9, 503, Some(7))]
    #[case(Api::Produce, 9, 504, Some(7))]
    #[case(Api::Produce, 9, 507, Some(7))]
    #[case(Api::Fetch, 12, 403, Some(29))]
    #[case(Api::Fetch, 12, 429, Some(0))]
    #[case(Api::Fetch, 12, 502, Some(6))]
    #[case(Api::ListOffsets, 7, 403, Some(29))]
    #[case(Api::ListOffsets, 7, 429, Some(5))]
    #[case(Api::ListOffsets, 7, 504, Some(5))]
    #[case(Api::Group, 8, 401, Some(30))]
    #[case(Api::Group, 8, 403, Some(30))]
    #[case(Api::Group, 8, 408, Some(15))]
    #[case(Api::Group, 8, 429, Some(15))]
    #[case(Api::Group, 8, 503, Some(15))]
    #[case(Api::Transaction, 3, 403, Some(53))]
    #[case(Api::Transaction, 3, 429, Some(15))]
    #[case(Api::CreateTopics, 7, 403, Some(29))]
    #[case(Api::CreateTopics, 6, 429, Some(89))]
    #[case(Api::CreateTopics, 5, 429, Some(7))]
    #[case(Api::CreateTopics, 7, 502, Some(7))]
    #[case(Api::DeleteTopics, 5, 429, Some(89))]
    #[case(Api::DeleteTopics, 4, 429, Some(7))]
    #[case(Api::DeleteTopics, 6, 403, Some(29))]
    #[case(Api::CreatePartitions, 2, 429, Some(7))]
    #[case(Api::Configs, 1, 403, Some(29))]
    #[case(Api::Configs, 1, 503, Some(7))]
    #[case(Api::LogDirs, 4, 403, Some(31))]
    #[case(Api::DeleteRecords, 2, 429, Some(7))]
    fn the_contracts_table(
        #[case] api: Api,
        #[case] version: i16,
        #[case] status: u16,
        #[case] code: Option<i16>,
    ) {
        let answer = answer(api, version, &refused(status, None));
        assert_eq!(Some(answer.code.code()), code, "{}", answer.code.name());
        assert_eq!(answer.message, "because");
    }

    #[test]
    fn transport_trouble_is_always_retriable() {
        let apis = [
            Api::Metadata,
            Api::Produce,
            Api::Fetch,
            Api::ListOffsets,
            Api::DeleteRecords,
            Api::Group,
            Api::Transaction,
            Api::CreateTopics,
            Api::DeleteTopics,
            Api::CreatePartitions,
            Api::Configs,
            Api::LogDirs,
        ];
        let errors = [
            Error::Unreachable("refused".into()),
            Error::Busy,
            Error::Lost("reset".into()),
            Error::TimedOut(Duration::from_secs(10)),
            Error::Unreadable("not JSON".into()),
            refused(503, Some(1)),
            refused(500, None),
        ];
        for api in apis {
            for error in &errors {
                let answer = answer(api, 9, error);
                assert!(
                    answer.code.retriable(),
                    "{api:?} {error} {}",
                    answer.code.name()
                );
                assert_eq!(answer.throttle, Duration::ZERO);
            }
        }
    }

    #[rstest]
    #[case::absent(None, 1000)]
    #[case::short(Some(0), 1000)]
    #[case::asked(Some(7), 7000)]
    #[case::long(Some(3600), 30_000)]
    #[case::absurd(Some(u64::MAX), 30_000)]
    fn a_throttle_is_clamped(#[case] retry_after: Option<u64>, #[case] ms: i32) {
        let answer = answer(Api::Fetch, 12, &refused(429, retry_after));
        assert_eq!(answer.throttle_ms(), ms);
    }

    #[rstest]
    #[case(Api::Group, 8, 0)]
    #[case(Api::ListOffsets, 7, 0)]
    #[case(Api::CreateTopics, 5, 0)]
    #[case(Api::CreateTopics, 6, 5000)]
    #[case(Api::Produce, 9, 5000)]
    #[case(Api::Metadata, 9, 5000)]
    fn only_some_apis_pass_a_throttle_on(#[case] api: Api, #[case] version: i16, #[case] ms: i32) {
        assert_eq!(
            answer(api, version, &refused(429, Some(5))).throttle_ms(),
            ms
        );
    }
}
