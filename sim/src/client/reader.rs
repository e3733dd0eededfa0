//! A reader that is assigned every partition of a topic: it follows the log, or reads it once to
//! its end. No group, no fetch session, as little of its own as can be: an auditor.

use std::collections::{BTreeMap, BTreeSet};

use kafka_protocol::messages::fetch_request::{FetchPartition, FetchTopic};
use kafka_protocol::messages::fetch_response::PartitionData;
use kafka_protocol::messages::list_offsets_request::{ListOffsetsPartition, ListOffsetsTopic};
use kafka_protocol::messages::{BrokerId, FetchRequest, ListOffsetsRequest};
use kafka_wire::ErrorCode;

use super::cluster::Cluster;
use super::profile::Purpose;
use super::records::records;
use super::{CallError, Client, level, millis, refused, topic_name};
use crate::history::{
    Call, Event, Failure, Isolation, Name, Operation, Polled, Promise, Reply, Seen, Source,
    TopicPartition,
};

/// The timestamp that asks for the end of the log.
const LATEST: i64 = -1;
/// The last version of Fetch that names topics.
const BY_NAME: i16 = 12;

/// The reader.
#[derive(Debug)]
pub struct Reader {
    client: Client,
    cluster: Cluster,
    topic: Name,
    isolation: Isolation,
    /// What it read, of one that reads the whole log.
    log: BTreeMap<i32, Vec<Seen>>,
    /// The next offset of each partition.
    positions: BTreeMap<i32, i64>,
}

impl Reader {
    /// A reader at the beginning of `partitions` partitions.
    pub fn new(client: Client, topic: impl Into<Name>, partitions: i32) -> Self {
        Self {
            cluster: Cluster::new(client.clone()),
            client,
            topic: topic.into(),
            isolation: Isolation::ReadUncommitted,
            log: BTreeMap::new(),
            positions: (0..partitions).map(|partition| (partition, 0)).collect(),
        }
    }

    /// The same that is shown only what is committed.
    #[must_use]
    pub fn committed(mut self) -> Self {
        self.isolation = Isolation::ReadCommitted;
        self
    }

    /// Reads what comes until it is dropped, or told something that no retry heals.
    pub async fn follow(mut self) {
        self.client.introduce(vec![Promise::NeverRefused]);
        self.retrying(None).await;
    }

    /// Reads everything there is now.
    pub async fn read_all(mut self) {
        self.client.introduce(vec![Promise::NeverRefused]);
        let mut failures = 0;
        let ends = loop {
            match self.ends().await {
                Ok(found) => break found,
                Err(error) => self.pause(&error, &mut failures).await,
            }
        };
        if self.retrying(Some(ends)).await {
            self.show();
        }
    }

    /// The whole log, as it was read.
    fn show(&self) {
        let source = Source::Consumer;
        for (&partition, &end) in &self.positions {
            let at = TopicPartition::new(self.topic.clone(), partition);
            let records = self.log.get(&partition).cloned().unwrap_or_default();
            self.client.record(Event::Log {
                source,
                at: at.clone(),
                records,
            });
            self.client.record(Event::LogEnd {
                source,
                at,
                start: 0,
                end,
            });
        }
    }

    fn poll(&self) -> Operation {
        let call = Call::Poll {
            isolation: self.isolation,
            transaction: None,
        };
        self.client.recorder.begin(&self.client.id, call, None)
    }

    async fn pause(&self, error: &CallError, failures: &mut u32) {
        self.client.lament(error);
        self.cluster.is_wrong_about(&self.topic);
        *failures += 1;
        self.client.back_off(*failures).await;
    }

    /// Fetches until every partition is at its end, or for ever without one. Whether it got there.
    async fn retrying(&mut self, ends: Option<BTreeMap<i32, i64>>) -> bool {
        let mut failures = 0;
        loop {
            if ends.as_ref().is_some_and(|ends| self.has_reached(ends)) {
                return true;
            }
            match self.fetch().await {
                Ok(true) => failures = 0,
                Ok(false) => return false,
                Err(error) => self.pause(&error, &mut failures).await,
            }
        }
    }

