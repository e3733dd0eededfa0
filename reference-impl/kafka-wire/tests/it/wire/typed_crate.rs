//! The typed crate, message by message, behind one table: shared by the tests and the fuzz target
//! `typed`.

use bytes::Bytes;
use kafka_protocol::messages::*;
use kafka_protocol::protocol::{Decodable, Encodable, Message as _};
use kafka_wire::api::{ApiKey, VersionRange};
use kafka_wire::schema::{self, Message};

/// A message as the typed crate sees it.
#[derive(Clone, Copy)]
pub struct Typed {
    pub message: &'static Message,
    pub versions: VersionRange,
    /// Decodes to the last byte, or says why not.
    pub decode: fn(&[u8], i16) -> Result<(), String>,
    /// Decodes and encodes again: the bytes, and the decoded message in words.
    pub again: Again,
}

type Again = fn(&[u8], i16) -> Result<(Vec<u8>, String), String>;

fn parse<T: Decodable>(body: &[u8], version: i16) -> Result<T, String> {
    let mut bytes = Bytes::copy_from_slice(body);
    let message = T::decode(&mut bytes, version).map_err(|error| error.to_string())?;
    match bytes.len() {
        0 => Ok(message),
        left => Err(format!("{left} bytes are left over")),
    }
}

fn decode<T: Decodable>(body: &[u8], version: i16) -> Result<(), String> {
    parse::<T>(body, version).map(drop)
}

fn again<T: Decodable + Encodable + std::fmt::Debug>(
    body: &[u8],
    version: i16,
) -> Result<(Vec<u8>, String), String> {
    let message = parse::<T>(body, version)?;
    let mut out = Vec::new();
    message
        .encode(&mut out, version)
        .map_err(|error| error.to_string())?;
    Ok((out, format!("{message:?}")))
}

macro_rules! typed {
    ($($key:ident: $request:ident, $response:ident;)*) => {
        /// Every request and response of the crate.
        pub fn typed() -> Vec<Typed> {
            vec![$(
                Typed {
                    message: schema::request(ApiKey::$key).expect("a request"),
                    versions: VersionRange::new($request::VERSIONS.min, $request::VERSIONS.max),
                    decode: decode::<$request>,
                    again: again::<$request>,
                },
                Typed {
                    message: schema::response(ApiKey::$key).expect("a response"),
                    versions: VersionRange::new($response::VERSIONS.min, $response::VERSIONS.max),
                    decode: decode::<$response>,
                    again: again::<$response>,
                },
            )*]
        }
    };
}

