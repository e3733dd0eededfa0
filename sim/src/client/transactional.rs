//! A producer that writes in transactions: what it sends between `begin` and `commit`, and the
//! offsets it commits with it, land together or not at all.
//!
//! It does nothing in the background: records go out in [`TransactionalProducer::flush`] and in
//! [`TransactionalProducer::commit`], pipelined and sent again by the same core as those of
//! [`Producer`](super::producer::Producer). [`trouble`] says what a refusal means, [`ask`] asks
//! coordinators until they answer, [`requests`] is what is asked. Dropping it is a crash.
//!
//! After [`Trouble::Abortable`] the application aborts and begins anew; after [`Trouble::Fatal`] it
//! makes another producer, whose `init` ends what this one left open.

mod ask;
mod flush;
mod requests;
pub mod trouble;

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use kafka_protocol::messages::ProduceResponse;
use kafka_wire::ErrorCode;
use tokio::task::JoinSet;

use super::cluster::Cluster;
use super::consumer::coordinator::Coordinator;
use super::consumer::membership::Identity as Member;
use super::producer::core::{BatchId, Core, Identity, Outgoing, Transmit};
use super::profile::Desynchronised;
use super::{CallError, Client, Connection};
use crate::history::{Call, Failure, Name, Operation, Promise, Reply, TopicPartition, Value};
use ask::Asked;
use trouble::{Asking, Refusal};

pub use trouble::Trouble;

/// What one producer is told by its operator.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Settings {
    /// `transactional.id`.
    pub id: Name,
    /// `transaction.timeout.ms`.
    pub timeout: Duration,
    /// What may be demanded of what it writes.
    pub promises: Vec<Promise>,
}

/// In a healthy world everything is done in this time: three calls of a facade, one behind the other,
/// each of which began just before the heal.
const WITHIN: Duration = Duration::from_secs(30);

type Answered = (Transmit, Result<ProduceResponse, CallError>);

/// A producer with a transactional id.
pub struct TransactionalProducer {
    client: Client,
    cluster: Cluster,
    settings: Settings,
    coordinator: Coordinator,
    groups: BTreeMap<Name, Arc<Coordinator>>,
    core: Core,
    identity: Option<Identity>,
    /// The number of the open transaction, or of the last one.
    number: u64,
    open: bool,
    /// What the coordinator knows to be in it.
    partitions: BTreeSet<TopicPartition>,
    added_groups: BTreeSet<Name>,
    /// Why it can only be aborted.
    spoiled: Option<Trouble>,
    topics: BTreeSet<Name>,
    operations: BTreeMap<BatchId, Operation>,
    connected: BTreeMap<i32, Connection>,
    /// Requests in flight.
    work: JoinSet<Answered>,
}

impl std::fmt::Debug for TransactionalProducer {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("TransactionalProducer")
            .field("client", &self.client.id)
            .field("settings", &self.settings)
            .finish_non_exhaustive()
    }
}

impl TransactionalProducer {
    /// A producer that has asked for nothing yet.
    pub fn new(client: Client, settings: Settings) -> Self {
        client.introduce(settings.promises.clone());
        let cluster = Cluster::new(client.clone());
        let coordinator = Coordinator::of_transactions(cluster.clone(), settings.id.clone());
        Self {
            core: core_of(&client),
            client,
            cluster,
            settings,
            coordinator,
            groups: BTreeMap::new(),
            identity: None,
            number: 0,
            open: false,
            partitions: BTreeSet::new(),
            added_groups: BTreeSet::new(),
            spoiled: None,
            topics: BTreeSet::new(),
            operations: BTreeMap::new(),
            connected: BTreeMap::new(),
            work: JoinSet::new(),
        }
    }

    /// InitProducerId: whoever had the transactional id before is fenced, and what it left open is
    /// ended. To be called first.
    ///
    /// # Errors
    ///
    /// [`Trouble`].
    pub async fn init(&mut self) -> Result<(), Trouble> {
        self.identify(None).await
    }

    /// The producer id and epoch, once there is one.
    pub const fn identity(&self) -> Option<Identity> {
        self.identity
    }

    /// Goes on as `identity`, which another process was given (as Flink does to finish what that
    /// process had prepared): the transaction counts as open, with partitions in it.
    pub fn resume(&mut self, identity: Identity, transaction: u64, partitions: &[TopicPartition]) {
        self.take_identity(identity);
        self.number = transaction;
        self.open = true;
        self.partitions.extend(partitions.iter().cloned());
    }

    /// Begins a transaction, in the client alone. Its number among those of the client.
    pub fn begin(&mut self) -> u64 {
        self.begin_as(self.number + 1)
    }

    /// As [`begin`](Self::begin), under a number that the application knows to be unused: it counts
    /// over several producers of one client.
    pub fn begin_as(&mut self, number: u64) -> u64 {
        self.number = number;
        self.open = true;
        self.partitions.clear();
        self.added_groups.clear();
        let call = Call::Begin {
            transaction: self.number,
        };
        self.begin_operation(call).ok(Reply::Done);
        self.number
    }

    /// Hands over a record of the open transaction. It goes out with the next
    /// [`flush`](Self::flush).
    pub fn send(&mut self, to: &TopicPartition, key: Option<Bytes>, value: Value) {
        self.topics.insert(to.topic.clone());
        let record = Outgoing {
            key,
            value: Bytes::from(value.to_string()),
            timestamp: self.client.wall_ms(),
        };
        let now = self.client.now();
        self.core.append(now, to, record);
    }

