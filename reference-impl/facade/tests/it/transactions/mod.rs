//! Transactions over a faithful Queen, in both stages.

mod ends;
mod faults;
mod nodes;
mod offsets;
mod rules;
mod stored;

use std::time::Duration;

use bytes::{Bytes, BytesMut};
use facade::config::{Config, TransactionStage};
use facade::context::{Answer, Reply};
use facade::handlers;
use facade::queen::{Credential, FetchEntry};
use fake_queen::Options;
use kafka_protocol::messages as typed;
use kafka_protocol::messages::produce_request::{PartitionProduceData, TopicProduceData};
use kafka_protocol::protocol::StrBytes;
use kafka_wire::ErrorCode;
use kafka_wire::records::{
    BatchBuilder, BatchOptions, Compressor, Headers, ProducerFields, Record,
};
use serde_json::json;

use crate::rig::{Rig, encodable};

const MEMORY: TransactionStage = TransactionStage::Memory;
const QUEEN: TransactionStage = TransactionStage::Queen;

fn staged(stage: TransactionStage) -> impl Fn(&mut Config) + Copy {
    move |config| config.transactions.stage = stage
}

/// A facade with topic `t`.
async fn rig(stage: TransactionStage) -> Rig {
    rig_with(stage, |_| {}).await
}

async fn rig_with(stage: TransactionStage, change: impl FnOnce(&mut Config)) -> Rig {
    let rig = Rig::start_with(Options::default(), |config| {
        staged(stage)(config);
        change(config);
    })
    .await;
    rig.native_queue("t", json!({})).await;
    rig
}

fn text(text: &str) -> StrBytes {
    StrBytes::from_string(text.to_owned())
}

fn topic(name: &str) -> typed::TopicName {
    typed::TopicName(text(name))
}

fn code(code: i16) -> ErrorCode {
    ErrorCode::from_code(code).expect("a known code")
}

/// A transactional producer's side of the wire. Each call is one request.
#[derive(Clone, Debug)]
struct Producer {
    id: String,
    pid: i64,
    epoch: i16,
    /// The next sequence of each partition.
    sequences: std::collections::BTreeMap<i32, i32>,
    /// Versions of transactions 2.
    v2: bool,
}

impl Producer {
    async fn new(rig: &Rig, id: &str) -> Self {
        let mut producer = Self {
            id: id.to_owned(),
            pid: -1,
            epoch: -1,
            sequences: Default::default(),
            v2: false,
        };
        assert_eq!(producer.init(rig).await, ErrorCode::None);
        producer
    }

    fn transactional_id(&self) -> typed::TransactionalId {
        typed::TransactionalId(text(&self.id))
    }

    /// InitProducerId of a new instance.
    async fn init(&mut self, rig: &Rig) -> ErrorCode {
        (self.pid, self.epoch) = (-1, -1);
        self.bump(rig).await
    }

    /// InitProducerId with what it has.
    async fn bump(&mut self, rig: &Rig) -> ErrorCode {
        let request = typed::InitProducerIdRequest::default()
            .with_transactional_id(Some(self.transactional_id()))
            .with_transaction_timeout_ms(60_000)
            .with_producer_id(typed::ProducerId(self.pid))
            .with_producer_epoch(self.epoch);
        let response = handlers::init_producer_id::handle(&rig.cx(5), request).await;
        let response = encodable(response, 5);
        if response.error_code == 0 {
            (self.pid, self.epoch) = (response.producer_id.0, response.producer_epoch);
            self.sequences.clear();
        }
        code(response.error_code)
    }

    /// AddPartitionsToTxn.
    async fn add(&self, rig: &Rig, partitions: &[i32]) -> Vec<ErrorCode> {
        let added = typed::add_partitions_to_txn_request::AddPartitionsToTxnTopic::default()
            .with_name(topic("t"))
            .with_partitions(partitions.to_vec());
        let request = typed::AddPartitionsToTxnRequest::default()
            .with_v3_and_below_transactional_id(self.transactional_id())
            .with_v3_and_below_producer_id(typed::ProducerId(self.pid))
            .with_v3_and_below_producer_epoch(self.epoch)
            .with_v3_and_below_topics(vec![added]);
        let response = handlers::add_partitions_to_txn::handle(&rig.cx(3), request).await;
        let response = encodable(response, 3);
        let topics = response.results_by_topic_v3_and_below.iter();
        topics
            .flat_map(|topic| &topic.results_by_partition)
            .map(|partition| code(partition.partition_error_code))
            .collect()
    }

