//! Produce (key 0): versions 3 to 13, and 0 to 2 only advertised (`windows`).
//!
//! - acks 0, 1 and −1; 1 and −1 are the same: stored durably. acks=0 gets no response, and a
//!   failure closes the connection, as Kafka does.
//! - A topic that doesn't exist is created, unless `QUEEN_KAFKA_AUTO_CREATE` says no.
//! - One record batch of magic 2 per partition; every codec; what it expands to is bounded.
//! - Sequence windows as Kafka's, and Queen recognises what was stored before them. What comes
//!   behind a batch that was refused before its window saw it is refused until that comes again.
//! - A timestamp farther ahead of this machine's clock than the topic takes refuses its batch:
//!   INVALID_TIMESTAMP, with the first hundred such records (KIP-937, KIP-467).
//! - A code other than 0 means that the batch isn't known to be stored. Retriable where a retry
//!   may help; the throttle says when.
//! - Transactional batches are staged and answered offset −1: they are in the log when EndTxn has
//!   committed them. Their partition must have been added, or is by the request (version 12).
//!   INVALID_PRODUCER_EPOCH fences; MESSAGE_TOO_LARGE beyond what a transaction may hold.
//! - log_append_time_ms and log_start_offset are −1: the push route names neither.
//!
//! v3: record batches. v5: log_start_offset. v7: zstd. v8: record errors and error_message.
//! v9: flexible. v10: leader hints (never needed: every node serves every partition).
//! v11, v12: transactions 2. v13: topic ids.

use std::sync::Arc;
use std::time::Duration;

use futures::future::BoxFuture;
use kafka_protocol::messages::produce_request::TopicProduceData;
use kafka_protocol::messages::produce_response::{
    BatchIndexAndErrorMessage, PartitionProduceResponse, TopicProduceResponse,
};
use kafka_protocol::messages::{ProduceRequest, ProduceResponse};
use kafka_protocol::protocol::StrBytes;
use kafka_wire::ErrorCode;
use kafka_wire::records::{BatchHeader, NO_TIMESTAMP};
use tokio::sync::oneshot;

use crate::catalogue::{Dedup, Lookup, View};
use crate::context::{Answer, Context, Reply};
use crate::handlers::group_topics::offsets_tenant;
use crate::produce::admit::{Admission, Admitted, Request, Topic};
use crate::produce::{Batches, Failure, Outcome, RecordFault, Tolerance};
use crate::transactions::Staging;
use crate::upstream_errors::{self, Api};

/// The first version that names topics by id.
const FIRST_TOPIC_ID_VERSION: i16 = 13;
/// The first version whose transactional batches add their partitions (KIP-890).
const TRANSACTIONS_2: i16 = 12;
/// A dedup window that covers every repetition of a push within one request.
const MIN_DEDUP_SECONDS: u64 = 60;

/// Admits a Produce request; the reply comes when its records are stored.
pub async fn handle(cx: &Context, mut request: ProduceRequest) -> Reply<ProduceResponse> {
    let acks = request.acks;
    let refusal = refusal(&request);
    let mut response = Pending {
        topics: Vec::with_capacity(request.topic_data.len()),
        throttle: Duration::ZERO,
    };
    match refusal {
        Some(failure) => {
            for topic in &request.topic_data {
                response.refuse(topic, &failure);
            }
        }
        None => {
            let overtaken = &cx.session.overtaken;
            let batches = Batches::of(&request);
            let withheld = overtaken.withhold(&mut request);
            admit(cx, request, &mut response).await;
            overtaken.remember(&batches, response.refused());
            for (topic, code) in withheld {
                response.refuse(&topic, &Failure::new(code));
            }
        }
    }
    if acks == 0 {
        return silent(response);
    }
    if response.is_settled() {
        return Reply::now(response.finish_now());
    }
    Reply::later(async move { Answer::Send(response.finish().await) })
}

/// What's wrong with the request as a whole.
fn refusal(request: &ProduceRequest) -> Option<Failure> {
    if !matches!(request.acks, -1..=1) {
        return Some(Failure::new(ErrorCode::InvalidRequiredAcks));
    }
    None
}

/// Where the transactional batches of a request go; `None` without a transactional id.
async fn staging(cx: &Context, request: &ProduceRequest) -> Option<Result<Staging, Failure>> {
    // brod encodes "none" as the empty string.
    let id = request
        .transactional_id
        .as_ref()
        .filter(|id| !id.is_empty())?;
    let (tenant, implicit) = (offsets_tenant(cx), cx.version >= TRANSACTIONS_2);
    let transactions = &cx.node.transactions;
    Some(match transactions.staging(&tenant, id, implicit).await {
        Ok(staging) => {
            staging.prepare(&tenant).await;
            Ok(staging)
        }
        Err(failure) => Err(Failure::because(
            failure.produce_code(cx.version),
            failure.to_string(),
        )),
    })
}

