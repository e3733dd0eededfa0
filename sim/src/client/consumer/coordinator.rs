//! The coordinator of a group: where it is, and what it is asked. Every question of a member goes
//! into the history. Where the coordinator of a transactional id is, it finds out as well.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::{Mutex, PoisonError};
use std::time::Duration;

use kafka_protocol::messages::FindCoordinatorRequest;
use kafka_wire::{ApiKey, ErrorCode};
use tokio::sync::Mutex as AsyncMutex;

use super::assignor::{Assignment, Assignor, Subscription};
use super::membership::{Identity, Joined, Trouble};
use super::reconciler::{Beat, Says};
use super::wire;
use crate::client::cluster::Cluster;
use crate::client::profile::Purpose;
use crate::client::{CallError, Client, Connection, refused, text};
use crate::history::{Call, Failure, Name, Operation, Reply, TopicPartition};

/// How much longer than the rebalance may take JoinGroup is waited for; Kafka's
/// `JOIN_GROUP_TIMEOUT_LAPSE`.
const JOIN_LAPSE: Duration = Duration::from_secs(5);

/// FindCoordinator's types of keys.
const GROUP: i8 = 0;
const TRANSACTION: i8 = 1;

/// The coordinator of one group, or of one transactional id.
#[derive(Debug)]
pub(in crate::client) struct Coordinator {
    pub group: Name,
    /// What `group` is the name of.
    kind: i8,
    client: Client,
    cluster: Cluster,
    node: Mutex<Option<i32>>,
    /// One FindCoordinator at a time.
    finding: AsyncMutex<()>,
}

/// What came of an OffsetCommit.
pub(super) type Committed = Result<Vec<(TopicPartition, ErrorCode)>, CallError>;

impl Coordinator {
    pub(in crate::client) fn new(cluster: Cluster, group: Name) -> Self {
        Self {
            group,
            kind: GROUP,
            client: cluster.client().clone(),
            cluster,
            node: Mutex::default(),
            finding: AsyncMutex::default(),
        }
    }

    /// The one of the transactional id `id`.
    pub(in crate::client) fn of_transactions(cluster: Cluster, id: Name) -> Self {
        Self {
            kind: TRANSACTION,
            ..Self::new(cluster, id)
        }
    }