    /// A batch with the next sequence.
    fn batch(&self, partition: i32, values: &[&str]) -> Bytes {
        let producer = ProducerFields {
            id: self.pid,
            epoch: self.epoch,
            base_sequence: self.sequences.get(&partition).copied().unwrap_or(0),
        };
        let options = BatchOptions {
            producer,
            transactional: true,
            ..BatchOptions::default()
        };
        let (mut out, mut compressor) = (BytesMut::new(), Compressor::new());
        let mut builder = BatchBuilder::new(&mut out, &mut compressor, options);
        for (offset, value) in (0..).zip(values) {
            let record = Record {
                offset,
                timestamp: 1_790_000_000_000,
                key: None,
                value: Some(value.as_bytes()),
                headers: Headers::new(&[]),
            };
            builder.append(&record).expect("a record that fits");
        }
        builder.finish().expect("a batch");
        out.freeze()
    }

    /// Produce; the code, and the offset when it is 0. The sequence moves on when it's stored.
    async fn send(&mut self, rig: &Rig, partition: i32, values: &[&str]) -> (ErrorCode, i64) {
        let sent = self
            .resend(rig, partition, self.batch(partition, values))
            .await;
        if sent.0 == ErrorCode::None {
            *self.sequences.entry(partition).or_default() += values.len() as i32;
        }
        sent
    }

    async fn resend(&self, rig: &Rig, partition: i32, batch: Bytes) -> (ErrorCode, i64) {
        let version = if self.v2 { 12 } else { 11 };
        let partition = PartitionProduceData::default()
            .with_index(partition)
            .with_records(Some(batch));
        let data = TopicProduceData::default()
            .with_name(topic("t"))
            .with_partition_data(vec![partition]);
        let request = typed::ProduceRequest::default()
            .with_transactional_id(Some(self.transactional_id()))
            .with_acks(-1)
            .with_timeout_ms(5_000)
            .with_topic_data(vec![data]);
        let response = match handlers::produce::handle(&rig.cx(version), request).await {
            Reply::Now(answer) => answer,
            Reply::Later(answer) => answer.await,
        };
        let Answer::Send(response) = response else {
            panic!("no answer");
        };
        let response = encodable(response, version);
        let answer = &response.responses[0].partition_responses[0];
        (code(answer.error_code), answer.base_offset)
    }

    /// AddPartitionsToTxn and Produce, to be right.
    async fn produce(&mut self, rig: &Rig, partition: i32, values: &[&str]) {
        if !self.v2 {
            assert_eq!(self.add(rig, &[partition]).await, [ErrorCode::None]);
        }
        let sent = self.send(rig, partition, values).await;
        assert_eq!(sent, (ErrorCode::None, -1));
    }

    async fn add_offsets(&self, rig: &Rig, group: &str) -> ErrorCode {
        let request = typed::AddOffsetsToTxnRequest::default()
            .with_transactional_id(self.transactional_id())
            .with_producer_id(typed::ProducerId(self.pid))
            .with_producer_epoch(self.epoch)
            .with_group_id(typed::GroupId(text(group)));
        let response = handlers::add_offsets_to_txn::handle(&rig.cx(4), request).await;
        code(encodable(response, 4).error_code)
    }

    /// TxnOffsetCommit of `offset` for partitions `0..partitions`, as nobody's member.
    async fn offsets(
        &self,
        rig: &Rig,
        group: &str,
        partitions: i32,
        offset: i64,
    ) -> Vec<ErrorCode> {
        self.offsets_of(rig, group, partitions, offset, ("", -1))
            .await
    }

