//! The task of a producer: drives the core over the cluster and writes the history.

use std::collections::{BTreeMap, BTreeSet, VecDeque};

use bytes::Bytes;
use futures::StreamExt;
use futures::future::BoxFuture;
use futures::stream::FuturesUnordered;
use kafka_protocol::messages::{InitProducerIdRequest, ProduceResponse, ProducerId};
use kafka_wire::{ApiKey, ErrorCode};
use tokio::sync::{mpsc, oneshot};
use tokio::time::sleep;

use super::core::{BatchId, Core, Event, Identity, Outgoing, Transmit, TransmitId, Verdict};
use super::request::{ceiling, request, told, written};
use super::{Delivered, Record, SendError};
use crate::client::cluster::Cluster;
use crate::client::profile::{ProducerRules, Purpose};
use crate::client::{CallError, Client, Connection, refused};
use crate::history::{Batch, Call, Failure, Name, Operation, Reply, TopicPartition};

/// What an application asks of a producer.
#[derive(Debug)]
pub(super) enum Command {
    Send {
        record: Record,
        done: oneshot::Sender<Result<Delivered, SendError>>,
    },
    Flush(oneshot::Sender<()>),
}

/// Something that was waited for.
enum Done {
    Refreshed(Result<(), CallError>),
    Identified(Result<Identity, CallError>),
    Connected(i32, Result<Connection, CallError>),
    Answered(Transmit, Result<ProduceResponse, CallError>),
    /// Written, and no answer was asked for.
    Written(Transmit, Result<(), CallError>),
}

/// What is known of a batch besides its records.
#[derive(Default)]
struct Fate {
    operation: Option<Operation>,
    waiting: Vec<oneshot::Sender<Result<Delivered, SendError>>>,
    partition: i32,
}

pub(super) struct Task {
    client: Client,
    cluster: Cluster,
    rules: ProducerRules,
    orders: mpsc::UnboundedReceiver<Command>,
    core: Core,
    topics: BTreeSet<Name>,
    /// Records of topics that are not known yet, in order.
    unrouted: VecDeque<(Record, oneshot::Sender<Result<Delivered, SendError>>)>,
    fates: BTreeMap<BatchId, Fate>,
    connected: BTreeMap<i32, Connection>,
    connecting: BTreeSet<i32>,
    refreshing: bool,
    identifying: bool,
    initialising: Option<Operation>,
    failures: u32,
    /// The partition that records without a key go to, of each topic.
    sticky: BTreeMap<Name, i32>,
    flushes: Vec<oneshot::Sender<()>>,
    work: FuturesUnordered<BoxFuture<'static, Done>>,
}

impl Task {
    pub(super) fn new(cluster: Cluster, orders: mpsc::UnboundedReceiver<Command>) -> Self {
        let client = cluster.client().clone();
        let rules = client.profile.producer;
        let entropy = std::sync::Arc::clone(&client.host.entropy);
        Self {
            core: Core::new(rules, client.profile.retry, entropy),
            client,
            cluster,
            rules,
            orders,
            topics: BTreeSet::new(),
            unrouted: VecDeque::new(),
            fates: BTreeMap::new(),
            connected: BTreeMap::new(),
            connecting: BTreeSet::new(),
            refreshing: false,
            identifying: false,
            initialising: None,
            failures: 0,
            sticky: BTreeMap::new(),
            flushes: Vec::new(),
            work: FuturesUnordered::new(),
        }
    }

    pub(super) async fn run(mut self) {
        loop {
            self.route();
            self.drive();
            let now = self.client.now();
            let deadline = self.core.next_deadline(now);
            let wait = deadline.map(|deadline| deadline.saturating_since(now));
            tokio::select! {
                biased;
                order = self.orders.recv() => {
                    let Some(order) = order else { return };
                    self.obey(order);
                    // What was handed over together goes into one batch.
                    while let Ok(order) = self.orders.try_recv() {
                        self.obey(order);
                    }
                }
                Some(done) = self.work.next(), if !self.work.is_empty() => self.take(done),
                () = sleep(wait.unwrap_or_default()), if wait.is_some() => {}
            }
        }
    }

