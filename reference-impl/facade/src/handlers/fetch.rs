//! Fetch (key 1): versions 4 to 18.
//!
//! - One wait for the whole assignment; max_wait_ms up to 30 s, min_bytes as Queen counts them.
//! - Responses are filled in reading order: partitions of a session that gave records go last.
//!   partition_max_bytes, max_bytes and 32 MiB bound them; the first record always comes.
//! - One record batch per partition, in the topic's codec (compression.type, else the one it was
//!   produced with); leader epoch and producer id −1.
//! - Every node serves every partition; replica_id, rack and isolation_level have no effect: nothing
//!   uncommitted is ever in the log. A later leader epoch than 0 is UNKNOWN_LEADER_EPOCH.
//! - Never-pushed partitions inside the width are empty logs.
//! - When the node's memory for answers is spent, the answer is empty, with a throttle_time_ms.
//! - A 429 is an empty answer with throttle_time_ms. Codes stay within what kafka-clients expects.
//!
//! v4: isolation. v5: log_start_offset. v7: sessions. v9: leader epoch. v10: zstd. v11: rack.
//! v12: flexible. v13: topic ids. v15: replica state. v16: leader hints (never needed).
//! v17, v18: replica fields.

use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use coordinator::fetch_session::{
    ContextPartition, FetchContext, NO_SESSION, PartitionFetch, PartitionOutcome, SessionError,
    SessionRequest, TopicPartition,
};
use futures::FutureExt;
use futures::future::BoxFuture;
use indexmap::IndexMap;
use kafka_protocol::messages::fetch_response::{FetchableTopicResponse, PartitionData};
use kafka_protocol::messages::{FetchRequest, FetchResponse, TopicName};
use kafka_protocol::protocol::StrBytes;
use kafka_wire::ErrorCode;
use tokio::sync::OnceCell;
use uuid::Uuid;

use crate::catalogue::{Lookup, View};
use crate::context::Context;
use crate::fetch::TopicKey;
use crate::fetch::assemble::{self, Assembled, Bounds, MAX_RESPONSE_BYTES};
use crate::fetch::plan::{self, Planned};
use crate::fetch::poll::{Patience, Polled, Read, Reader};
use crate::upstream_errors::{self, Api};

/// The first version with sessions.
const FIRST_SESSION_VERSION: i16 = 7;
/// The first version that names topics by id.
const FIRST_TOPIC_ID_VERSION: i16 = 13;
/// Partitions that a request takes out of its session.
const MAX_FORGOTTEN: usize = 1 << 17;
/// What a lane takes while its request is parked.
const LANE_BYTES: u32 = 256;
/// How long a client waits for which there was no room.
const CROWDED_WAIT: Duration = Duration::from_secs(1);
/// isolation_level of a consumer that wants committed records.
const READ_COMMITTED: i8 = 1;

