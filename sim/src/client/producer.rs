//! A producer of one partition: batches in order, several in flight, sent again until they are
//! stored. Without idempotence it does the same and takes what comes of it.
//!
//! After a retriable answer it lets the answers behind it come, then sends what is not stored
//! again, in order. After a lost connection it does so on a new one. An idempotent batch keeps its
//! sequence for ever, so that a broker can tell a repetition from a new batch.

use std::collections::VecDeque;
use std::time::Duration;

use bytes::{Bytes, BytesMut};
use kafka_protocol::messages::produce_request::{PartitionProduceData, TopicProduceData};
use kafka_protocol::messages::{
    InitProducerIdRequest, ProduceRequest, ProduceResponse, ProducerId,
};
use kafka_wire::ErrorCode;
use kafka_wire::records::{
    BatchBuilder, BatchOptions, Compressor, Headers, ProducerFields, Record,
};
use tokio::time::{Instant, sleep, sleep_until};

use super::{CallError, Client, Connection, Ticket, refused, topic_name};
use crate::history::{
    self, Batch, Call, Event, Failure, Operation, Promise, Reply, TopicPartition, Value,
};
use crate::seed::Numbers;

/// What a producer is to write.
#[derive(Clone, Debug)]
pub struct Plan {
    /// Its number, the first part of every value.
    pub producer: u32,
    /// Where to.
    pub topic: String,
    /// Where to.
    pub partition: i32,
    /// Batches in all.
    pub batches: u64,
    /// Records of a batch.
    pub records: u32,
    /// Between two batches, on average.
    pub every: Duration,
    /// What may be demanded of what it writes.
    pub promises: &'static [Promise],
    /// Each batch must be answered so long after it was handed over, or after the heal.
    pub within: Duration,
}

/// A batch that is not known to be stored.
#[derive(Debug)]
struct Pending {
    batch: Batch,
    operation: Operation,
    /// Times it was sent.
    attempts: u32,
    sequence: i32,
    timestamp: i64,
    /// On the current connection.
    sent: bool,
}

#[derive(Debug)]
struct Awaited {
    ticket: Ticket<ProduceRequest>,
    batch: Batch,
}

/// Why work on one connection ended.
enum Ended {
    /// Try another one.
    Broken(CallError),
    /// The broker said that a batch can never be stored: a producer stops there.
    Fatal,
}

impl From<CallError> for Ended {
    fn from(error: CallError) -> Self {
        Self::Broken(error)
    }
}

/// The producer.
#[derive(Debug)]
pub struct Producer {
    client: Client,
    plan: Plan,
    pace: Numbers,
    identity: Option<(i64, i16)>,
    /// Batches made so far.
    made: u64,
    next_at: Instant,
    pending: VecDeque<Pending>,
}

impl Producer {
    /// A producer that follows `plan`, its pace drawn from `pace`.
    pub fn new(client: Client, plan: Plan, pace: Numbers) -> Self {
        Self {
            client,
            plan,
            pace,
            identity: None,
            made: 0,
            next_at: Instant::now(),
            pending: VecDeque::new(),
        }
    }

    /// Writes everything. Ends when all is stored, or when the broker refuses a batch for good.
    pub async fn run(mut self) {
        let client = Event::Client {
            profile: self.client.profile.name.into(),
            promises: self.plan.promises.to_vec(),
        };
        self.client.recorder.record(&self.client.id, client);
        loop {
            match self.work().await {
                Ok(()) | Err(Ended::Fatal) => return,
                Err(Ended::Broken(error)) => {
                    self.client.lament(&error);
                    for pending in &mut self.pending {
                        pending.sent = false;
                    }
                    sleep(self.client.profile.retry_backoff).await;
                }
            }
        }
    }

    async fn work(&mut self) -> Result<(), Ended> {
        let mut connection = self.client.leader(&self.plan.topic).await?;
        if self.client.profile.idempotent && self.identity.is_none() {
            let request = InitProducerIdRequest::default()
                .with_transaction_timeout_ms(60_000)
                .with_producer_id(ProducerId(-1))
                .with_producer_epoch(-1);
            let response = connection.call(&request).await?;
            refused(response.error_code)?;
            self.identity = Some((response.producer_id.0, response.producer_epoch));
        }
        let mut awaited: VecDeque<Awaited> = VecDeque::new();
        let mut again = false;
        loop {
            if again && awaited.is_empty() {
                sleep(self.client.profile.retry_backoff).await;
                for pending in &mut self.pending {
                    pending.sent = false;
                }
                again = false;
            }
            while !again && awaited.len() < self.client.profile.max_in_flight {
                let Some(at) = self.pending.iter().position(|pending| !pending.sent) else {
                    break;
                };
                let request = self.request(&self.pending[at])?;
                self.attempt(at);
                let batch = self.pending[at].batch.clone();
                let ticket = connection.send(&request).await?;
                self.client
                    .recorder
                    .note(self.client.id.as_str(), format_args!("  {batch}"));
                awaited.push_back(Awaited { ticket, batch });
            }
            let more = self.made < self.plan.batches;
            if !more && self.pending.is_empty() {
                return Ok(());
            }
            tokio::select! {
                biased;
                answer = receive(&mut connection, &awaited), if !awaited.is_empty() => {
                    let answer = answer?;
                    if let Some(Awaited { batch, .. }) = awaited.pop_front() {
                        again |= !self.judge(&batch, &answer)?;
                    }
                }
                () = sleep_until(self.next_at), if more => self.make(),
            }
        }
    }