    fn obey(&mut self, order: Command) {
        match order {
            Command::Send { record, done } => {
                self.topics.insert(record.topic.clone());
                self.unrouted.push_back((record, done));
                self.route();
            }
            Command::Flush(done) => {
                self.flushes.push(done);
                self.core.flush(self.client.now());
            }
        }
    }

    /// Gives records their partitions as soon as their topics are known.
    fn route(&mut self) {
        let mut unknown = VecDeque::new();
        while let Some((record, done)) = self.unrouted.pop_front() {
            if self.core.fatal().is_some() {
                // Whoever asked may have stopped waiting.
                let _ = done.send(Err(SendError::GivenUp));
                continue;
            }
            let Some(partition) = self.partition(&record) else {
                unknown.push_back((record, done));
                continue;
            };
            let to = TopicPartition::new(record.topic, partition);
            let outgoing = Outgoing {
                key: record.key,
                value: Bytes::from(record.value.to_string()),
                timestamp: self.client.wall_ms(),
            };
            let batch = self.core.append(self.client.now(), &to, outgoing);
            let fate = self.fates.entry(batch).or_default();
            fate.partition = partition;
            fate.waiting.push(done);
        }
        self.unrouted = unknown;
        if !self.flushes.is_empty() {
            self.core.flush(self.client.now());
        }
    }

    fn partition(&mut self, record: &Record) -> Option<i32> {
        let partitions = self.cluster.topic(&record.topic)?.partitions;
        let chosen = record.partition.or_else(|| {
            let key = record.key.as_deref();
            self.rules.partitioner.partition(key, partitions)
        });
        Some(chosen.unwrap_or_else(|| {
            let drawn =
                self.client.host.entropy.next_u64() % u64::try_from(partitions.max(1)).unwrap_or(1);
            let drawn = i32::try_from(drawn).unwrap_or_default();
            *self.sticky.entry(record.topic.clone()).or_insert(drawn)
        }))
    }

    /// Starts whatever can be started now.
    fn drive(&mut self) {
        self.report();
        if !self.refreshing && self.cluster.is_due(&self.topics) && !self.topics.is_empty() {
            self.refreshing = true;
            self.start_refresh();
        }
        // Whoever answers then is a broker, not the bootstrap server.
        let wanted = self.core.needs_identity() && self.cluster.knows_brokers();
        if !self.identifying && wanted {
            self.identifying = true;
            self.start_identify();
        }
        self.connect();
        loop {
            let (now, cluster, connected) = (self.client.now(), &self.cluster, &self.connected);
            let leader = |to: &TopicPartition| {
                let node = cluster.leader(to)?.node;
                connected.get(&node)?.is_open().then_some(node)
            };
            let Some(transmit) = self.core.poll_transmit(now, leader) else {
                break;
            };
            self.report();
            self.transmit(transmit);
        }
        self.report();
        if self.core.is_idle() && self.unrouted.is_empty() {
            for flushed in self.flushes.drain(..) {
                // Whoever asked may have stopped waiting.
                let _ = flushed.send(());
            }
        }
    }

    fn start_refresh(&mut self) {
        let (cluster, topics, failures) =
            (self.cluster.clone(), self.topics.clone(), self.failures);
        self.work.push(Box::pin(async move {
            if failures > 0 {
                cluster.client().back_off(failures).await;
            }
            Done::Refreshed(cluster.refresh(&topics, true).await)
        }));
    }

    fn start_identify(&mut self) {
        if self.initialising.is_none() {
            let call = Call::InitProducer {
                transactional: None,
            };
            let begun = self.client.recorder.begin(&self.client.id, call, None);
            self.initialising = Some(begun);
        }
        let (cluster, failures) = (self.cluster.clone(), self.failures);
        self.work.push(Box::pin(async move {
            if failures > 0 {
                cluster.client().back_off(failures).await;
            }
            Done::Identified(identify(&cluster).await)
        }));
    }

