//! DeleteRecords (key 21): versions 0 to 2.
//!
//! - Queen removes records by age only, so a floor below which nothing is served stands for the
//!   removal (`floors`); it goes with the queue.
//! - Offset −1 is the high watermark; beyond it, or negative, is OFFSET_OUT_OF_RANGE.
//! - Of a partition that is named twice the last offset counts, and it is answered once, as Kafka's.
//! - The low watermark answered is the new start of the log: an offset below it changes nothing.
//! - `QUEEN_KAFKA_ADMIN=false` refuses it, as every deletion.
//!
//! v2: flexible.

use futures::future::BoxFuture;
use futures::{FutureExt, StreamExt, stream};
use indexmap::IndexMap;
use kafka_protocol::messages::delete_records_response::{
    DeleteRecordsPartitionResult, DeleteRecordsTopicResult,
};
use kafka_protocol::messages::{DeleteRecordsRequest, DeleteRecordsResponse, TopicName};
use kafka_wire::ErrorCode;

use crate::context::Context;
use crate::fetch::bounds::{self, Asked, Bounds};
use crate::floors::RaiseError;
use crate::upstream_errors::{self, Api};

/// Rows written at the same time.
const WRITES_AT_ONCE: usize = 8;
/// "Everything there is", as an offset.
const HIGH_WATERMARK: i64 = -1;
/// The low watermark beside an error.
const UNKNOWN: i64 = -1;

/// Answers a DeleteRecords request.
pub async fn handle(cx: &Context, request: DeleteRecordsRequest) -> DeleteRecordsResponse {
    let (scope, credential) = (&cx.session.scope, &cx.session.credential);
    let view = cx.node.catalogue.view(scope, credential).await;
    let mut named: IndexMap<TopicName, IndexMap<i32, i64>> = IndexMap::new();
    for topic in request.topics {
        let offsets = topic.partitions.iter();
        let offsets = offsets.map(|partition| (partition.partition_index, partition.offset));
        named.entry(topic.name).or_default().extend(offsets);
    }
    let mut asked: Vec<(Result<Asked, ErrorCode>, i64)> = Vec::new();
    for (topic, offsets) in &named {
        for (&number, &offset) in offsets {
            let found = if cx.node.config.admin {
                bounds::find(&view, Api::DeleteRecords, cx.version, topic, number)
            } else {
                Err(ErrorCode::TopicAuthorizationFailed)
            };
            asked.push((found, offset));
        }
    }
    let known: Vec<Asked> = asked
        .iter()
        .filter_map(|(asked, _)| asked.clone().ok())
        .collect();
    let mut bounds = bounds::read(cx, Api::DeleteRecords, &known)
        .await
        .into_iter();
    let raises: Vec<BoxFuture<'_, Result<i64, ErrorCode>>> = asked
        .into_iter()
        .map(|(asked, offset)| {
            let judged = asked.and_then(|asked| {
                let bounds = bounds
                    .next()
                    .unwrap_or(Err(ErrorCode::UnknownServerError))?;
                Ok((asked, bounds))
            });
            async move {
                // There may be a hundred thousand of them, and none that waits.
                tokio::task::coop::consume_budget().await;
                let (asked, bounds) = judged?;
                delete(cx, &asked, bounds, offset).await
            }
            .boxed()
        })
        .collect();
    let mut results = stream::iter(raises).buffered(WRITES_AT_ONCE);
    let mut topics = Vec::with_capacity(named.len());
    for (topic, offsets) in named {
        let mut partitions = Vec::with_capacity(offsets.len());
        for partition in offsets.into_keys() {
            let result = results
                .next()
                .await
                .unwrap_or(Err(ErrorCode::UnknownServerError));
            let (low_watermark, code) = match result {
                Ok(low_watermark) => (low_watermark, ErrorCode::None),
                Err(code) => (UNKNOWN, code),
            };
            partitions.push(
                DeleteRecordsPartitionResult::default()
                    .with_partition_index(partition)
                    .with_low_watermark(low_watermark)
                    .with_error_code(code.code()),
            );
        }
        topics.push(
            DeleteRecordsTopicResult::default()
                .with_name(topic)
                .with_partitions(partitions),
        );
    }
    DeleteRecordsResponse::default().with_topics(topics)
}

async fn delete(
    cx: &Context,
    asked: &Asked,
    bounds: Bounds,
    offset: i64,
) -> Result<i64, ErrorCode> {
    let floor = match offset {
        HIGH_WATERMARK => bounds.high_watermark,
        offset if offset < 0 || offset > bounds.high_watermark => {
            return Err(ErrorCode::OffsetOutOfRange);
        }
        offset => offset,
    };
    if floor <= bounds.log_start {
        return Ok(bounds.log_start);
    }
    let session = &cx.session;
    let raised = cx
        .node
        .floors
        .raise(
            &session.scope,
            &session.credential,
            &asked.topic,
            asked.partition,
            floor,
        )
        .await;
    match raised {
        Ok(floor) => Ok(floor.max(bounds.log_start)),
        Err(RaiseError::Contended) => Err(ErrorCode::RequestTimedOut),
        Err(RaiseError::Queen(error)) => {
            Err(upstream_errors::answer(Api::DeleteRecords, cx.version, &error).code)
        }
    }
}