/// Answers a Fetch request.
pub async fn handle(cx: &Context, request: FetchRequest) -> FetchResponse {
    let node = &cx.node;
    let context = match begin(cx, &request) {
        Ok(context) => context,
        Err(error) => return refused(error),
    };
    let bounds = Bounds {
        max_bytes: usize::try_from(request.max_bytes)
            .ok()
            .filter(|&max_bytes| max_bytes > 0)
            .map_or(MAX_RESPONSE_BYTES, |max_bytes| {
                max_bytes.min(MAX_RESPONSE_BYTES)
            }),
        read_committed: request.isolation_level == READ_COMMITTED,
    };
    let patience = Patience {
        max_wait: Duration::from_millis(u64::try_from(request.max_wait_ms).unwrap_or(0)),
        min_bytes: u32::try_from(request.min_bytes).unwrap_or(0),
        max_bytes: bounds.max_bytes,
    };
    // The wait is long, and the frame may be.
    drop(request);
    cx.room.release_request();
    let mut room = node.budgets.plans.reservation();
    let lanes = u32::try_from(context.partitions.len()).unwrap_or(u32::MAX);
    if !room.try_grow(lanes.saturating_mul(LANE_BYTES)) {
        return crowded(cx, &context);
    }
    let (scope, credential) = (&cx.session.scope, &cx.session.credential);
    let lacks = |view: &View| plan::lacks(view, &context.partitions);
    let view = node.catalogue.view_for(scope, credential, lacks).await;
    let mut planned = plan::Request {
        scope,
        credential,
        version: cx.version,
        now: node.host.clock.monotonic(),
        view: &view,
        surplus: &node.fetching.surplus,
        codecs: &node.produce.codecs,
    }
    .plan(&context.partitions);
    let kept = planned.iter().filter(|planned| planned.is_kept()).count();
    node.fetching.metrics.surplus_hits.add(kept as u64);
    if context.is_incremental() {
        plan::defer(&mut planned, bounds.max_bytes);
    }
    let (polled, floors) = tokio::join!(
        poll(cx, patience, &planned),
        node.floors.table(scope, credential)
    );
    let Polled {
        mut reads,
        mut throttle,
    } = polled;
    let floors = floors.unwrap_or_else(|error| {
        // What was deleted can't be told from what was not: nothing is served.
        let answer = upstream_errors::answer(Api::Fetch, cx.version, &error);
        throttle = throttle.max(answer.throttle);
        for read in &mut reads {
            if matches!(read, Read::Lane(_)) {
                *read = match answer.code {
                    ErrorCode::None => Read::Unread,
                    code => Read::Failed(code),
                };
            }
        }
        Arc::default()
    });
    let expected_bytes = assemble::expected_response_bytes(&planned, &reads, bounds);
    if cx.room.take(expected_bytes).await.is_err() {
        return crowded(cx, &context);
    }
    let time_index = Arc::clone(&node.time_index);
    let heavy = assemble::is_heavy(&planned, &reads);
    let work = move || assemble::assemble(&planned, &reads, bounds, &floors, &time_index);
    let assembled = if heavy {
        node.host.blocking.run(work).await
    } else {
        work()
    };
    finish(cx, &context, assembled, throttle)
}

fn begin(cx: &Context, request: &FetchRequest) -> Result<FetchContext<TopicKey>, SessionError> {
    let by_id = cx.version >= FIRST_TOPIC_ID_VERSION;
    let mut requested = Vec::new();
    for topic in &request.topics {
        let key = topic_key(by_id, &topic.topic, topic.topic_id);
        requested.extend(topic.partitions.iter().map(|partition| {
            (
                TopicPartition {
                    topic: key.clone(),
                    partition: partition.partition,
                },
                PartitionFetch {
                    fetch_offset: partition.fetch_offset,
                    max_bytes: partition.partition_max_bytes,
                    current_leader_epoch: partition.current_leader_epoch,
                },
            )
        }));
    }
    let forgets = request.forgotten_topics_data.iter();
    if forgets.map(|topic| topic.partitions.len()).sum::<usize>() > MAX_FORGOTTEN {
        // More than any session holds: the client starts over.
        return Err(SessionError::IdNotFound);
    }
    let mut forgotten = Vec::new();
    for topic in &request.forgotten_topics_data {
        let key = topic_key(by_id, &topic.topic, topic.topic_id);
        forgotten.extend(topic.partitions.iter().map(|&partition| TopicPartition {
            topic: key.clone(),
            partition,
        }));
    }
    let session = if cx.version >= FIRST_SESSION_VERSION {
        SessionRequest {
            session_id: request.session_id,
            epoch: request.session_epoch,
            uses_topic_ids: by_id,
        }
    } else {
        SessionRequest {
            session_id: NO_SESSION,
            epoch: coordinator::fetch_session::FINAL_EPOCH,
            uses_topic_ids: false,
        }
    };
    let now = cx.node.host.clock.monotonic();
    let owner = Arc::from(cx.session.scope.as_str());
    cx.node
        .fetching
        .sessions(|sessions| sessions.begin(now, &owner, session, requested, &forgotten))
}

/// A name is copied: a session must not keep the frame that it came in.
fn topic_key(by_id: bool, name: &TopicName, id: Uuid) -> TopicKey {
    if by_id {
        TopicKey::Id(id)
    } else {
        TopicKey::Name(Arc::from(name.as_str()))
    }
}

async fn poll(cx: &Context, patience: Patience, planned: &[Planned]) -> Polled {
    let node = &cx.node;
    let reader = Reader {
        client: &node.queen,
        credential: &cx.session.credential,
        clock: &*node.host.clock,
        shutdown: &node.shutdown,
        metrics: &node.fetching.metrics,
        version: cx.version,
    };
    let existence = Existence {
        cx,
        fresh: OnceCell::new(),
    };
    reader.poll(planned, patience, &existence).await
}

