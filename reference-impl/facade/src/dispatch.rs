//! From a request frame to its handler, and from the response to a frame.
//!
//! No byte of a request reaches the typed decoder before `walk` has passed on it, because the
//! decoder reserves memory from lengths on the wire.

use std::sync::Arc;

use bytes::{BufMut, Bytes, BytesMut};
use futures::FutureExt;
use kafka_protocol::messages as typed;
use kafka_protocol::protocol::{Decodable, Encodable, Request, StrBytes};
use kafka_wire::ApiKey;
use kafka_wire::header::{RequestHeader, put_response_header, response_header_version};
use kafka_wire::walk::{self, Limits};

use crate::context::{Answer, Context, Node, Reply};
use crate::handlers;
use crate::room::Room;

pub(crate) mod beyond;
#[cfg(test)]
mod failures;

/// The largest response: the ceiling that frames have in both directions.
pub const MAX_RESPONSE_BYTES: usize = 100 * 1024 * 1024;
/// Responses from this size on are encoded where blocking work runs.
const ENCODE_ELSEWHERE_BYTES: usize = 256 * 1024;
/// What requests may hold. Kafka ignores what is left behind a message, and librdkafka leaves some;
/// more than this is only there to cost memory.
const LIMITS: Limits = Limits {
    max_trailing_bytes: 64 * 1024,
    ..Limits::CLIENT
};

/// Why a request ends its connection without an answer.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Refusal {
    /// The body is not what the schema of its version says.
    #[error("malformed body: {0}")]
    Malformed(String),
    /// No handler: the API is outside the windows.
    #[error("not served")]
    NotServed,
}

/// Runs the handler of a request whose API and version are inside the windows. The frames it
/// answers start with their size.
///
/// # Errors
///
/// [`Refusal`] when the request cannot be read; it has had no effect.
pub async fn dispatch(cx: &Context, request: RequestHeader) -> Result<Reply<Bytes>, Refusal> {
    let tag = Tag {
        key: request.api_key,
        version: request.api_version,
        correlation_id: request.correlation_id,
    };
    macro_rules! apis {
        ($($key:ident => $handler:ident($message:ident),)*) => {
            match request.api_key {
                $(ApiKey::$key => {
                    let message: typed::$message = decode(&request)?;
                    // What of the frame is needed is in the message now.
                    drop(request);
                    // Boxed: an idle connection must not carry the room its largest handler needs.
                    let reply = Box::pin(handlers::$handler::handle(cx, message)).await;
                    let reply: Reply<<typed::$message as Request>::Response> = reply.into();
                    Ok(frames(cx, tag, reply).await)
                })*
                _ => Err(Refusal::NotServed),
            }
        };
    }
    apis! {
        PRODUCE => produce(ProduceRequest),
        FETCH => fetch(FetchRequest),
        LIST_OFFSETS => list_offsets(ListOffsetsRequest),
        METADATA => metadata(MetadataRequest),
        OFFSET_COMMIT => offset_commit(OffsetCommitRequest),
        OFFSET_FETCH => offset_fetch(OffsetFetchRequest),
        FIND_COORDINATOR => find_coordinator(FindCoordinatorRequest),
        JOIN_GROUP => join_group(JoinGroupRequest),
        HEARTBEAT => heartbeat(HeartbeatRequest),
        LEAVE_GROUP => leave_group(LeaveGroupRequest),
        SYNC_GROUP => sync_group(SyncGroupRequest),
        DESCRIBE_GROUPS => describe_groups(DescribeGroupsRequest),
        LIST_GROUPS => list_groups(ListGroupsRequest),
        SASL_HANDSHAKE => sasl_handshake(SaslHandshakeRequest),
        API_VERSIONS => api_versions(ApiVersionsRequest),
        CREATE_TOPICS => create_topics(CreateTopicsRequest),
        DELETE_TOPICS => delete_topics(DeleteTopicsRequest),
        DELETE_RECORDS => delete_records(DeleteRecordsRequest),
        INIT_PRODUCER_ID => init_producer_id(InitProducerIdRequest),
        ADD_PARTITIONS_TO_TXN => add_partitions_to_txn(AddPartitionsToTxnRequest),
        ADD_OFFSETS_TO_TXN => add_offsets_to_txn(AddOffsetsToTxnRequest),
        END_TXN => end_txn(EndTxnRequest),
        TXN_OFFSET_COMMIT => txn_offset_commit(TxnOffsetCommitRequest),
        DESCRIBE_PRODUCERS => describe_producers(DescribeProducersRequest),
        DESCRIBE_TRANSACTIONS => describe_transactions(DescribeTransactionsRequest),
        LIST_TRANSACTIONS => list_transactions(ListTransactionsRequest),
        OFFSET_FOR_LEADER_EPOCH => offset_for_leader_epoch(OffsetForLeaderEpochRequest),
        DESCRIBE_ACLS => describe_acls(DescribeAclsRequest),
        CREATE_ACLS => create_acls(CreateAclsRequest),
        DELETE_ACLS => delete_acls(DeleteAclsRequest),
        DESCRIBE_CONFIGS => describe_configs(DescribeConfigsRequest),
        ALTER_CONFIGS => alter_configs(AlterConfigsRequest),
        DESCRIBE_LOG_DIRS => describe_log_dirs(DescribeLogDirsRequest),
        SASL_AUTHENTICATE => sasl_authenticate(SaslAuthenticateRequest),
        CREATE_PARTITIONS => create_partitions(CreatePartitionsRequest),
        DELETE_GROUPS => delete_groups(DeleteGroupsRequest),
        INCREMENTAL_ALTER_CONFIGS => incremental_alter_configs(IncrementalAlterConfigsRequest),
        OFFSET_DELETE => offset_delete(OffsetDeleteRequest),
        DESCRIBE_CLUSTER => describe_cluster(DescribeClusterRequest),
        CONSUMER_GROUP_HEARTBEAT => consumer_group_heartbeat(ConsumerGroupHeartbeatRequest),
        CONSUMER_GROUP_DESCRIBE => consumer_group_describe(ConsumerGroupDescribeRequest),
        DESCRIBE_TOPIC_PARTITIONS => describe_topic_partitions(DescribeTopicPartitionsRequest),
    }
}