    fn has_reached(&self, ends: &BTreeMap<i32, i64>) -> bool {
        ends.iter()
            .all(|(partition, end)| self.positions.get(partition) >= Some(end))
    }

    /// The partitions by their leaders.
    async fn leaders(&self) -> Result<BTreeMap<i32, Vec<i32>>, CallError> {
        let topics = BTreeSet::from([self.topic.clone()]);
        if self.cluster.is_due(&topics) {
            self.cluster.refresh(&topics, true).await?;
        }
        let mut leaders: BTreeMap<i32, Vec<i32>> = BTreeMap::new();
        for &partition in self.positions.keys() {
            let at = TopicPartition::new(self.topic.clone(), partition);
            let leader = self.cluster.leader(&at);
            let leader = leader.ok_or(CallError::Refused(ErrorCode::LeaderNotAvailable))?;
            leaders.entry(leader.node).or_default().push(partition);
        }
        Ok(leaders)
    }

    async fn ends(&self) -> Result<BTreeMap<i32, i64>, CallError> {
        let mut ends = BTreeMap::new();
        for (node, partitions) in self.leaders().await? {
            let asked = partitions.iter().map(|partition| {
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
            let connection = self.cluster.connection(node, Purpose::Control).await?;
            let response = connection.call(&request).await?;
            for partition in response.topics.iter().flat_map(|topic| &topic.partitions) {
                refused(partition.error_code)?;
                ends.insert(partition.partition_index, partition.offset);
            }
        }
        if !ends.keys().eq(self.positions.keys()) {
            return Err(CallError::malformed("ListOffsets answers other partitions"));
        }
        Ok(ends)
    }

    /// One fetch of all partitions. False when a partition can't be read on.
    async fn fetch(&mut self) -> Result<bool, CallError> {
        let leaders = self.leaders().await?;
        // With several brokers nobody waits for the one that has nothing.
        let wait = match leaders.len() {
            1 => self.client.profile.consumer.max_wait,
            _ => self.client.profile.consumer.max_wait / 8,
        };
        for (node, partitions) in leaders {
            let asked = partitions.iter().map(|partition| {
                FetchPartition::default()
                    .with_partition(*partition)
                    .with_current_leader_epoch(-1)
                    .with_fetch_offset(self.positions.get(partition).copied().unwrap_or(0))
                    .with_partition_max_bytes(1 << 20)
            });
            let topic = FetchTopic::default()
                .with_topic(topic_name(&self.topic))
                .with_partitions(asked.collect());
            let request = FetchRequest::default()
                .with_replica_id(BrokerId(-1))
                .with_max_wait_ms(millis(wait))
                .with_min_bytes(1)
                .with_max_bytes(1 << 20)
                .with_session_epoch(-1)
                .with_isolation_level(level(self.isolation))
                .with_topics(vec![topic]);
            let connection = self.cluster.connection(node, Purpose::Fetch).await?;
            let timeout = self.client.profile.request_timeout;
            let mut ticket = connection.send_within(&request, timeout, BY_NAME)?;
            let response = ticket.answer().await?;
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
        }
        Ok(true)
    }

    fn take(&mut self, data: &PartitionData) -> Result<bool, CallError> {
        let partition = data.partition_index;
        let position = *self
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
        let at = TopicPartition::new(self.topic.clone(), partition);
        let read = records(&at, data.records.clone(), position)?;
        self.positions.insert(partition, read.next);
        if read.records.is_empty() {
            return Ok(true);
        }
        self.log
            .entry(partition)
            .or_default()
            .extend_from_slice(&read.records);
        let polled = Polled {
            at,
            from: position,
            next: read.next,
            records: read.records,
        };
        self.poll().ok(Reply::Polled(vec![polled]));
        Ok(true)
    }
}