fn is_transactional(records: &bytes::Bytes) -> bool {
    // Only a look: the batch is proved when it's staged.
    BatchHeader::parse(records).is_ok_and(|header| header.attributes.is_transactional())
}

async fn admit(cx: &Context, request: ProduceRequest, response: &mut Pending) {
    let node = &cx.node;
    let (view, lookups) = resolve(cx, &request).await;
    let staging = staging(cx, &request).await;
    if let Some(error) = &view.trouble {
        response.throttle = upstream_errors::throttle(error);
    }
    let mut admission = Admission::new(
        &node.produce,
        node.produce.gatherer(&cx.session.credential),
        Request {
            scope: cx.session.scope.clone(),
            version: cx.version,
            received: cx.received,
            received_at: node.host.clock.wall(),
            timeout: Duration::from_millis(u64::try_from(request.timeout_ms).unwrap_or(0)),
        },
        Arc::clone(&node.host.entropy),
        node.host.blocking,
    );
    for (data, lookup) in request.topic_data.into_iter().zip(lookups) {
        let found = match lookup {
            Lookup::Found(found) => found,
            other => {
                response.refuse(&data, &unserved(&other, cx.version));
                continue;
            }
        };
        let topic = topic(cx, &found, &data).await;
        let mut partitions = Vec::with_capacity(data.partition_data.len());
        for partition in data.partition_data {
            let index = partition.index;
            let admitted = match (&staging, partition.records) {
                _ if !found.has_partition(index) => {
                    Admitted::Refused(Failure::new(ErrorCode::UnknownTopicOrPartition))
                }
                (Some(staging), Some(records)) if is_transactional(&records) => match staging {
                    Ok(staging) => admission.stage(&topic, index, records, staging).await,
                    Err(failure) => Admitted::Refused(failure.clone()),
                },
                (_, records) => admission.partition(&topic, index, records).await,
            };
            partitions.push((partition.index, admitted));
        }
        response.topics.push(PendingTopic {
            name: data.name,
            topic_id: data.topic_id,
            partitions,
        });
    }
    admission.finish();
}

async fn resolve(cx: &Context, request: &ProduceRequest) -> (View, Vec<Lookup>) {
    let (scope, credential) = (&cx.session.scope, &cx.session.credential);
    let catalogue = &cx.node.catalogue;
    if cx.version >= FIRST_TOPIC_ID_VERSION {
        let mut view = catalogue.view(scope, credential).await;
        let known = |view: &View| -> Vec<Lookup> {
            let ids = request.topic_data.iter().map(|topic| topic.topic_id);
            ids.map(|id| view.lookup_id(id)).collect()
        };
        let mut lookups = known(&view);
        // A client may know a topic that another node has just created.
        if lookups
            .iter()
            .any(|lookup| matches!(lookup, Lookup::Absent))
            && let Ok(fresh) = catalogue.fresh_view(scope, credential).await
        {
            view = fresh;
            lookups = known(&view);
        }
        return (view, lookups);
    }
    let names: Vec<&str> = request
        .topic_data
        .iter()
        .map(|topic| topic.name.as_str())
        .collect();
    let create = cx.node.config.auto_create;
    catalogue.resolve(scope, credential, &names, create).await
}

/// The answer for a topic that can't be produced to.
fn unserved(lookup: &Lookup, version: i16) -> Failure {
    match lookup {
        Lookup::Illegal(why) => Failure::because(ErrorCode::InvalidTopicException, *why),
        Lookup::Failed(error) => {
            let answer = upstream_errors::answer(Api::Metadata, version, error);
            Failure::because(answer.code, answer.message)
        }
        Lookup::Later => Failure::new(ErrorCode::LeaderNotAvailable),
        Lookup::Absent | Lookup::Found(_) if version >= FIRST_TOPIC_ID_VERSION => {
            Failure::new(ErrorCode::UnknownTopicId)
        }
        Lookup::Absent | Lookup::Found(_) => Failure::new(ErrorCode::UnknownTopicOrPartition),
    }
}

async fn topic(cx: &Context, found: &crate::catalogue::Topic, data: &TopicProduceData) -> Topic {
    let mut deduplicates = found
        .tracked()
        .and_then(|record| record.dedup_window_seconds())
        .is_some_and(|window| window >= MIN_DEDUP_SECONDS);
    // Only a look: the batch is proved when it's admitted.
    let mut records = data
        .partition_data
        .iter()
        .filter_map(|data| data.records.as_ref());
    if records.any(|records| BatchHeader::parse(records).is_ok_and(|h| h.has_producer_id())) {
        let (scope, credential) = (&cx.session.scope, &cx.session.credential);
        let dedup = cx
            .node
            .catalogue
            .ensure_dedup(scope, credential, found)
            .await;
        deduplicates |= dedup == Dedup::Covered;
    }
    let settings = &found.settings;
    Topic {
        name: Arc::clone(&found.name),
        id: found.id,
        deduplicates,
        max_message_bytes: found.max_message_bytes,
        timestamps: Tolerance {
            before_ms: settings.timestamp_before_max_ms().unwrap_or(i64::MAX),
            after_ms: settings
                .timestamp_after_max_ms()
                .unwrap_or(cx.node.config.timestamp_after_max_ms),
        },
    }
}

