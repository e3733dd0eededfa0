//! Produce requests, and what their answers say. No state.

use bytes::{Bytes, BytesMut};
use indexmap::IndexMap;
use kafka_protocol::messages::produce_request::{PartitionProduceData, TopicProduceData};
use kafka_protocol::messages::{ProduceRequest, ProduceResponse, TransactionalId};
use kafka_wire::ErrorCode;
use kafka_wire::records::{
    BatchBuilder, BatchOptions, BuildError, Compressor, Headers, ProducerFields, Record,
};

use super::core::{Outgoing, Transmit, Transmitted};
use crate::client::cluster::TopicId;
use crate::client::profile::ProducerRules;
use crate::client::{CallError, error_code, millis, text, topic_name};
use crate::history::{Name, TopicPartition, Written};

/// The first version that names topics by their ids.
const BY_ID: i16 = 13;

/// The highest version in which topics with these ids can be named.
pub(in crate::client) fn ceiling(ids: impl IntoIterator<Item = TopicId>) -> i16 {
    if ids.into_iter().any(|id| id.is_nil()) {
        BY_ID - 1
    } else {
        i16::MAX
    }
}

/// The request that `transmit` is, of the transactional id if there is one.
pub(in crate::client) fn request(
    rules: &ProducerRules,
    transactional: Option<&Name>,
    transmit: &Transmit,
    id: impl Fn(&Name) -> TopicId,
) -> Result<ProduceRequest, CallError> {
    let mut topics: IndexMap<Name, Vec<PartitionProduceData>> = IndexMap::new();
    for sent in &transmit.batches {
        let records = encode(sent, transactional.is_some()).map_err(|error| {
            CallError::malformed(format!("a batch that can't be encoded: {error}"))
        })?;
        let data = PartitionProduceData::default()
            .with_index(sent.to.partition)
            .with_records(Some(records));
        topics.entry(sent.to.topic.clone()).or_default().push(data);
    }
    let topics = topics.into_iter().map(|(topic, partitions)| {
        TopicProduceData::default()
            .with_name(topic_name(&topic))
            .with_topic_id(id(&topic))
            .with_partition_data(partitions)
    });
    Ok(ProduceRequest::default()
        .with_transactional_id(transactional.map(|id| TransactionalId(text(id))))
        .with_acks(rules.acks)
        .with_timeout_ms(millis(rules.ack_timeout))
        .with_topic_data(topics.collect()))
}

fn encode(sent: &Transmitted, transactional: bool) -> Result<Bytes, BuildError> {
    let producer = match sent.sequence {
        Some((identity, base_sequence)) => ProducerFields {
            id: identity.id,
            epoch: identity.epoch,
            base_sequence,
        },
        None => ProducerFields::default(),
    };
    let options = BatchOptions {
        producer,
        transactional,
        ..BatchOptions::default()
    };
    let (mut out, mut compressor) = (BytesMut::new(), Compressor::new());
    let mut builder = BatchBuilder::new(&mut out, &mut compressor, options);
    for (offset, record) in (0..).zip(sent.records.iter()) {
        builder.append(&Record {
            offset,
            timestamp: record.timestamp,
            key: record.key.as_deref(),
            value: Some(&record.value),
            headers: Headers::new(&[]),
        })?;
    }
    builder.finish()?;
    Ok(out.freeze())
}

/// What the answer says of one partition.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(in crate::client) struct Told {
    pub to: TopicPartition,
    pub code: ErrorCode,
    pub base_offset: Option<i64>,
}

/// What an answer says of every partition in it. `topic` knows topics by their ids.
pub(in crate::client) fn told(
    response: &ProduceResponse,
    topic: impl Fn(TopicId) -> Option<Name>,
) -> Result<Vec<Told>, CallError> {
    let mut all = Vec::new();
    for answered in &response.responses {
        let name = if answered.topic_id.is_nil() {
            Name::from(answered.name.0.as_str())
        } else {
            topic(answered.topic_id).ok_or_else(|| {
                CallError::malformed(format!("Produce answers for topic {}", answered.topic_id))
            })?
        };
        for partition in &answered.partition_responses {
            let code = error_code(partition.error_code)?;
            let stored = code == ErrorCode::None && partition.base_offset >= 0;
            all.push(Told {
                to: TopicPartition::new(name.clone(), partition.index),
                code,
                base_offset: stored.then_some(partition.base_offset),
            });
        }
    }
    Ok(all)
}

/// The record for the history.
pub(in crate::client) fn written(record: &Outgoing) -> Option<Written> {
    let value = std::str::from_utf8(&record.value).ok()?.parse().ok()?;
    Some(Written {
        value,
        digest: Some(digest(
            record.key.as_deref(),
            &record.value,
            record.timestamp,
        )),
    })
}

/// A checksum of all that these clients put into a record.
pub(crate) fn digest(key: Option<&[u8]>, value: &[u8], timestamp: i64) -> u32 {
    let mut sum = crc32c::crc32c(&timestamp.to_be_bytes());
    sum = crc32c::crc32c_append(sum, value);
    // A missing key and an empty one differ.
    match key {
        Some(key) => crc32c::crc32c_append(crc32c::crc32c_append(sum, b"k"), key),
        None => sum,
    }
}
