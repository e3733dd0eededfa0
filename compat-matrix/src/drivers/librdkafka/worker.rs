//! The thread of a session: takes operations one by one, owns the clients.

use std::sync::mpsc;
use std::time::Duration;

use rdkafka::admin::AdminClient;
use rdkafka::config::{ClientConfig, RDKafkaLogLevel};
use rdkafka::consumer::BaseConsumer;
use rdkafka::error::KafkaError;
use rdkafka::producer::BaseProducer;
use rdkafka::{Offset, TopicPartitionList};
use serde::Serialize;
use serde_json::Value;
use tokio::runtime::Handle;

use super::Job;
use super::context::Callbacks;
use super::{admin, consumer, producer, settings, transactions};
use crate::drivers::protocol::{Begin, Op, Place, Settings};
use crate::drivers::{Refusal, Words};

/// How long one blocking call of librdkafka may take.
pub(super) const CALL: Duration = Duration::from_secs(15);

/// One session's clients.
pub(super) struct Worker {
    begin: Begin,
    /// Where the futures of admin calls are driven.
    runtime: Handle,
    callbacks: Callbacks,
    producer: Option<BaseProducer<Callbacks>>,
    consumer: Option<BaseConsumer<Callbacks>>,
    admin: Option<AdminClient<Callbacks>>,
}

impl Worker {
    pub(super) fn new(begin: Begin, runtime: Handle, words: Words) -> Self {
        Self {
            begin,
            runtime,
            callbacks: Callbacks::new(words),
            producer: None,
            consumer: None,
            admin: None,
        }
    }

    /// Serves until the session is dropped.
    pub(super) fn serve(mut self, jobs: &mpsc::Receiver<Job>) {
        while let Ok((op, answer)) = jobs.recv() {
            // A check that ran out of time does not hear it.
            let _ = answer.send(self.perform(op));
        }
    }

    fn perform(&mut self, op: Op) -> Result<Value, Refusal> {
        match op {
            Op::OpenProducer { settings } => {
                self.producer = Some(self.client(&settings)?);
                nothing()
            }
            Op::Produce {
                records,
                timeout_ms,
            } => {
                let producer = open(self.producer.as_ref(), "producer")?;
                json(&producer::send(producer, records, ms(timeout_ms))?)
            }
            Op::ProduceNumbers {
                topic,
                partition,
                first,
                count,
                value_bytes,
                timeout_ms,
            } => {
                let producer = open(self.producer.as_ref(), "producer")?;
                let numbers = producer::Numbers {
                    topic,
                    partition,
                    first,
                    count,
                    value_bytes,
                };
                json(&producer::send(
                    producer,
                    numbers.records(),
                    ms(timeout_ms),
                )?)
            }
            Op::OpenConsumer { settings } => {
                self.consumer = Some(self.client(&settings)?);
                nothing()
            }
            Op::CloseProducer => {
                self.producer = None;
                nothing()
            }
            Op::InitTransactions
            | Op::BeginTransaction
            | Op::SendOffsets { .. }
            | Op::CommitTransaction
            | Op::AbortTransaction => {
                let producer = open(self.producer.as_ref(), "producer")?;
                transactions::perform(producer, self.consumer.as_ref(), &op)
            }
            Op::CloseConsumer => {
                self.consumer = None;
                nothing()
            }
            Op::Metadata { topic } => {
                json(&admin::metadata(self.admin()?.inner(), topic.as_deref())?)
            }
            Op::Groups { group } => json(&admin::groups(self.admin()?.inner(), group.as_deref())?),
            Op::CreateTopics { .. }
            | Op::DeleteTopics { .. }
            | Op::CreatePartitions { .. }
            | Op::DeleteRecords { .. }
            | Op::DescribeTopicConfig { .. }
            | Op::AlterTopicConfig { .. }
            | Op::DeleteGroups { .. } => {
                let runtime = self.runtime.clone();
                admin::perform(&runtime, self.admin()?, op)
            }
            Op::Subscribe { .. }
            | Op::Assign { .. }
            | Op::Poll { .. }
            | Op::Commit { .. }
            | Op::Committed { .. }
            | Op::Position
            | Op::Assignment
            | Op::Pause { .. }
            | Op::Resume { .. }
            | Op::Seek { .. }
            | Op::OffsetsForTimes { .. }
            | Op::Watermarks { .. }
            | Op::Unsubscribe => {
                let consumer = open(self.consumer.as_ref(), "consumer")?;
                consumer::perform(consumer, op)
            }
            Op::ListOffsets { .. }
            | Op::ChangeTopicConfig { .. }
            | Op::GroupOffsets { .. }
            | Op::AlterGroupOffsets { .. }
            | Op::DeleteGroupOffsets { .. }
            | Op::DescribeCluster
            | Op::DescribeLogDirs { .. }
            | Op::StartWordCount { .. }
            | Op::StopWordCount
            | Op::TransactionIdentity
            | Op::ResumeTransaction { .. }
            | Op::StartFileCopy { .. }
            | Op::StopFileCopy
            | Op::StartListener { .. }
            | Op::StopListener
            | Op::OpenQueen { .. }
            | Op::QueenPush { .. }
            | Op::QueenPop { .. }
            | Op::QueenMove { .. } => Err(Refusal::unable(op.name())),
        }
    }