/// A response in the making.
struct Pending {
    topics: Vec<PendingTopic>,
    throttle: Duration,
}

struct PendingTopic {
    name: kafka_protocol::messages::TopicName,
    topic_id: uuid::Uuid,
    partitions: Vec<(i32, Admitted)>,
}

impl Pending {
    fn refuse(&mut self, topic: &TopicProduceData, failure: &Failure) {
        let refused = |index| (index, Admitted::Refused(failure.clone()));
        let indexes = topic.partition_data.iter().map(|partition| partition.index);
        self.topics.push(PendingTopic {
            name: topic.name.clone(),
            topic_id: topic.topic_id,
            partitions: indexes.map(refused).collect(),
        });
    }

    /// The partitions refused so far: topic, partition, code.
    fn refused(&self) -> impl Iterator<Item = (&str, uuid::Uuid, i32, ErrorCode)> {
        self.topics.iter().flat_map(|topic| {
            let refused = topic.partitions.iter();
            refused.filter_map(|(index, admitted)| match admitted {
                Admitted::Refused(failure) => {
                    Some((topic.name.as_str(), topic.topic_id, *index, failure.code))
                }
                Admitted::Stored { .. } | Admitted::Pending(_) => None,
            })
        })
    }

    fn is_settled(&self) -> bool {
        let mut partitions = self.topics.iter().flat_map(|topic| &topic.partitions);
        !partitions.any(|(_, admitted)| matches!(admitted, Admitted::Pending(_)))
    }

    async fn finish(mut self) -> ProduceResponse {
        for topic in &mut self.topics {
            for (_, admitted) in &mut topic.partitions {
                if let Admitted::Pending(outcome) = admitted {
                    let outcome = settled(outcome).await;
                    self.throttle = self.throttle.max(outcome.throttle);
                    *admitted = match outcome.result {
                        Ok(base_offset) => Admitted::Stored { base_offset },
                        Err(failure) => Admitted::Refused(failure),
                    };
                }
            }
        }
        self.finish_now()
    }

    fn finish_now(self) -> ProduceResponse {
        let responses = self.topics.into_iter().map(|topic| {
            let partitions = topic.partitions.into_iter();
            TopicProduceResponse::default()
                .with_name(topic.name)
                .with_topic_id(topic.topic_id)
                .with_partition_responses(partitions.map(partition_response).collect())
        });
        ProduceResponse::default()
            .with_responses(responses.collect())
            .with_throttle_time_ms(upstream_errors::throttle_ms(self.throttle))
    }

    /// The first failure, once all is settled.
    async fn failed(self) -> bool {
        let response = self.finish().await;
        let mut partitions = response
            .responses
            .iter()
            .flat_map(|t| &t.partition_responses);
        partitions.any(|partition| partition.error_code != ErrorCode::None.code())
    }
}

async fn settled(outcome: &mut oneshot::Receiver<Outcome>) -> Outcome {
    // The sender is dropped only with the whole node.
    outcome
        .await
        .unwrap_or_else(|_| Outcome::failed(ErrorCode::RequestTimedOut))
}

/// acks=0: nothing is answered, and the end of the connection is the only way to say that records
/// were lost.
fn silent(response: Pending) -> Reply<ProduceResponse> {
    let answer: BoxFuture<'static, Answer<ProduceResponse>> = Box::pin(async move {
        if response.failed().await {
            Answer::Close("records of a Produce with acks=0 could not be stored")
        } else {
            Answer::Silence
        }
    });
    Reply::Later(answer)
}

fn record_error(fault: &RecordFault) -> BatchIndexAndErrorMessage {
    BatchIndexAndErrorMessage::default()
        .with_batch_index(fault.index)
        .with_batch_index_error_message(Some(StrBytes::from_string(fault.message.clone())))
}

fn partition_response((index, admitted): (i32, Admitted)) -> PartitionProduceResponse {
    let response = PartitionProduceResponse::default()
        .with_index(index)
        .with_base_offset(-1)
        .with_log_append_time_ms(NO_TIMESTAMP)
        .with_log_start_offset(-1);
    match admitted {
        Admitted::Stored { base_offset } => response.with_base_offset(base_offset),
        Admitted::Refused(failure) => response
            .with_error_code(failure.code.code())
            .with_error_message(
                failure
                    .message
                    .map(|message| StrBytes::from_string(message.to_string())),
            )
            .with_record_errors(failure.records.iter().map(record_error).collect()),
        Admitted::Pending(_) => response.with_error_code(ErrorCode::RequestTimedOut.code()),
    }
}