    fn make(&mut self) {
        let records = self.plan.records;
        let number = self.made * u64::from(records);
        let first = Value {
            producer: self.plan.producer,
            number,
        };
        let to = TopicPartition::new(self.plan.topic.as_str(), self.plan.partition);
        let batch = Batch::of_values(to, first, records);
        let call = Call::Produce {
            batch: batch.clone(),
            acks: -1,
            transaction: None,
        };
        let within_ms = u64::try_from(self.plan.within.as_millis()).unwrap_or(u64::MAX);
        let (who, recorder) = (&self.client.id, &self.client.recorder);
        let operation = recorder.begin(who, call, Some(within_ms));
        self.pending.push_back(Pending {
            batch,
            operation,
            attempts: 0,
            // A run writes far fewer records than a sequence can count.
            sequence: i32::try_from(number).unwrap_or(i32::MAX),
            timestamp: self.client.host.clock.wall().epoch_ms(),
            sent: false,
        });
        self.made += 1;
        let every_ms = u64::try_from(self.plan.every.as_millis()).unwrap_or(u64::MAX);
        self.next_at += Duration::from_millis(1 + self.pace.below(2 * every_ms));
    }

    /// Notes that a batch goes out.
    fn attempt(&mut self, at: usize) {
        let pending = &mut self.pending[at];
        pending.sent = true;
        pending.attempts += 1;
        let producer = self.identity.map(|(id, epoch)| {
            let producer = history::Producer { id, epoch };
            (producer, pending.sequence)
        });
        pending.operation.attempt(pending.attempts, producer);
    }

    fn request(&self, pending: &Pending) -> Result<ProduceRequest, CallError> {
        let records = self.encode(pending);
        let records = records
            .map_err(|error| CallError::malformed(format!("a batch that can't be: {error}")))?;
        let timeout_ms = self.client.profile.request_timeout.as_millis();
        Ok(ProduceRequest::default()
            .with_acks(-1)
            .with_timeout_ms(i32::try_from(timeout_ms).unwrap_or(i32::MAX))
            .with_topic_data(vec![
                TopicProduceData::default()
                    .with_name(topic_name(&self.plan.topic))
                    .with_partition_data(vec![
                        PartitionProduceData::default()
                            .with_index(self.plan.partition)
                            .with_records(Some(records)),
                    ]),
            ]))
    }

    fn encode(&self, pending: &Pending) -> Result<Bytes, kafka_wire::records::BuildError> {
        let producer = match self.identity {
            Some((id, epoch)) => ProducerFields {
                id,
                epoch,
                base_sequence: pending.sequence,
            },
            None => ProducerFields::default(),
        };
        let options = BatchOptions {
            producer,
            ..BatchOptions::default()
        };
        let (mut out, mut compressor) = (BytesMut::new(), Compressor::new());
        let mut builder = BatchBuilder::new(&mut out, &mut compressor, options);
        for (offset, value) in (0..).zip(pending.batch.values()) {
            builder.append(&Record {
                offset,
                timestamp: pending.timestamp,
                key: None,
                value: Some(value.to_string().as_bytes()),
                headers: Headers::new(&[]),
            })?;
        }
        builder.finish()?;
        Ok(out.freeze())
    }

    /// Whether the batch is stored; if not, it is to be sent again.
    fn judge(&mut self, batch: &Batch, response: &ProduceResponse) -> Result<bool, Ended> {
        let answer = response
            .responses
            .first()
            .and_then(|topic| topic.partition_responses.first())
            .filter(|answer| answer.index == batch.to.partition)
            .ok_or_else(|| CallError::malformed("a Produce answer without the partition"))?;
        let code = ErrorCode::from_code(answer.error_code);
        let stored = match code {
            Some(ErrorCode::None) => Some(Some(answer.base_offset)),
            // Stored earlier, and too long ago for the broker to know where.
            Some(ErrorCode::DuplicateSequenceNumber) => Some(None),
            _ => None,
        };
        if let Some(base_offset) = stored {
            if let Some(pending) = self.take(batch) {
                pending.operation.ok(Reply::Stored { base_offset });
            }
            return Ok(true);
        }
        self.client.recorder.note(
            self.client.id.as_str(),
            format_args!("  {batch} refused: {code:?}"),
        );
        // Behind a batch that failed, the next ones are out of order until it is sent again.
        let behind = self
            .pending
            .front()
            .is_some_and(|first| first.batch != *batch);
        let disorder = code == Some(ErrorCode::OutOfOrderSequenceNumber) && behind;
        if disorder || code.is_some_and(ErrorCode::retriable) {
            return Ok(false);
        }
        if let Some(pending) = self.take(batch) {
            let what = format!("{code:?}");
            pending
                .operation
                .fail(Failure::code(answer.error_code, what));
        }
        Err(Ended::Fatal)
    }

    fn take(&mut self, batch: &Batch) -> Option<Pending> {
        let at = self.pending.iter().position(|one| one.batch == *batch)?;
        self.pending.remove(at)
    }
}

/// The answer to the oldest request in flight; waits for ever when there is none.
async fn receive(
    connection: &mut Connection,
    awaited: &VecDeque<Awaited>,
) -> Result<ProduceResponse, CallError> {
    match awaited.front() {
        Some(first) => connection.receive(&first.ticket).await,
        None => std::future::pending().await,
    }
}