    /// Sends what was handed over and waits until it is stored.
    ///
    /// # Errors
    ///
    /// [`Trouble`]: the transaction can't be committed.
    pub async fn flush(&mut self) -> Result<(), Trouble> {
        if let Some(trouble) = self.spoiled {
            return Err(trouble);
        }
        let flushed = self.drive().await;
        self.keep(flushed)
    }

    /// Commits `offsets` of `group` with the transaction (KIP-447): as who, `member` says.
    ///
    /// # Errors
    ///
    /// [`Trouble`]: the transaction can't be committed.
    pub async fn send_offsets(
        &mut self,
        group: &Name,
        member: &Member,
        offsets: &BTreeMap<TopicPartition, i64>,
    ) -> Result<(), Trouble> {
        if let Some(trouble) = self.spoiled {
            return Err(trouble);
        }
        let call = Call::SendOffsets {
            transaction: self.number,
            group: group.clone(),
            member: member.member.clone(),
            generation: member.generation,
            offsets: offsets.iter().map(|(at, to)| (at.clone(), *to)).collect(),
        };
        let operation = self.begin_operation(call);
        let sent = self.stage_offsets(group, member, offsets, &operation).await;
        let reply = Reply::Committed {
            refused: Vec::new(),
        };
        end(operation, &sent, reply);
        self.keep(sent.result.map_err(|refusal| refusal.trouble))
    }

    /// Sends what is left, and commits.
    ///
    /// # Errors
    ///
    /// [`Trouble`]: it is not committed, except after [`Trouble::Unknown`], where nobody knows.
    pub async fn commit(&mut self) -> Result<(), Trouble> {
        self.flush().await?;
        let ended = self.end(true).await;
        self.keep(ended)
    }

    /// Aborts, and makes itself fit for the next transaction.
    ///
    /// # Errors
    ///
    /// [`Trouble`]: the producer is of no use any more.
    pub async fn abort(&mut self) -> Result<(), Trouble> {
        self.settle().await;
        let spoiled = self.spoiled.take();
        // A library that knows that it was fenced asks nobody.
        if let Some(Trouble::Fatal(code)) = spoiled {
            self.open = false;
            return Err(Trouble::Fatal(code));
        }
        self.end(false).await?;
        let broken = self.core.fatal().is_some();
        match spoiled {
            Some(Trouble::Abortable { bump, .. }) if bump || broken => {
                self.identify(self.identity).await
            }
            _ => Ok(()),
        }
    }

    /// What can only be aborted stays so.
    fn keep<T>(&mut self, result: Result<T, Trouble>) -> Result<T, Trouble> {
        if let Err(trouble) = &result {
            self.spoiled = Some(*trouble);
        }
        result
    }

    fn begin_operation(&self, call: Call) -> Operation {
        let within_ms = u64::try_from(WITHIN.as_millis()).unwrap_or(u64::MAX);
        self.client
            .recorder
            .begin(&self.client.id, call, Some(within_ms))
    }

    async fn identify(&mut self, current: Option<Identity>) -> Result<(), Trouble> {
        let operation = self.begin_operation(Call::InitProducer {
            transactional: Some(self.settings.id.clone()),
        });
        let asked = self.ask_identity(current).await;
        let identity = asked.result.as_ref().ok().copied();
        match identity {
            Some(identity) => operation.ok(Reply::Producer(identity)),
            None => end(operation, &asked, Reply::Done),
        }
        self.take_identity(asked.result.map_err(|refusal| refusal.trouble)?);
        Ok(())
    }

    fn take_identity(&mut self, identity: Identity) {
        self.identity = Some(identity);
        self.spoiled = None;
        self.core = core_of(&self.client);
        self.core.handle_identity(identity);
    }

    async fn end(&mut self, commit: bool) -> Result<(), Trouble> {
        let operation = self.begin_operation(Call::End {
            transaction: self.number,
            commit,
        });
        self.open = false;
        if self.partitions.is_empty() && self.added_groups.is_empty() {
            // The coordinator has never heard of it.
            operation.ok(Reply::Done);
            return Ok(());
        }
        let asked = self.ask_end(commit).await;
        end(operation, &asked, Reply::Done);
        match asked.result {
            Ok(Some(next)) if Some(next) != self.identity => {
                self.take_identity(next);
                Ok(())
            }
            Ok(_) => Ok(()),
            Err(refusal) => Err(refusal.trouble),
        }
    }

    fn current(&self) -> Identity {
        self.identity.unwrap_or(Identity { id: -1, epoch: -1 })
    }

    fn judge(&self, asking: Asking, code: ErrorCode) -> Trouble {
        trouble::of(asking, code, self.client.profile.transactions)
    }

    fn refusal(&self, asking: Asking, code: ErrorCode) -> Refusal {
        Refusal {
            trouble: self.judge(asking, code),
            failure: Failure::code(code.code(), code.name()),
        }
    }
}

/// A core that makes up no epoch by itself: a coordinator gives them.
fn core_of(client: &Client) -> Core {
    let mut rules = client.profile.producer;
    rules.idempotent = true;
    rules.max_in_flight = rules.max_in_flight.min(5);
    rules.desynchronised = Desynchronised::Fatal;
    Core::new(
        rules,
        client.profile.retry,
        Arc::clone(&client.host.entropy),
    )
}

/// Ends `operation` as `asked` came out.
fn end<T>(operation: Operation, asked: &Asked<T>, reply: Reply) {
    match &asked.result {
        Ok(_) => operation.ok(reply),
        Err(refusal) if asked.doubtful => operation.unknown(refusal.failure.clone()),
        Err(refusal) => operation.fail(refusal.failure.clone()),
    }
}