    /// Connects to every broker that leads a partition with records.
    fn connect(&mut self) {
        self.connected.retain(|_, connection| connection.is_open());
        let leaders = self.core.partitions();
        let nodes: BTreeSet<i32> = leaders
            .filter_map(|to| Some(self.cluster.leader(to)?.node))
            .collect();
        for node in nodes {
            if self.connected.contains_key(&node) || !self.connecting.insert(node) {
                continue;
            }
            let cluster = self.cluster.clone();
            self.work.push(Box::pin(async move {
                Done::Connected(node, cluster.connection(node, Purpose::Produce).await)
            }));
        }
    }

    fn transmit(&mut self, transmit: Transmit) {
        for sent in &transmit.batches {
            if let Some(operation) = self
                .fates
                .get(&sent.batch)
                .and_then(|fate| fate.operation.as_ref())
            {
                let (producer, sequence) = sent.sequence.unzip();
                operation.attempt(sent.attempt, producer, sequence);
            }
            self.client.note(format_args!(
                "  batch {} of {} to {}, attempt {}",
                sent.batch.0,
                sent.records.len(),
                sent.to,
                sent.attempt
            ));
        }
        let id = |topic: &Name| self.cluster.topic(topic).map(|topic| topic.id);
        let ids = transmit.batches.iter().map(|sent| id(&sent.to.topic));
        let ceiling = ceiling(ids.map(Option::unwrap_or_default));
        let connection = self.connected.get(&transmit.node).cloned();
        let request = request(&self.rules, None, &transmit, |topic| {
            id(topic).unwrap_or_default()
        });
        let (Some(connection), Ok(request)) = (connection, request) else {
            self.lost(transmit.id, false);
            return;
        };
        if self.rules.acks == 0 {
            self.work.push(Box::pin(async move {
                let written = connection.send_unanswered(&request, ceiling).await;
                Done::Written(transmit, written)
            }));
            return;
        }
        let timeout = self.client.profile.request_timeout;
        match connection.send_within(&request, timeout, ceiling) {
            Ok(mut ticket) => self.work.push(Box::pin(async move {
                Done::Answered(transmit, ticket.answer().await)
            })),
            Err(error) => {
                self.client.lament(&error);
                self.lost(transmit.id, false);
            }
        }
    }

    fn lost(&mut self, id: TransmitId, sent: bool) {
        self.core.handle_lost(self.client.now(), id, sent);
    }

    fn take(&mut self, done: Done) {
        match done {
            Done::Refreshed(result) => {
                self.refreshing = false;
                self.judge(&result);
                if result.is_ok() {
                    self.sticky.clear();
                }
            }
            Done::Identified(result) => {
                self.identifying = false;
                self.judge(&result);
                self.identified(result);
            }
            Done::Connected(node, result) => {
                self.connecting.remove(&node);
                match result {
                    Ok(connection) => {
                        self.connected.insert(node, connection);
                    }
                    Err(error) => {
                        self.client.lament(&error);
                        for topic in &self.topics {
                            self.cluster.is_wrong_about(topic);
                        }
                    }
                }
            }
            Done::Answered(transmit, Ok(response)) => self.answered(&transmit, &response),
            Done::Answered(transmit, Err(error)) => {
                self.client.lament(&error);
                self.lost(transmit.id, !error.has_no_effect());
            }
            Done::Written(transmit, Ok(())) => {
                let now = self.client.now();
                for sent in &transmit.batches {
                    self.core
                        .handle_answer(now, transmit.id, &sent.to, ErrorCode::None, None);
                }
            }
            Done::Written(transmit, Err(error)) => {
                self.client.lament(&error);
                self.lost(transmit.id, true);
            }
        }
    }

    fn judge<T>(&mut self, result: &Result<T, CallError>) {
        match result {
            Ok(_) => self.failures = 0,
            Err(error) => {
                self.failures += 1;
                self.client.lament(error);
            }
        }
    }

    fn identified(&mut self, result: Result<Identity, CallError>) {
        match result {
            Ok(identity) => {
                if let Some(operation) = self.initialising.take() {
                    operation.ok(Reply::Producer(identity));
                }
                self.core.handle_identity(identity);
            }
            Err(CallError::Refused(code)) if !code.retriable() => {
                if let Some(operation) = self.initialising.take() {
                    operation.fail(Failure::code(code.code(), code.name()));
                }
                self.core.handle_no_identity(code);
            }
            Err(_) => {}
        }
    }

