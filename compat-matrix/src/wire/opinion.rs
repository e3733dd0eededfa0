//! A second opinion on responses: the typed decoder of the `kafka-protocol` crate, which knows
//! nothing of our schema. It reads lengths without a bound, so `kafka_wire::walk` goes before it.

use bytes::{Buf as _, Bytes, BytesMut};
use kafka_protocol::messages;
use kafka_protocol::protocol::{Decodable, Encodable, Message};
use kafka_wire::ApiKey;

/// What the crate makes of a response body that has been walked.
///
/// `None` where it has no type for the API, or the type lacks the version. Otherwise the body must
/// decode to its last byte, and encode to the same bytes again.
pub fn response(key: ApiKey, version: i16, body: &Bytes) -> Option<Result<(), String>> {
    typed(key, version, body)
}

fn check<T>(version: i16, body: &Bytes) -> Option<Result<(), String>>
where
    T: Decodable + Encodable + Message,
{
    let known = T::VERSIONS;
    if version < known.min || version > known.max {
        return None;
    }
    Some(round_trip::<T>(version, body))
}

fn round_trip<T: Decodable + Encodable>(version: i16, body: &Bytes) -> Result<(), String> {
    let mut rest = body.clone();
    let message = T::decode(&mut rest, version).map_err(|error| error.to_string())?;
    if rest.has_remaining() {
        return Err(format!("{} bytes are left over", rest.remaining()));
    }
    let mut again = BytesMut::with_capacity(body.len());
    message
        .encode(&mut again, version)
        .map_err(|error| error.to_string())?;
    match body.iter().zip(&again).position(|(a, b)| a != b) {
        Some(at) => Err(format!("encoded again, byte {at} differs")),
        None if body.len() != again.len() => Err(format!(
            "encoded again, it has {} bytes instead of {}",
            again.len(),
            body.len()
        )),
        None => Ok(()),
    }
}

macro_rules! typed {
    ($($key:ident => $response:ident,)*) => {
        fn typed(key: ApiKey, version: i16, body: &Bytes) -> Option<Result<(), String>> {
            match key {
                $(ApiKey::$key => check::<messages::$response>(version, body),)*
                _ => None,
            }
        }
    };
}