    async fn offsets_of(
        &self,
        rig: &Rig,
        group: &str,
        partitions: i32,
        offset: i64,
        (member, generation): (&str, i32),
    ) -> Vec<ErrorCode> {
        let version = if self.v2 { 5 } else { 4 };
        let partition = |index| {
            typed::txn_offset_commit_request::TxnOffsetCommitRequestPartition::default()
                .with_partition_index(index)
                .with_committed_offset(offset)
                .with_committed_metadata(Some(text("m")))
        };
        let of_topic = typed::txn_offset_commit_request::TxnOffsetCommitRequestTopic::default()
            .with_name(topic("t"))
            .with_partitions((0..partitions).map(partition).collect());
        let request = typed::TxnOffsetCommitRequest::default()
            .with_transactional_id(self.transactional_id())
            .with_group_id(typed::GroupId(text(group)))
            .with_producer_id(typed::ProducerId(self.pid))
            .with_producer_epoch(self.epoch)
            .with_generation_id(generation)
            .with_member_id(text(member))
            .with_topics(vec![of_topic]);
        let response = handlers::txn_offset_commit::handle(&rig.cx(version), request).await;
        let response = encodable(response, version);
        let partitions = response.topics.iter().flat_map(|topic| &topic.partitions);
        partitions
            .map(|partition| code(partition.error_code))
            .collect()
    }

    /// EndTxn. With transactions 2 the producer goes on with the raised epoch.
    async fn end(&mut self, rig: &Rig, committed: bool) -> ErrorCode {
        let version = if self.v2 { 5 } else { 4 };
        let request = typed::EndTxnRequest::default()
            .with_transactional_id(self.transactional_id())
            .with_producer_id(typed::ProducerId(self.pid))
            .with_producer_epoch(self.epoch)
            .with_committed(committed);
        let response = handlers::end_txn::handle(&rig.cx(version), request).await;
        let response = encodable(response, version);
        if response.error_code == 0 && self.v2 {
            (self.pid, self.epoch) = (response.producer_id.0, response.producer_epoch);
            self.sequences.clear();
        }
        code(response.error_code)
    }

    async fn commit(&mut self, rig: &Rig) -> ErrorCode {
        self.end(rig, true).await
    }

    async fn abort(&mut self, rig: &Rig) -> ErrorCode {
        self.end(rig, false).await
    }
}

/// The values in a lane, in order.
async fn values(rig: &Rig, partition: i32) -> Vec<String> {
    let entry = FetchEntry {
        queue: "t",
        partition,
        offset: 0,
        max_bytes: 8 << 20,
    };
    let fetched = rig
        .node
        .queen
        .fetch(&Credential::default(), &[entry], Duration::ZERO, 0)
        .await
        .expect("read");
    let lane = fetched.lane(0).expect("one");
    let value = |record: facade::queen::Record<'_>| {
        String::from_utf8(record.value().expect("a value").to_vec()).expect("text")
    };
    lane.records().map(value).collect()
}

/// The committed offsets of partitions `0..partitions`, or the group's code.
async fn committed(rig: &Rig, group: &str, partitions: i32) -> Result<Vec<i64>, ErrorCode> {
    let told = offsets_told(rig, group, partitions, false).await?;
    Ok(told.into_iter().map(|(offset, _)| offset).collect())
}

/// Each partition's offset and code.
async fn offsets_told(
    rig: &Rig,
    group: &str,
    partitions: i32,
    require_stable: bool,
) -> Result<Vec<(i64, ErrorCode)>, ErrorCode> {
    let asked = typed::offset_fetch_request::OffsetFetchRequestTopics::default()
        .with_name(topic("t"))
        .with_partition_indexes((0..partitions).collect());
    let of_group = typed::offset_fetch_request::OffsetFetchRequestGroup::default()
        .with_group_id(typed::GroupId(text(group)))
        .with_topics(Some(vec![asked]));
    let request = typed::OffsetFetchRequest::default()
        .with_require_stable(require_stable)
        .with_groups(vec![of_group]);
    let response = handlers::offset_fetch::handle(&rig.cx(8), request).await;
    let fetched = &response.groups[0];
    match code(fetched.error_code) {
        ErrorCode::None => Ok(fetched.topics[0]
            .partitions
            .iter()
            .map(|partition| (partition.committed_offset, code(partition.error_code)))
            .collect()),
        code => Err(code),
    }
}