typed! {
    PRODUCE: ProduceRequest, ProduceResponse;
    FETCH: FetchRequest, FetchResponse;
    LIST_OFFSETS: ListOffsetsRequest, ListOffsetsResponse;
    METADATA: MetadataRequest, MetadataResponse;
    OFFSET_COMMIT: OffsetCommitRequest, OffsetCommitResponse;
    OFFSET_FETCH: OffsetFetchRequest, OffsetFetchResponse;
    FIND_COORDINATOR: FindCoordinatorRequest, FindCoordinatorResponse;
    JOIN_GROUP: JoinGroupRequest, JoinGroupResponse;
    HEARTBEAT: HeartbeatRequest, HeartbeatResponse;
    LEAVE_GROUP: LeaveGroupRequest, LeaveGroupResponse;
    SYNC_GROUP: SyncGroupRequest, SyncGroupResponse;
    DESCRIBE_GROUPS: DescribeGroupsRequest, DescribeGroupsResponse;
    LIST_GROUPS: ListGroupsRequest, ListGroupsResponse;
    SASL_HANDSHAKE: SaslHandshakeRequest, SaslHandshakeResponse;
    API_VERSIONS: ApiVersionsRequest, ApiVersionsResponse;
    CREATE_TOPICS: CreateTopicsRequest, CreateTopicsResponse;
    DELETE_TOPICS: DeleteTopicsRequest, DeleteTopicsResponse;
    DELETE_RECORDS: DeleteRecordsRequest, DeleteRecordsResponse;
    INIT_PRODUCER_ID: InitProducerIdRequest, InitProducerIdResponse;
    OFFSET_FOR_LEADER_EPOCH: OffsetForLeaderEpochRequest, OffsetForLeaderEpochResponse;
    ADD_PARTITIONS_TO_TXN: AddPartitionsToTxnRequest, AddPartitionsToTxnResponse;
    ADD_OFFSETS_TO_TXN: AddOffsetsToTxnRequest, AddOffsetsToTxnResponse;
    END_TXN: EndTxnRequest, EndTxnResponse;
    WRITE_TXN_MARKERS: WriteTxnMarkersRequest, WriteTxnMarkersResponse;
    TXN_OFFSET_COMMIT: TxnOffsetCommitRequest, TxnOffsetCommitResponse;
    DESCRIBE_ACLS: DescribeAclsRequest, DescribeAclsResponse;
    CREATE_ACLS: CreateAclsRequest, CreateAclsResponse;
    DELETE_ACLS: DeleteAclsRequest, DeleteAclsResponse;
    DESCRIBE_CONFIGS: DescribeConfigsRequest, DescribeConfigsResponse;
    ALTER_CONFIGS: AlterConfigsRequest, AlterConfigsResponse;
    ALTER_REPLICA_LOG_DIRS: AlterReplicaLogDirsRequest, AlterReplicaLogDirsResponse;
    DESCRIBE_LOG_DIRS: DescribeLogDirsRequest, DescribeLogDirsResponse;
    SASL_AUTHENTICATE: SaslAuthenticateRequest, SaslAuthenticateResponse;
    CREATE_PARTITIONS: CreatePartitionsRequest, CreatePartitionsResponse;
    CREATE_DELEGATION_TOKEN: CreateDelegationTokenRequest, CreateDelegationTokenResponse;
    RENEW_DELEGATION_TOKEN: RenewDelegationTokenRequest, RenewDelegationTokenResponse;
    EXPIRE_DELEGATION_TOKEN: ExpireDelegationTokenRequest, ExpireDelegationTokenResponse;
    DESCRIBE_DELEGATION_TOKEN: DescribeDelegationTokenRequest, DescribeDelegationTokenResponse;
    DELETE_GROUPS: DeleteGroupsRequest, DeleteGroupsResponse;
    ELECT_LEADERS: ElectLeadersRequest, ElectLeadersResponse;
    INCREMENTAL_ALTER_CONFIGS: IncrementalAlterConfigsRequest, IncrementalAlterConfigsResponse;
    ALTER_PARTITION_REASSIGNMENTS: AlterPartitionReassignmentsRequest, AlterPartitionReassignmentsResponse;
    LIST_PARTITION_REASSIGNMENTS: ListPartitionReassignmentsRequest, ListPartitionReassignmentsResponse;
    OFFSET_DELETE: OffsetDeleteRequest, OffsetDeleteResponse;
    DESCRIBE_CLIENT_QUOTAS: DescribeClientQuotasRequest, DescribeClientQuotasResponse;
    ALTER_CLIENT_QUOTAS: AlterClientQuotasRequest, AlterClientQuotasResponse;
    DESCRIBE_USER_SCRAM_CREDENTIALS: DescribeUserScramCredentialsRequest, DescribeUserScramCredentialsResponse;
    ALTER_USER_SCRAM_CREDENTIALS: AlterUserScramCredentialsRequest, AlterUserScramCredentialsResponse;
    VOTE: VoteRequest, VoteResponse;
    BEGIN_QUORUM_EPOCH: BeginQuorumEpochRequest, BeginQuorumEpochResponse;
    END_QUORUM_EPOCH: EndQuorumEpochRequest, EndQuorumEpochResponse;
    DESCRIBE_QUORUM: DescribeQuorumRequest, DescribeQuorumResponse;
    ALTER_PARTITION: AlterPartitionRequest, AlterPartitionResponse;
    UPDATE_FEATURES: UpdateFeaturesRequest, UpdateFeaturesResponse;
    ENVELOPE: EnvelopeRequest, EnvelopeResponse;
    FETCH_SNAPSHOT: FetchSnapshotRequest, FetchSnapshotResponse;
    DESCRIBE_CLUSTER: DescribeClusterRequest, DescribeClusterResponse;
    DESCRIBE_PRODUCERS: DescribeProducersRequest, DescribeProducersResponse;
    BROKER_REGISTRATION: BrokerRegistrationRequest, BrokerRegistrationResponse;
    BROKER_HEARTBEAT: BrokerHeartbeatRequest, BrokerHeartbeatResponse;
    UNREGISTER_BROKER: UnregisterBrokerRequest, UnregisterBrokerResponse;
    DESCRIBE_TRANSACTIONS: DescribeTransactionsRequest, DescribeTransactionsResponse;
    LIST_TRANSACTIONS: ListTransactionsRequest, ListTransactionsResponse;
    ALLOCATE_PRODUCER_IDS: AllocateProducerIdsRequest, AllocateProducerIdsResponse;
    CONSUMER_GROUP_HEARTBEAT: ConsumerGroupHeartbeatRequest, ConsumerGroupHeartbeatResponse;
    CONSUMER_GROUP_DESCRIBE: ConsumerGroupDescribeRequest, ConsumerGroupDescribeResponse;
    CONTROLLER_REGISTRATION: ControllerRegistrationRequest, ControllerRegistrationResponse;
    GET_TELEMETRY_SUBSCRIPTIONS: GetTelemetrySubscriptionsRequest, GetTelemetrySubscriptionsResponse;
    PUSH_TELEMETRY: PushTelemetryRequest, PushTelemetryResponse;
    ASSIGN_REPLICAS_TO_DIRS: AssignReplicasToDirsRequest, AssignReplicasToDirsResponse;
    LIST_CONFIG_RESOURCES: ListConfigResourcesRequest, ListConfigResourcesResponse;
    DESCRIBE_TOPIC_PARTITIONS: DescribeTopicPartitionsRequest, DescribeTopicPartitionsResponse;
    SHARE_GROUP_HEARTBEAT: ShareGroupHeartbeatRequest, ShareGroupHeartbeatResponse;
    SHARE_GROUP_DESCRIBE: ShareGroupDescribeRequest, ShareGroupDescribeResponse;
    SHARE_FETCH: ShareFetchRequest, ShareFetchResponse;
    SHARE_ACKNOWLEDGE: ShareAcknowledgeRequest, ShareAcknowledgeResponse;
    ADD_RAFT_VOTER: AddRaftVoterRequest, AddRaftVoterResponse;
    REMOVE_RAFT_VOTER: RemoveRaftVoterRequest, RemoveRaftVoterResponse;
    UPDATE_RAFT_VOTER: UpdateRaftVoterRequest, UpdateRaftVoterResponse;
    INITIALIZE_SHARE_GROUP_STATE: InitializeShareGroupStateRequest, InitializeShareGroupStateResponse;
    READ_SHARE_GROUP_STATE: ReadShareGroupStateRequest, ReadShareGroupStateResponse;
    WRITE_SHARE_GROUP_STATE: WriteShareGroupStateRequest, WriteShareGroupStateResponse;
    DELETE_SHARE_GROUP_STATE: DeleteShareGroupStateRequest, DeleteShareGroupStateResponse;
    READ_SHARE_GROUP_STATE_SUMMARY: ReadShareGroupStateSummaryRequest, ReadShareGroupStateSummaryResponse;
    DESCRIBE_SHARE_GROUP_OFFSETS: DescribeShareGroupOffsetsRequest, DescribeShareGroupOffsetsResponse;
    ALTER_SHARE_GROUP_OFFSETS: AlterShareGroupOffsetsRequest, AlterShareGroupOffsetsResponse;
    DELETE_SHARE_GROUP_OFFSETS: DeleteShareGroupOffsetsRequest, DeleteShareGroupOffsetsResponse;
}