/// The largest body of a request: only records and assignments are large. A list of numbers takes
/// little on the wire and becomes a list of objects behind it.
const fn max_body_bytes(key: ApiKey) -> usize {
    match key {
        ApiKey::PRODUCE | ApiKey::SYNC_GROUP => usize::MAX,
        _ => 16 << 20,
    }
}

fn decode<M: Decodable>(request: &RequestHeader) -> Result<M, Refusal> {
    let malformed = |error: &dyn std::fmt::Display| Refusal::Malformed(error.to_string());
    let (key, version) = (request.api_key, request.api_version);
    if request.body.len() > max_body_bytes(key) {
        return Err(malformed(&"the body is too large"));
    }
    let proved = walk::request(key, version, &request.body, &LIMITS);
    let trailing = proved.map_err(|e| malformed(&e))?.trailing_bytes as usize;
    let (typed_version, mut body) = beyond::request(key, version, &request.body);
    let message = M::decode(&mut body, typed_version).map_err(|e| malformed(&e))?;
    // The decoder must end where the walk did: a disagreement means that one of them is wrong.
    if body.len() != trailing {
        return Err(malformed(&format!(
            "{} bytes after the end",
            body.len().abs_diff(trailing)
        )));
    }
    Ok(message)
}

/// Which request a response answers.
#[derive(Clone, Copy, Debug)]
struct Tag {
    key: ApiKey,
    version: i16,
    correlation_id: i32,
}

async fn frames<R: Encodable + Send + 'static>(
    cx: &Context,
    tag: Tag,
    reply: Reply<R>,
) -> Reply<Bytes> {
    match reply {
        Reply::Now(answer) => Reply::Now(framed(&cx.node, &cx.room, tag, answer).await),
        Reply::Later(answer) => {
            let (node, room) = (Arc::clone(&cx.node), cx.room.clone());
            let framed = async move { framed(&node, &room, tag, answer.await).await };
            Reply::Later(framed.boxed())
        }
    }
}

