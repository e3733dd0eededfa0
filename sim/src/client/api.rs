//! The requests that these clients make, and what each tells about throttling.
//!
//! From which version on a broker expects its client to wait: Kafka's `shouldClientThrottle` of
//! each response (KIP-219; clients/src/main/java/org/apache/kafka/common/requests).

use kafka_protocol::messages::{
    AddOffsetsToTxnRequest, AddPartitionsToTxnRequest, AlterConfigsRequest, ApiVersionsRequest,
    ConsumerGroupHeartbeatRequest, CreatePartitionsRequest, CreateTopicsRequest,
    CreateTopicsResponse, DeleteGroupsRequest, DeleteRecordsRequest, DeleteTopicsRequest,
    DescribeConfigsRequest, DescribeGroupsRequest, EndTxnRequest, EndTxnResponse, FetchRequest,
    FetchResponse, FindCoordinatorRequest, HeartbeatRequest, IncrementalAlterConfigsRequest,
    InitProducerIdRequest, JoinGroupRequest, LeaveGroupRequest, ListGroupsRequest,
    ListOffsetsRequest, MetadataRequest, MetadataResponse, OffsetCommitRequest,
    OffsetCommitResponse, OffsetFetchRequest, OffsetForLeaderEpochRequest, ProduceRequest,
    ProduceResponse, SaslAuthenticateRequest, SaslAuthenticateResponse, SaslHandshakeRequest,
    SyncGroupRequest, TopicName, TxnOffsetCommitRequest,
};
use kafka_protocol::protocol::Request;
use uuid::Uuid;

/// A request whose answer may ask for patience.
pub trait Api: Request<Response: Send + 'static> + 'static {
    /// The first version whose answers come before the broker waits, so that the client should.
    const CLIENT_WAITS_FROM: i16;

    /// How long the broker wants this client to keep quiet, in milliseconds.
    fn throttle_time_ms(response: &Self::Response) -> i32;

    /// Whether it moves anything for good when it succeeds: what is only staged doesn't.
    fn moves(&self) -> bool {
        true
    }

    /// What was moved or shown: names of topics, or of what else there is to name. Nothing for what
    /// a door answers out of its own head.
    fn served(_: &Self::Response) -> Vec<String> {
        Vec::new()
    }
}

macro_rules! apis {
    ($($request:ident from $version:literal $(serves $served:ident $(if $moves:ident)?)?,)*) => {$(
        impl Api for $request {
            const CLIENT_WAITS_FROM: i16 = $version;

            fn throttle_time_ms(response: &Self::Response) -> i32 {
                response.throttle_time_ms
            }

            $(
            fn served(response: &Self::Response) -> Vec<String> {
                $served(response)
            }

            $(
            fn moves(&self) -> bool {
                $moves(self)
            }
            )?
            )?
        }
    )*};
}

macro_rules! apis_that_never_throttle {
    ($($request:ident $(serves $served:ident)?,)*) => {$(
        impl Api for $request {
            const CLIENT_WAITS_FROM: i16 = 0;

            fn throttle_time_ms(_: &Self::Response) -> i32 {
                0
            }

            $(
            fn served(response: &Self::Response) -> Vec<String> {
                $served(response)
            }
            )?
        }
    )*};
}

apis_that_never_throttle! {
    SaslAuthenticateRequest serves sessions,
    SaslHandshakeRequest,
}

apis! {
    AddOffsetsToTxnRequest from 1,
    AddPartitionsToTxnRequest from 1,
    AlterConfigsRequest from 1,
    ApiVersionsRequest from 2,
    ConsumerGroupHeartbeatRequest from 0,
    CreatePartitionsRequest from 1,
    CreateTopicsRequest from 3 serves created,
    DeleteGroupsRequest from 1,
    DeleteRecordsRequest from 1,
    DeleteTopicsRequest from 2,
    DescribeConfigsRequest from 2,
    DescribeGroupsRequest from 2,
    EndTxnRequest from 1 serves ended if commits,
    FetchRequest from 8 serves fetched,
    FindCoordinatorRequest from 2,
    HeartbeatRequest from 2,
    IncrementalAlterConfigsRequest from 0,
    InitProducerIdRequest from 1,
    JoinGroupRequest from 3,
    LeaveGroupRequest from 2,
    ListGroupsRequest from 2,
    ListOffsetsRequest from 3,
    MetadataRequest from 6 serves described,
    OffsetCommitRequest from 4 serves committed,
    OffsetFetchRequest from 4,
    OffsetForLeaderEpochRequest from 0,
    ProduceRequest from 6 serves produced if stores,
    SyncGroupRequest from 2,
    TxnOffsetCommitRequest from 1,
}

/// A topic by its name, or by its id in versions that have no name.
fn topic(name: &TopicName, id: Uuid) -> String {
    match name.is_empty() {
        true => id.to_string(),
        false => name.to_string(),
    }
}

fn sessions(response: &SaslAuthenticateResponse) -> Vec<String> {
    let accepted = response.error_code == 0;
    accepted.then(|| "session".to_owned()).into_iter().collect()
}

fn created(response: &CreateTopicsResponse) -> Vec<String> {
    let made = response.topics.iter().filter(|one| one.error_code == 0);
    made.map(|one| one.name.to_string()).collect()
}

fn commits(request: &EndTxnRequest) -> bool {
    request.committed
}

fn ended(response: &EndTxnResponse) -> Vec<String> {
    let committed = response.error_code == 0;
    committed
        .then(|| "transaction".to_owned())
        .into_iter()
        .collect()
}

fn fetched(response: &FetchResponse) -> Vec<String> {
    let brought = response.responses.iter().filter(|one| {
        let mut partitions = one.partitions.iter();
        partitions.any(|at| at.records.as_ref().is_some_and(|bytes| !bytes.is_empty()))
    });
    brought.map(|one| topic(&one.topic, one.topic_id)).collect()
}

fn described(response: &MetadataResponse) -> Vec<String> {
    let shown = response.topics.iter().filter(|one| one.error_code == 0);
    shown
        .filter_map(|one| Some(one.name.as_ref()?.to_string()))
        .collect()
}

fn committed(response: &OffsetCommitResponse) -> Vec<String> {
    let taken = response.topics.iter().filter(|one| {
        let mut partitions = one.partitions.iter();
        partitions.any(|at| at.error_code == 0)
    });
    taken.map(|one| topic(&one.name, one.topic_id)).collect()
}

/// What belongs to a transaction waits for its end.
fn stores(request: &ProduceRequest) -> bool {
    request.transactional_id.is_none()
}

fn produced(response: &ProduceResponse) -> Vec<String> {
    let stored = response.responses.iter().filter(|one| {
        let mut partitions = one.partition_responses.iter();
        partitions.any(|at| at.error_code == 0)
    });
    stored.map(|one| topic(&one.name, one.topic_id)).collect()
}