/// Asks for a fresh list of topics, at most once per request.
struct Existence<'c> {
    cx: &'c Context,
    fresh: OnceCell<Option<View>>,
}

impl crate::fetch::poll::Existence for Existence<'_> {
    fn is_missing<'a>(&'a self, planned: &'a Planned) -> BoxFuture<'a, bool> {
        async move {
            let session = &self.cx.session;
            let catalogue = &self.cx.node.catalogue;
            let list = async || {
                let view = catalogue
                    .fresh_view(&session.scope, &session.credential)
                    .await;
                view.ok()
            };
            let known = planned.topic.as_ref().map(|topic| topic.id);
            // When nobody can tell: the topic was there a moment ago.
            let view = self.fresh.get_or_init(list).await.as_ref();
            view.is_some_and(|view| match view.lookup(&planned.queue) {
                Lookup::Found(topic) => Some(topic.id) != known,
                Lookup::Later => false,
                _ => true,
            })
        }
        .boxed()
    }
}

/// No news of any partition, and a wait: there is no memory to read them.
fn crowded(cx: &Context, context: &FetchContext<TopicKey>) -> FetchResponse {
    let unread = |listed: &ContextPartition<TopicKey>| {
        PartitionData::default()
            .with_partition_index(listed.partition.partition)
            .with_high_watermark(-1)
            .with_last_stable_offset(-1)
            .with_log_start_offset(-1)
            .with_records(Some(Bytes::new()))
    };
    let assembled = Assembled {
        partitions: context.partitions.iter().map(unread).collect(),
        outcomes: vec![PartitionOutcome::Unread; context.partitions.len()],
        ..Assembled::default()
    };
    finish(cx, context, assembled, CROWDED_WAIT)
}

fn finish(
    cx: &Context,
    context: &FetchContext<TopicKey>,
    assembled: Assembled,
    throttle: Duration,
) -> FetchResponse {
    let node = &cx.node;
    let fetching = &node.fetching;
    let now = node.host.clock.monotonic();
    let Assembled {
        partitions,
        outcomes,
        surplus,
        records,
        bytes,
    } = assembled;
    let finished = fetching.sessions(|sessions| {
        sessions.finish(now, context, &outcomes, || node.host.entropy.next_u64())
    });
    let finished = match finished {
        Ok(finished) => finished,
        Err(error) => return refused(error),
    };
    fetching.metrics.records.add(records);
    fetching.metrics.bytes.add(bytes as u64);
    let reader = (&cx.session.scope, &cx.session.credential);
    fetching.surplus.keep(now, reader, surplus);
    let mut responses: Vec<FetchableTopicResponse> = Vec::new();
    let mut names: IndexMap<TopicKey, TopicName> = IndexMap::new();
    let mut last: Option<&TopicKey> = None;
    let included = context
        .partitions
        .iter()
        .zip(partitions)
        .zip(&finished.include);
    for ((listed, partition), include) in included {
        if !include {
            continue;
        }
        let key = &listed.partition.topic;
        match responses.last_mut() {
            // As Kafka: the order is that of reading, and neighbours share their topic.
            Some(topic) if last == Some(key) => topic.partitions.push(partition),
            _ => responses.push(topic_response(key, partition, &mut names)),
        }
        last = Some(key);
    }
    FetchResponse::default()
        .with_throttle_time_ms(upstream_errors::throttle_ms(throttle))
        .with_session_id(finished.session_id)
        .with_responses(responses)
}

fn topic_response(
    key: &TopicKey,
    partition: PartitionData,
    names: &mut IndexMap<TopicKey, TopicName>,
) -> FetchableTopicResponse {
    let response = FetchableTopicResponse::default().with_partitions(vec![partition]);
    match key {
        TopicKey::Id(id) => response.with_topic_id(*id),
        TopicKey::Name(name) => {
            let named = names
                .entry(key.clone())
                .or_insert_with(|| TopicName(StrBytes::from_string(name.to_string())));
            response.with_topic(named.clone())
        }
    }
}

fn refused(error: SessionError) -> FetchResponse {
    let code = match error {
        SessionError::IdNotFound => ErrorCode::FetchSessionIdNotFound,
        SessionError::InvalidEpoch => ErrorCode::InvalidFetchSessionEpoch,
        SessionError::TopicId => ErrorCode::FetchSessionTopicIdError,
    };
    FetchResponse::default().with_error_code(code.code())
}