/// The frame of an answer, for which room is taken before it is built.
async fn framed<R: Encodable + Send + 'static>(
    node: &Arc<Node>,
    room: &Room,
    tag: Tag,
    answer: Answer<R>,
) -> Answer<Bytes> {
    let response = match answer {
        Answer::Send(response) => response,
        Answer::Silence => return Answer::Silence,
        Answer::Close(reason) => return Answer::Close(reason),
    };
    let encoded = match size_of_frame(tag, &response) {
        Err(error) => Err(error),
        Ok(bytes) if room.take(bytes).await.is_err() => return Answer::Close(CROWDED),
        Ok(bytes) if bytes < ENCODE_ELSEWHERE_BYTES => build(node, tag, &response),
        Ok(_) => {
            let node = Arc::clone(node);
            let elsewhere = node.host.blocking;
            elsewhere.run(move || build(&node, tag, &response)).await
        }
    };
    match encoded {
        Ok(frame) => Answer::Send(frame),
        Err(error) => {
            // A client can ask for the same again at will.
            if let Some(suppressed) = node.unencodable.pass(node.host.clock.monotonic()) {
                let Tag { key, version, .. } = tag;
                tracing::error!(api = %key, version, %error, suppressed, "a response could not be encoded");
            }
            Answer::Close("a response could not be encoded")
        }
    }
}

/// Why a connection ends whose answer found no room.
pub const CROWDED: &str = "too many answers are unread: no room for this one";

fn build(node: &Node, tag: Tag, response: &impl Encodable) -> Result<Bytes, EncodeError> {
    let frame = encode(tag.key, tag.version, tag.correlation_id, response)?;
    let header = 8 + usize::from(response_header_version(tag.key, tag.version) >= 1);
    let body = frame.get(header..).unwrap_or_default();
    node.metrics.answered(tag.key, tag.version, body);
    Ok(frame)
}

fn size_of_frame(tag: Tag, response: &impl Encodable) -> Result<usize, EncodeError> {
    let body = response.compute_size(tag.version);
    body.map_err(|error| EncodeError::Unrepresentable(error.to_string()))
}

/// Why a response cannot be sent.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum EncodeError {
    /// It holds what its version cannot say: a defect of the handler.
    #[error("{0}")]
    Unrepresentable(String),
    /// It is above the frame ceiling.
    #[error("{0} bytes are more than a frame may hold")]
    TooLarge(usize),
}

/// The frame (size, header, body) that answers `correlation_id`.
///
/// # Errors
///
/// [`EncodeError`]; nothing of the size of the response is allocated before it is judged.
pub fn encode(
    key: ApiKey,
    version: i16,
    correlation_id: i32,
    response: &impl Encodable,
) -> Result<Bytes, EncodeError> {
    let unrepresentable =
        |error: &dyn std::fmt::Display| EncodeError::Unrepresentable(error.to_string());
    let typed_version = beyond::response_version(key, version);
    let body_bytes = response
        .compute_size(typed_version)
        .map_err(|e| unrepresentable(&e))?;
    let mut header = [0; 5];
    let mut rest = &mut header[..];
    put_response_header(&mut rest, key, version, correlation_id);
    let header_bytes = 5 - rest.len();
    let size = header_bytes + body_bytes;
    if size > MAX_RESPONSE_BYTES {
        return Err(EncodeError::TooLarge(size));
    }
    let mut frame = BytesMut::with_capacity(4 + size);
    // At most the ceiling, which fits.
    frame.put_u32(size as u32);
    frame.put_slice(&header[..header_bytes]);
    response
        .encode(&mut frame, typed_version)
        .map_err(|e| unrepresentable(&e))?;
    if frame.len() != 4 + size {
        return Err(unrepresentable(&format!(
            "{} bytes in place of {}",
            frame.len(),
            4 + size
        )));
    }
    if typed_version == version {
        return Ok(frame.freeze());
    }
    let body = beyond::finish(key, version, frame.split_off(4 + header_bytes).freeze());
    let size = header_bytes + body.len();
    if size > MAX_RESPONSE_BYTES {
        return Err(EncodeError::TooLarge(size));
    }
    let mut frame = BytesMut::with_capacity(4 + size);
    frame.put_u32(size as u32);
    frame.put_slice(&header[..header_bytes]);
    frame.put_slice(&body);
    Ok(frame.freeze())
}

