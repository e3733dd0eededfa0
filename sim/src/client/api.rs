//! The requests that these clients make, and what each tells about throttling.
//!
//! From which version on a broker expects its client to wait: Kafka's `shouldClientThrottle` of
//! each response (KIP-219; clients/src/main/java/org/apache/kafka/common/requests).

use kafka_protocol::messages::{
    AddOffsetsToTxnRequest, AddPartitionsToTxnRequest, AlterConfigsRequest, ApiVersionsRequest,
    ConsumerGroupHeartbeatRequest, CreatePartitionsRequest, CreateTopicsRequest,
    DeleteGroupsRequest, DeleteRecordsRequest, DeleteTopicsRequest, DescribeConfigsRequest,
    DescribeGroupsRequest, EndTxnRequest, FetchRequest, FindCoordinatorRequest, HeartbeatRequest,
    IncrementalAlterConfigsRequest, InitProducerIdRequest, JoinGroupRequest, LeaveGroupRequest,
    ListGroupsRequest, ListOffsetsRequest, MetadataRequest, OffsetCommitRequest,
    OffsetFetchRequest, OffsetForLeaderEpochRequest, ProduceRequest, SaslAuthenticateRequest,
    SaslHandshakeRequest, SyncGroupRequest, TxnOffsetCommitRequest,
};
use kafka_protocol::protocol::Request;

/// A request whose answer may ask for patience.
pub trait Api: Request<Response: Send + 'static> + 'static {
    /// The first version whose answers come before the broker waits, so that the client should.
    const CLIENT_WAITS_FROM: i16;

    /// How long the broker wants this client to keep quiet, in milliseconds.
    fn throttle_time_ms(response: &Self::Response) -> i32;
}

macro_rules! apis {
    ($($request:ident from $version:literal,)*) => {$(
        impl Api for $request {
            const CLIENT_WAITS_FROM: i16 = $version;

            fn throttle_time_ms(response: &Self::Response) -> i32 {
                response.throttle_time_ms
            }
        }
    )*};
}

macro_rules! apis_that_never_throttle {
    ($($request:ident,)*) => {$(
        impl Api for $request {
            const CLIENT_WAITS_FROM: i16 = 0;

            fn throttle_time_ms(_: &Self::Response) -> i32 {
                0
            }
        }
    )*};
}

apis_that_never_throttle! {
    SaslAuthenticateRequest,
    SaslHandshakeRequest,
}

apis! {
    AddOffsetsToTxnRequest from 1,
    AddPartitionsToTxnRequest from 1,
    AlterConfigsRequest from 1,
    ApiVersionsRequest from 2,
    ConsumerGroupHeartbeatRequest from 0,
    CreatePartitionsRequest from 1,
    CreateTopicsRequest from 3,
    DeleteGroupsRequest from 1,
    DeleteRecordsRequest from 1,
    DeleteTopicsRequest from 2,
    DescribeConfigsRequest from 2,
    DescribeGroupsRequest from 2,
    EndTxnRequest from 1,
    FetchRequest from 8,
    FindCoordinatorRequest from 2,
    HeartbeatRequest from 2,
    IncrementalAlterConfigsRequest from 0,
    InitProducerIdRequest from 1,
    JoinGroupRequest from 3,
    LeaveGroupRequest from 2,
    ListGroupsRequest from 2,
    ListOffsetsRequest from 3,
    MetadataRequest from 6,
    OffsetCommitRequest from 4,
    OffsetFetchRequest from 4,
    OffsetForLeaderEpochRequest from 0,
    ProduceRequest from 6,
    SyncGroupRequest from 2,
    TxnOffsetCommitRequest from 1,
}