    /// A client of this session with `settings` over what every client here gets.
    fn client<T: rdkafka::config::FromClientConfigAndContext<Callbacks>>(
        &self,
        settings: &Settings,
    ) -> Result<T, Refusal> {
        let mut config = ClientConfig::new();
        config
            .set("bootstrap.servers", &self.begin.bootstrap)
            .set("client.id", &self.begin.client_id)
            .set_log_level(RDKafkaLogLevel::Warning);
        settings::secure(&self.begin, &mut config);
        settings::apply(settings, &mut config);
        config
            .create_with_context(self.callbacks.clone())
            .map_err(refusal)
    }

    fn admin(&mut self) -> Result<&AdminClient<Callbacks>, Refusal> {
        if self.admin.is_none() {
            self.admin = Some(self.client(&Settings::default())?);
        }
        open(self.admin.as_ref(), "admin client")
    }
}

fn open<'a, T>(client: Option<&'a T>, what: &str) -> Result<&'a T, Refusal> {
    client.ok_or_else(|| local(format!("this session has no {what} open")))
}

/// A refusal of the driver itself.
pub(super) fn local(message: impl Into<String>) -> Refusal {
    Refusal::failed(message)
}

/// librdkafka's error, with Kafka's name of the code where the broker gave one.
pub(super) fn refusal(error: KafkaError) -> Refusal {
    Refusal {
        code: error.rdkafka_error_code().and_then(code_name),
        ..Refusal::failed(error.to_string())
    }
}

/// Kafka's name of a code; `None` for librdkafka's own, which are negative.
pub(super) fn code_name(code: rdkafka::types::RDKafkaErrorCode) -> Option<String> {
    let code = i16::try_from(code as i32).ok()?;
    kafka_wire::ErrorCode::from_code(code)
        .filter(|code| code.is_error() && code.code() > 0)
        .map(|code| code.name().to_owned())
}

pub(super) fn json<T: Serialize>(value: &T) -> Result<Value, Refusal> {
    serde_json::to_value(value).map_err(|error| local(error.to_string()))
}

pub(super) fn nothing() -> Result<Value, Refusal> {
    Ok(Value::Object(serde_json::Map::new()))
}

pub(super) const fn ms(ms: u64) -> Duration {
    Duration::from_millis(ms)
}

/// A list of librdkafka as sorted places. An unset offset is −1.
pub(super) fn places(list: &TopicPartitionList) -> Vec<Place> {
    let mut places: Vec<Place> = list
        .elements()
        .iter()
        .map(|element| Place {
            topic: element.topic().to_owned(),
            partition: element.partition(),
            offset: match element.offset() {
                Offset::Invalid => -1,
                offset => offset.to_raw().unwrap_or(i64::MIN),
            },
            metadata: element.metadata().to_owned(),
        })
        .collect();
    places.sort();
    places
}

/// Places as a list of librdkafka, with `offset` read by `to_offset`.
pub(super) fn list(
    places: &[Place],
    to_offset: impl Fn(i64) -> Offset,
) -> Result<TopicPartitionList, Refusal> {
    let mut list = TopicPartitionList::with_capacity(places.len());
    for place in places {
        let mut element = list.add_partition(&place.topic, place.partition);
        element
            .set_offset(to_offset(place.offset))
            .map_err(refusal)?;
        if !place.metadata.is_empty() {
            element.set_metadata(&place.metadata);
        }
    }
    Ok(list)
}
