//! A reader that is assigned every partition of a topic: it follows the log, or reads it once to
//! its end. No group, no fetch session.

use std::collections::BTreeMap;

use kafka_protocol::messages::fetch_request::{FetchPartition, FetchTopic};
use kafka_protocol::messages::fetch_response::PartitionData;
use kafka_protocol::messages::list_offsets_request::{ListOffsetsPartition, ListOffsetsTopic};
use kafka_protocol::messages::{BrokerId, FetchRequest, ListOffsetsRequest};
use kafka_wire::ErrorCode;
use kafka_wire::records::{Batches, Budget};
use tokio::time::sleep;

use super::{CallError, Client, Connection, refused, topic_name};
use crate::history::{
    Call, Event, Failure, Isolation, NotAValue, Polled, Promise, Reply, Seen, Source,
    TopicPartition, Value,
};

/// Bytes and records of one answer.
const MAX_ANSWER_BYTES: usize = 4 << 20;
const MAX_ANSWER_RECORDS: usize = 100_000;
/// The timestamp that asks for the end of the log.
const LATEST: i64 = -1;

/// The reader.
#[derive(Debug)]
pub struct Reader {
    client: Client,
    topic: String,
    /// What it read, of one that reads the whole log.
    log: BTreeMap<i32, Vec<Seen>>,
    /// The next offset of each partition.
    positions: BTreeMap<i32, i64>,
}

impl Reader {
    /// A reader at the beginning of `partitions` partitions.
    pub fn new(client: Client, topic: &str, partitions: i32) -> Self {
        Self {
            client,
            topic: topic.to_owned(),
            log: BTreeMap::new(),
            positions: (0..partitions).map(|partition| (partition, 0)).collect(),
        }
    }

    /// Reads what comes until it is dropped, or told something that no retry heals.
    pub async fn follow(mut self) {
        self.introduce();
        self.retrying(None).await;
    }

    /// Reads everything there is now.
    pub async fn read_all(mut self) {
        self.introduce();
        let mut ends = None;
        while ends.is_none() {
            match self.ends().await {
                Ok(found) => ends = Some(found),
                Err(error) => self.pause(&error).await,
            }
        }
        if self.retrying(ends).await {
            self.show();
        }
    }

    fn introduce(&self) {
        let client = Event::Client {
            profile: self.client.profile.name.into(),
            promises: vec![Promise::NeverRefused],
        };
        self.client.recorder.record(&self.client.id, client);
    }

    /// The whole log, as it was read.
    fn show(&self) {
        let source = Source::Consumer;
        for (&partition, &end) in &self.positions {
            let at = TopicPartition::new(self.topic.as_str(), partition);
            let records = self.log.get(&partition).cloned().unwrap_or_default();
            let log = Event::Log {
                source,
                at: at.clone(),
                records,
            };
            let whole = Event::LogEnd {
                source,
                at,
                start: 0,
                end,
            };
            for event in [log, whole] {
                self.client.recorder.record(&self.client.id, event);
            }
        }
    }

    fn poll(&self) -> crate::history::Operation {
        let call = Call::Poll {
            isolation: Isolation::ReadUncommitted,
            transaction: None,
        };
        self.client.recorder.begin(&self.client.id, call, None)
    }

    async fn pause(&self, error: &CallError) {
        self.client.lament(error);
        sleep(self.client.profile.retry_backoff).await;
    }

    /// Fetches until every partition is at its end, or for ever without one. Whether it got there.
    async fn retrying(&mut self, ends: Option<BTreeMap<i32, i64>>) -> bool {
        loop {
            match self.fetching(ends.as_ref()).await {
                Ok(done) => return done,
                Err(error) => self.pause(&error).await,
            }
        }
    }

    async fn fetching(&mut self, ends: Option<&BTreeMap<i32, i64>>) -> Result<bool, CallError> {
        let mut connection = self.client.leader(&self.topic).await?;
        loop {
            if ends.is_some_and(|ends| self.has_reached(ends)) {
                return Ok(true);
            }
            if !self.fetch(&mut connection).await? {
                return Ok(false);
            }
        }
    }

    fn has_reached(&self, ends: &BTreeMap<i32, i64>) -> bool {
        ends.iter()
            .all(|(partition, end)| self.positions.get(partition) >= Some(end))
    }