/// The client id of a header, as the typed messages carry text.
pub fn client_id(request: &RequestHeader) -> Option<StrBytes> {
    StrBytes::from_utf8(request.client_id_bytes()?.clone()).ok()
}

#[cfg(test)]
mod tests {
    use host::pipe::pipe;
    use host::shutdown::shutdown;
    use kafka_protocol::messages::fetch_response::{FetchableTopicResponse, PartitionData};
    use kafka_protocol::messages::{FetchResponse, HeartbeatResponse};
    use kafka_wire::header::put_request_header;

    use super::*;
    use crate::config::Config;
    use crate::context::{Node, NodeParts, Session, SessionId};
    use crate::metrics::Metrics;
    use crate::windows::WINDOWS;

    fn context() -> Context {
        let config = Config::local();
        let (upstream, _) = pipe(64);
        let (_, shutdown) = shutdown();
        let node = Node::new(NodeParts {
            host: host::os::host(),
            advertised: config.advertised.clone(),
            config: Arc::new(config),
            upstream: Arc::new(upstream),
            shutdown,
            metrics: Arc::new(Metrics::default()),
        });
        Context {
            received: node.host.clock.monotonic(),
            room: Room::new(&node.budgets.answers, None),
            node,
            session: Session::new(SessionId(0), ([127, 0, 0, 1], 1).into(), None),
            version: 0,
            client_id: None,
        }
    }

    #[tokio::test]
    async fn every_window_has_a_handler_and_no_body_skips_the_walk() {
        let cx = context();
        for (key, window) in WINDOWS.iter() {
            for version in window.iter() {
                let mut frame = BytesMut::new();
                put_request_header(&mut frame, key, version, 1, None);
                // No request begins with these lengths; only requests that hold none may pass.
                frame.put_bytes(0x7f, 64);
                let request = RequestHeader::parse(frame.freeze()).unwrap();
                let walked = walk::request(key, version, &request.body, &Limits::CLIENT);
                match dispatch(&cx, request).await {
                    Err(Refusal::Malformed(_)) => assert!(walked.is_err(), "{key} {version}"),
                    Err(Refusal::NotServed) => panic!("{key} {version} has no handler"),
                    Ok(_) => assert!(walked.is_ok(), "{key} {version} took garbage"),
                }
            }
        }
    }

    #[tokio::test]
    async fn only_requests_that_carry_much_may_be_large() {
        let cx = context();
        for (key, fits) in [(ApiKey::METADATA, false), (ApiKey::SYNC_GROUP, true)] {
            let mut frame = BytesMut::new();
            put_request_header(&mut frame, key, 0, 1, None);
            frame.put_bytes(0, 20 << 20);
            let request = RequestHeader::parse(frame.freeze()).unwrap();
            let Err(Refusal::Malformed(why)) = dispatch(&cx, request).await else {
                panic!("{key} was read");
            };
            assert_eq!(why.contains("too large"), !fits, "{key}: {why}");
        }
    }

    #[test]
    fn a_response_is_framed_by_its_header_version() {
        let response = HeartbeatResponse::default().with_error_code(27);
        let old = encode(ApiKey::HEARTBEAT, 0, 7, &response).unwrap();
        assert_eq!(old, [0, 0, 0, 6, 0, 0, 0, 7, 0, 27][..]);
        let flexible = encode(ApiKey::HEARTBEAT, 4, 7, &response).unwrap();
        let expected = [0, 0, 0, 12, 0, 0, 0, 7, 0, 0, 0, 0, 0, 0, 27, 0];
        assert_eq!(flexible, expected[..]);
    }

    #[test]
    fn what_no_frame_holds_is_not_built() {
        let records = Bytes::from(vec![0; MAX_RESPONSE_BYTES]);
        let partition = PartitionData::default().with_records(Some(records));
        let topic = FetchableTopicResponse::default().with_partitions(vec![partition]);
        let response = FetchResponse::default().with_responses(vec![topic]);
        let error = encode(ApiKey::FETCH, 4, 7, &response).unwrap_err();
        assert!(matches!(error, EncodeError::TooLarge(size) if size > MAX_RESPONSE_BYTES));
    }
}