    fn answered(&mut self, transmit: &Transmit, response: &ProduceResponse) {
        match told(response, |id| self.cluster.topic_of_id(id)) {
            Ok(told) => {
                let now = self.client.now();
                for told in told {
                    if told.code != ErrorCode::None {
                        self.client
                            .note(format_args!("  {} refused: {:?}", told.to, told.code));
                    }
                    self.core.handle_answer(
                        now,
                        transmit.id,
                        &told.to,
                        told.code,
                        told.base_offset,
                    );
                }
            }
            Err(error) => self.client.lament(&error),
        }
        if self.core.is_in_flight(transmit.id) {
            let error = CallError::malformed("Produce answers for other partitions");
            self.client.lament(&error);
            self.lost(transmit.id, true);
        }
    }

    /// Writes down what the core says happened.
    fn report(&mut self) {
        while let Some(event) = self.core.poll_event() {
            match event {
                Event::Sealed { batch, to, records } => {
                    self.sticky.remove(&to.topic);
                    let call = Call::Produce {
                        batch: Batch {
                            to,
                            records: records.iter().filter_map(written).collect(),
                        },
                        acks: self.rules.acks,
                        transaction: None,
                    };
                    // It is created before it is sealed, so it is over in less.
                    let within_ms = self.rules.delivery_timeout.as_millis();
                    let within_ms = u64::try_from(within_ms).unwrap_or(u64::MAX);
                    let recorder = &self.client.recorder;
                    let operation = recorder.begin(&self.client.id, call, Some(within_ms));
                    self.fates.entry(batch).or_default().operation = Some(operation);
                }
                Event::Done { batch, verdict } => {
                    if let Some(fate) = self.fates.remove(&batch) {
                        fate.end(verdict);
                    }
                }
                Event::Stale { topic } => self.cluster.is_wrong_about(&topic),
                Event::NewEpoch(identity) => self.client.note(format_args!(
                    "  producer {} begins epoch {}",
                    identity.id, identity.epoch
                )),
                Event::Fatal(code) => {
                    self.client
                        .note(format_args!("! the producer is of no use: {code:?}"));
                }
            }
        }
    }
}

impl Fate {
    fn end(self, verdict: Verdict) {
        let base = match verdict {
            Verdict::Stored(base_offset) => base_offset,
            _ => None,
        };
        for (delta, waiting) in (0..).zip(self.waiting) {
            let fate = match verdict {
                Verdict::Stored(_) => Ok(Delivered {
                    partition: self.partition,
                    offset: base.map(|base| base + delta),
                }),
                Verdict::Refused(code) => Err(SendError::Refused(code)),
                Verdict::GivenUp => Err(SendError::GivenUp),
                Verdict::Unknown => Err(SendError::Unknown),
            };
            // Whoever asked may have stopped waiting.
            let _ = waiting.send(fate);
        }
        let Some(operation) = self.operation else {
            return;
        };
        match verdict {
            Verdict::Stored(base_offset) => operation.ok(Reply::Stored { base_offset }),
            Verdict::Refused(code) => operation.fail(Failure::code(code.code(), code.name())),
            Verdict::GivenUp => operation.fail(Failure::here("given up before it was sent")),
            Verdict::Unknown => operation.unknown(Failure::here("given up in doubt")),
        }
    }
}

async fn identify(cluster: &Cluster) -> Result<Identity, CallError> {
    let connection = cluster.any().await?;
    let offered = connection.version(ApiKey::INIT_PRODUCER_ID);
    offered.ok_or(CallError::NotOffered(ApiKey::INIT_PRODUCER_ID))?;
    let request = InitProducerIdRequest::default()
        .with_transaction_timeout_ms(i32::MAX)
        .with_producer_id(ProducerId(-1))
        .with_producer_epoch(-1);
    let response = connection.call(&request).await?;
    refused(response.error_code)?;
    Ok(Identity {
        id: response.producer_id.0,
        epoch: response.producer_epoch,
    })
}