    async fn ends(&self) -> Result<BTreeMap<i32, i64>, CallError> {
        let mut connection = self.client.leader(&self.topic).await?;
        let asked = self.positions.keys().map(|partition| {
            ListOffsetsPartition::default()
                .with_partition_index(*partition)
                .with_timestamp(LATEST)
        });
        let topic = ListOffsetsTopic::default()
            .with_name(topic_name(&self.topic))
            .with_partitions(asked.collect());
        let request = ListOffsetsRequest::default()
            .with_replica_id(BrokerId(-1))
            .with_topics(vec![topic]);
        let response = connection.call(&request).await?;
        let mut ends = BTreeMap::new();
        for partition in response.topics.iter().flat_map(|topic| &topic.partitions) {
            refused(partition.error_code)?;
            ends.insert(partition.partition_index, partition.offset);
        }
        if !ends.keys().eq(self.positions.keys()) {
            return Err(CallError::malformed("ListOffsets answers other partitions"));
        }
        Ok(ends)
    }

    /// One fetch of all partitions. False when a partition can't be read on.
    async fn fetch(&mut self, connection: &mut Connection) -> Result<bool, CallError> {
        let asked = self.positions.iter().map(|(partition, offset)| {
            FetchPartition::default()
                .with_partition(*partition)
                .with_current_leader_epoch(-1)
                .with_fetch_offset(*offset)
                .with_partition_max_bytes(1 << 20)
        });
        let topic = FetchTopic::default()
            .with_topic(topic_name(&self.topic))
            .with_partitions(asked.collect());
        let wait_ms = self.client.profile.fetch_max_wait.as_millis();
        let request = FetchRequest::default()
            .with_replica_id(BrokerId(-1))
            .with_max_wait_ms(i32::try_from(wait_ms).unwrap_or(i32::MAX))
            .with_min_bytes(1)
            .with_max_bytes(1 << 20)
            .with_session_epoch(-1)
            .with_topics(vec![topic]);
        let response = connection.call(&request).await?;
        refused(response.error_code)?;
        for partition in response
            .responses
            .iter()
            .flat_map(|topic| &topic.partitions)
        {
            if !self.take(partition)? {
                return Ok(false);
            }
        }
        Ok(true)
    }

    fn take(&mut self, data: &PartitionData) -> Result<bool, CallError> {
        let partition = data.partition_index;
        let mut position = *self
            .positions
            .get(&partition)
            .ok_or_else(|| CallError::malformed("Fetch answers a partition nobody asked for"))?;
        if let Err(error) = refused(data.error_code) {
            if matches!(&error, CallError::Refused(code) if !ErrorCode::retriable(*code)) {
                let what = format!("partition {partition} at {position}: {error}");
                self.poll().fail(Failure::code(data.error_code, what));
                return Ok(false);
            }
            return Err(error);
        }
        let malformed = |what: String| {
            CallError::malformed(format!("records of partition {partition}: {what}"))
        };
        let mut records = Vec::new();
        let mut budget = Budget::new(MAX_ANSWER_BYTES, MAX_ANSWER_RECORDS);
        for batch in Batches::new(data.records.clone().unwrap_or_default()) {
            let batch = batch.map_err(|error| malformed(error.to_string()))?;
            let inner = batch.records(&mut budget);
            for record in &inner.map_err(|error| malformed(error.to_string()))? {
                let record = record.map_err(|error| malformed(error.to_string()))?;
                // A batch comes whole, even when it begins before the offset that was asked for.
                if record.offset < position {
                    continue;
                }
                let text = String::from_utf8_lossy(record.value.unwrap_or_default());
                let value: Value = text
                    .parse()
                    .map_err(|error: NotAValue| malformed(error.to_string()))?;
                records.push(Seen {
                    offset: record.offset,
                    value,
                    digest: None,
                });
                position = record.offset + 1;
            }
        }
        let from = self.positions.insert(partition, position).unwrap_or(0);
        if records.is_empty() {
            return Ok(true);
        }
        self.log
            .entry(partition)
            .or_default()
            .extend_from_slice(&records);
        let polled = Polled {
            at: TopicPartition::new(self.topic.as_str(), partition),
            from,
            next: position,
            records,
        };
        self.poll().ok(Reply::Polled(vec![polled]));
        Ok(true)
    }
}