typed! {
    PRODUCE => ProduceResponse,
    FETCH => FetchResponse,
    LIST_OFFSETS => ListOffsetsResponse,
    METADATA => MetadataResponse,
    OFFSET_COMMIT => OffsetCommitResponse,
    OFFSET_FETCH => OffsetFetchResponse,
    FIND_COORDINATOR => FindCoordinatorResponse,
    JOIN_GROUP => JoinGroupResponse,
    HEARTBEAT => HeartbeatResponse,
    LEAVE_GROUP => LeaveGroupResponse,
    SYNC_GROUP => SyncGroupResponse,
    DESCRIBE_GROUPS => DescribeGroupsResponse,
    LIST_GROUPS => ListGroupsResponse,
    SASL_HANDSHAKE => SaslHandshakeResponse,
    API_VERSIONS => ApiVersionsResponse,
    CREATE_TOPICS => CreateTopicsResponse,
    DELETE_TOPICS => DeleteTopicsResponse,
    DELETE_RECORDS => DeleteRecordsResponse,
    INIT_PRODUCER_ID => InitProducerIdResponse,
    OFFSET_FOR_LEADER_EPOCH => OffsetForLeaderEpochResponse,
    ADD_PARTITIONS_TO_TXN => AddPartitionsToTxnResponse,
    ADD_OFFSETS_TO_TXN => AddOffsetsToTxnResponse,
    END_TXN => EndTxnResponse,
    WRITE_TXN_MARKERS => WriteTxnMarkersResponse,
    TXN_OFFSET_COMMIT => TxnOffsetCommitResponse,
    DESCRIBE_ACLS => DescribeAclsResponse,
    CREATE_ACLS => CreateAclsResponse,
    DELETE_ACLS => DeleteAclsResponse,
    DESCRIBE_CONFIGS => DescribeConfigsResponse,
    ALTER_CONFIGS => AlterConfigsResponse,
    ALTER_REPLICA_LOG_DIRS => AlterReplicaLogDirsResponse,
    DESCRIBE_LOG_DIRS => DescribeLogDirsResponse,
    SASL_AUTHENTICATE => SaslAuthenticateResponse,
    CREATE_PARTITIONS => CreatePartitionsResponse,
    CREATE_DELEGATION_TOKEN => CreateDelegationTokenResponse,
    RENEW_DELEGATION_TOKEN => RenewDelegationTokenResponse,
    EXPIRE_DELEGATION_TOKEN => ExpireDelegationTokenResponse,
    DESCRIBE_DELEGATION_TOKEN => DescribeDelegationTokenResponse,
    DELETE_GROUPS => DeleteGroupsResponse,
    ELECT_LEADERS => ElectLeadersResponse,
    INCREMENTAL_ALTER_CONFIGS => IncrementalAlterConfigsResponse,
    ALTER_PARTITION_REASSIGNMENTS => AlterPartitionReassignmentsResponse,
    LIST_PARTITION_REASSIGNMENTS => ListPartitionReassignmentsResponse,
    OFFSET_DELETE => OffsetDeleteResponse,
    DESCRIBE_CLIENT_QUOTAS => DescribeClientQuotasResponse,
    ALTER_CLIENT_QUOTAS => AlterClientQuotasResponse,
    DESCRIBE_USER_SCRAM_CREDENTIALS => DescribeUserScramCredentialsResponse,
    ALTER_USER_SCRAM_CREDENTIALS => AlterUserScramCredentialsResponse,
    VOTE => VoteResponse,
    BEGIN_QUORUM_EPOCH => BeginQuorumEpochResponse,
    END_QUORUM_EPOCH => EndQuorumEpochResponse,
    DESCRIBE_QUORUM => DescribeQuorumResponse,
    ALTER_PARTITION => AlterPartitionResponse,
    UPDATE_FEATURES => UpdateFeaturesResponse,
    ENVELOPE => EnvelopeResponse,
    FETCH_SNAPSHOT => FetchSnapshotResponse,
    DESCRIBE_CLUSTER => DescribeClusterResponse,
    DESCRIBE_PRODUCERS => DescribeProducersResponse,
    BROKER_REGISTRATION => BrokerRegistrationResponse,
    BROKER_HEARTBEAT => BrokerHeartbeatResponse,
    UNREGISTER_BROKER => UnregisterBrokerResponse,
    DESCRIBE_TRANSACTIONS => DescribeTransactionsResponse,
    LIST_TRANSACTIONS => ListTransactionsResponse,
    ALLOCATE_PRODUCER_IDS => AllocateProducerIdsResponse,
    CONSUMER_GROUP_HEARTBEAT => ConsumerGroupHeartbeatResponse,
    CONSUMER_GROUP_DESCRIBE => ConsumerGroupDescribeResponse,
    CONTROLLER_REGISTRATION => ControllerRegistrationResponse,
    GET_TELEMETRY_SUBSCRIPTIONS => GetTelemetrySubscriptionsResponse,
    PUSH_TELEMETRY => PushTelemetryResponse,
    ASSIGN_REPLICAS_TO_DIRS => AssignReplicasToDirsResponse,
    LIST_CONFIG_RESOURCES => ListConfigResourcesResponse,
    DESCRIBE_TOPIC_PARTITIONS => DescribeTopicPartitionsResponse,
    SHARE_GROUP_HEARTBEAT => ShareGroupHeartbeatResponse,
    SHARE_GROUP_DESCRIBE => ShareGroupDescribeResponse,
    SHARE_FETCH => ShareFetchResponse,
    SHARE_ACKNOWLEDGE => ShareAcknowledgeResponse,
    ADD_RAFT_VOTER => AddRaftVoterResponse,
    REMOVE_RAFT_VOTER => RemoveRaftVoterResponse,
    UPDATE_RAFT_VOTER => UpdateRaftVoterResponse,
    INITIALIZE_SHARE_GROUP_STATE => InitializeShareGroupStateResponse,
    READ_SHARE_GROUP_STATE => ReadShareGroupStateResponse,
    WRITE_SHARE_GROUP_STATE => WriteShareGroupStateResponse,
    DELETE_SHARE_GROUP_STATE => DeleteShareGroupStateResponse,
    READ_SHARE_GROUP_STATE_SUMMARY => ReadShareGroupStateSummaryResponse,
    DESCRIBE_SHARE_GROUP_OFFSETS => DescribeShareGroupOffsetsResponse,
    ALTER_SHARE_GROUP_OFFSETS => AlterShareGroupOffsetsResponse,
    DELETE_SHARE_GROUP_OFFSETS => DeleteShareGroupOffsetsResponse,
}