    fn node(&self) -> Option<i32> {
        *self.node.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn set(&self, node: Option<i32>) {
        *self.node.lock().unwrap_or_else(PoisonError::into_inner) = node;
    }

    /// It has to be found again.
    pub(in crate::client) fn is_wrong(&self) {
        self.set(None);
    }

    pub(in crate::client) async fn connection(
        &self,
        purpose: Purpose,
    ) -> Result<Connection, CallError> {
        let node = match self.node() {
            Some(node) => node,
            None => self.find().await?,
        };
        let connected = self.cluster.connection(node, purpose).await;
        if connected.is_err() {
            self.is_wrong();
        }
        connected
    }

    /// Finds and connects it, however long that takes.
    pub(super) async fn meet(&self) {
        let mut failures = 0;
        while let Err(error) = self.connection(Purpose::Coordinator).await {
            self.trouble(&error);
            failures += 1;
            self.client.back_off(failures).await;
        }
    }

    /// Asks any broker where it is.
    pub(in crate::client) async fn find(&self) -> Result<i32, CallError> {
        let _one_at_a_time = self.finding.lock().await;
        if let Some(node) = self.node() {
            // Somebody else has asked meanwhile.
            return Ok(node);
        }
        let connection = self.cluster.any().await?;
        let key = text(&self.group);
        let several = connection.version(ApiKey::FIND_COORDINATOR) >= Some(4);
        let request = FindCoordinatorRequest::default().with_key_type(self.kind);
        let request = match several {
            true => request.with_coordinator_keys(vec![key]),
            false => request.with_key(key),
        };
        let response = connection.call(&request).await?;
        refused(response.error_code)?;
        let (node, host, port) = match response.coordinators.first() {
            Some(found) => {
                refused(found.error_code)?;
                (found.node_id.0, found.host.to_string(), found.port)
            }
            None => (response.node_id.0, response.host.to_string(), response.port),
        };
        let port = u16::try_from(port)
            .map_err(|_| CallError::malformed("a port that is none in FindCoordinator"))?;
        self.cluster.meet(node, (host, port));
        self.set(Some(node));
        Ok(node)
    }

    fn begin(&self, call: Call, within: Duration) -> Operation {
        let within_ms = u64::try_from(within.as_millis()).unwrap_or(u64::MAX);
        self.client
            .recorder
            .begin(&self.client.id, call, Some(within_ms))
    }

    /// Connecting may take its time before a request has its own.
    fn bound(&self, answer: Duration) -> Duration {
        let profile = self.client.profile;
        answer + (profile.connect_timeout + profile.reconnect.max + profile.request_timeout) * 3
    }

    pub(super) async fn join(
        &self,
        identity: &Identity,
        subscription: &Subscription,
    ) -> Result<Joined, (Trouble, Name)> {
        let rules = &self.client.profile.group;
        let timeout = self
            .client
            .profile
            .request_timeout
            .max(rules.rebalance_timeout + JOIN_LAPSE);
        let call = Call::Join {
            group: self.group.clone(),
            member: identity.member.clone(),
            instance: identity.instance.clone(),
        };
        let operation = self.begin(call, self.bound(timeout));
        let mut given = Name::default();
        let answer = async {
            let request = wire::join_request(rules, &self.group, identity, subscription)?;
            let connection = self.connection(Purpose::Rebalance).await?;
            let mut ticket = connection.send_within(&request, timeout, i16::MAX)?;
            let response = ticket.answer().await?;
            given = Name::from(response.member_id.as_str());
            refused(response.error_code)?;
            let joined = wire::joined(&response)?;
            Ok((joined, Name::from(response.leader.as_str())))
        }
        .await;
        match answer {
            Ok((joined, leader)) => {
                let members = joined.members.iter().flat_map(BTreeMap::keys).cloned();
                operation.ok(Reply::Joined {
                    generation: joined.generation,
                    member: joined.member.clone(),
                    leader,
                    protocol: joined.assignor.name().into(),
                    members: members.collect(),
                });
                Ok(joined)
            }
            Err(error) => Err((self.fail(operation, &error), given)),
        }
    }

    pub(super) async fn sync(
        &self,
        identity: &Identity,
        assignor: Assignor,
        assignment: &Assignment,
    ) -> Result<BTreeSet<TopicPartition>, Trouble> {
        let rules = &self.client.profile.group;
        let timeout = self
            .client
            .profile
            .request_timeout
            .max(rules.rebalance_timeout + JOIN_LAPSE);
        let call = Call::Sync {
            group: self.group.clone(),
            member: identity.member.clone(),
            generation: identity.generation,
        };
        let operation = self.begin(call, self.bound(timeout));
        let answer = async {
            let request = wire::sync_request(&self.group, identity, assignor, assignment)?;
            let connection = self.connection(Purpose::Rebalance).await?;
            let mut ticket = connection.send_within(&request, timeout, i16::MAX)?;
            let response = ticket.answer().await?;
            refused(response.error_code)?;
            wire::decode_assignment(response.assignment)
        }
        .await;
        match answer {
            Ok(assigned) => {
                operation.ok(Reply::Synced {
                    assignment: assigned.iter().cloned().collect(),
                });
                Ok(assigned)
            }
            Err(error) => Err(self.fail(operation, &error)),
        }
    }

    pub(super) async fn heartbeat(&self, identity: &Identity) -> Result<(), Trouble> {
        let call = Call::Heartbeat {
            group: self.group.clone(),
            member: identity.member.clone(),
            generation: identity.generation,
            instance: identity.instance.clone(),
        };
        let operation = self.begin(call, self.bound(self.client.profile.request_timeout));
        let answer = async {
            let connection = self.connection(Purpose::Coordinator).await?;
            let request = wire::heartbeat_request(&self.group, identity);
            let response = connection.call(&request).await?;
            refused(response.error_code)
        }
        .await;
        match answer {
            Ok(()) => {
                operation.ok(Reply::Done);
                Ok(())
            }
            Err(error) => Err(self.fail(operation, &error)),
        }
    }

    /// A ConsumerGroupHeartbeat of a member of `topics`, whose ids it finds out where it has to.
    pub(super) async fn beat(
        &self,
        identity: &Identity,
        says: &Says,
        topics: &BTreeSet<Name>,
    ) -> Result<Beat, Trouble> {
        let call = Call::ConsumerHeartbeat {
            group: self.group.clone(),
            member: identity.member.clone(),
            instance: identity.instance.clone(),
            epoch: identity.generation,
            owned: says
                .owned
                .as_ref()
                .map(|owned| owned.iter().cloned().collect()),
        };
        // Topics whose ids are not known are looked up beside it.
        let bound = self.bound(self.client.profile.request_timeout) * 2;
        let operation = self.begin(call, bound);
        let answer = async {
            let connection = self.connection(Purpose::Coordinator).await?;
            let rules = &self.client.profile.group;
            let id = |topic: &Name| self.cluster.topic(topic).map(|topic| topic.id);
            let request = wire::beat_request(rules, &self.group, identity, says, topics, id)?;
            let response = connection.call(&request).await?;
            refused(response.error_code)?;
            let assigned = wire::assigned_ids(&response);
            if assigned
                .iter()
                .flatten()
                .any(|(id, _)| self.cluster.topic_of_id(*id).is_none())
            {
                for topic in topics {
                    self.cluster.is_wrong_about(topic);
                }
                self.cluster.refresh(topics, false).await?;
            }
            let name = |id| self.cluster.topic_of_id(id);
            wire::beat(&response, assigned, name)
        }
        .await;
        match answer {
            Ok(beat) => {
                let assignment = beat.assignment.as_ref();
                operation.ok(Reply::Beat {
                    member: beat.member.clone(),
                    epoch: beat.epoch,
                    assignment: assignment.map(|assigned| assigned.iter().cloned().collect()),
                });
                Ok(beat)
            }
            Err(error) => Err(self.fail(operation, &error)),
        }
    }

    /// Leaves, as well as it can: nobody waits for more.
    pub(super) async fn leave(&self, identity: &Identity) {
        let call = Call::Leave {
            group: self.group.clone(),
            member: identity.member.clone(),
            instance: identity.instance.clone(),
        };
        let operation = self.begin(call, self.bound(self.client.profile.request_timeout));
        let answer = async {
            let connection = self.connection(Purpose::Coordinator).await?;
            let version = connection.version(ApiKey::LEAVE_GROUP).unwrap_or_default();
            let request = wire::leave_request(&self.group, identity, version);
            let response = connection.call(&request).await?;
            refused(response.error_code)?;
            response
                .members
                .iter()
                .try_for_each(|member| refused(member.error_code))
        }
        .await;
        match answer {
            Ok(()) => operation.ok(Reply::Done),
            Err(error) => {
                self.fail(operation, &error);
            }
        }
    }

    /// One OffsetCommit. The history is its caller's, who may send it again, and hears when it goes
    /// out.
    pub(super) async fn commit(
        &self,
        identity: &Identity,
        offsets: &BTreeMap<TopicPartition, i64>,
        goes_out: impl FnOnce(),
    ) -> Committed {
        let answer = async {
            let connection = self.connection(Purpose::Coordinator).await?;
            let request = wire::commit_request(&self.group, identity, offsets);
            goes_out();
            wire::commit_refusals(&connection.call(&request).await?)
        }
        .await;
        if let Err(error) = &answer {
            self.trouble(error);
        }
        answer
    }

    /// The committed offsets of `partitions`.
    pub(super) async fn committed(
        &self,
        partitions: &[TopicPartition],
    ) -> Result<BTreeMap<TopicPartition, Option<i64>>, CallError> {
        let call = Call::FetchOffsets {
            group: self.group.clone(),
            partitions: partitions.to_vec(),
        };
        let operation = self.begin(call, self.bound(self.client.profile.request_timeout));
        let answer = async {
            let connection = self.connection(Purpose::Coordinator).await?;
            let version = connection.version(ApiKey::OFFSET_FETCH).unwrap_or_default();
            let request = wire::offset_fetch_request(&self.group, partitions, version);
            wire::committed(&connection.call(&request).await?, version)
        }
        .await;
        match answer {
            Ok(offsets) => {
                let told = offsets.iter().map(|(at, offset)| (at.clone(), *offset));
                operation.ok(Reply::Offsets(told.collect()));
                Ok(offsets)
            }
            Err(error) => {
                self.fail(operation, &error);
                Err(error)
            }
        }
    }

    fn fail(&self, operation: Operation, error: &CallError) -> Trouble {
        let trouble = self.trouble(error);
        let failure = failure(error);
        if error.has_no_effect() {
            operation.fail(failure);
        } else {
            operation.unknown(failure);
        }
        trouble
    }

    fn trouble(&self, error: &CallError) -> Trouble {
        self.client.lament(error);
        match error.code() {
            Some(code) => {
                if matches!(
                    code,
                    ErrorCode::NotCoordinator | ErrorCode::CoordinatorNotAvailable
                ) {
                    self.is_wrong();
                }
                Trouble::Code(code)
            }
            None => {
                self.is_wrong();
                Trouble::NoAnswer
            }
        }
    }
}

/// The failure for the history.
pub(in crate::client) fn failure(error: &CallError) -> Failure {
    match error.code() {
        Some(code) => Failure::code(code.code(), code.name()),
        None => Failure::here(error.to_string()),
    }
}
