//! What a client knows of the cluster, and its connections to it. Clones are the same one.
//!
//! Metadata is asked for as the profile says: when it is too old, and when an answer showed that it
//! is wrong. Connections are made when they are needed, one for each purpose that has its own.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use host::Monotonic;
use kafka_protocol::messages::metadata_request::MetadataRequestTopic;
use kafka_protocol::messages::metadata_response::MetadataResponseTopic;
use kafka_protocol::messages::{MetadataRequest, MetadataResponse};
use kafka_wire::ErrorCode;
use tokio::sync::Mutex as AsyncMutex;
use tokio::time::sleep;

use super::profile::Purpose;
use super::{CallError, Client, Connection, error_code, name, topic_name};

use crate::history::{Name, TopicPartition};

/// The wire's type of a topic's id.
pub type TopicId = uuid::Uuid;

/// A host and a port.
type Address = (String, u16);

/// Whom a connection goes to.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum Lane {
    Bootstrap,
    Broker(i32, Purpose),
}

/// Who leads a partition.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Leader {
    /// The broker.
    pub node: i32,
    /// Its epoch; -1 where the version has none.
    pub epoch: i32,
}

/// A topic as Metadata describes it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Topic {
    /// Its id; zero where the version has none.
    pub id: TopicId,
    /// Its partitions that have a leader.
    pub leaders: BTreeMap<i32, Leader>,
    /// How many partitions it has.
    pub partitions: i32,
}

#[derive(Default)]
struct State {
    brokers: BTreeMap<i32, Address>,
    controller: Option<i32>,
    topics: BTreeMap<Name, Topic>,
    /// Topics about which an answer was wrong.
    stale: BTreeSet<Name>,
    asked_at: Option<Monotonic>,
    known_at: Option<Monotonic>,
}

#[derive(Default)]
struct Slot {
    connection: Option<Connection>,
    failures: u32,
    not_before: Option<Monotonic>,
}

struct Inner {
    client: Client,
    state: Mutex<State>,
    lanes: Mutex<BTreeMap<Lane, Arc<AsyncMutex<Slot>>>>,
    /// One Metadata request at a time.
    refreshing: AsyncMutex<()>,
    /// Whom to ask next when nobody is connected.
    turn: Mutex<usize>,
}

/// The cluster.
#[derive(Clone)]
pub struct Cluster(Arc<Inner>);

impl fmt::Debug for Cluster {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Cluster")
            .field("client", &self.0.client.id)
            .finish_non_exhaustive()
    }
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    // Nothing panics while it holds one of these.
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

impl Cluster {
    /// A cluster of which only the bootstrap server is known.
    pub fn new(client: Client) -> Self {
        Self(Arc::new(Inner {
            client,
            state: Mutex::default(),
            lanes: Mutex::default(),
            refreshing: AsyncMutex::default(),
            turn: Mutex::default(),
        }))
    }

    /// Whose view it is.
    pub fn client(&self) -> &Client {
        &self.0.client
    }

    fn slot(&self, lane: Lane) -> Arc<AsyncMutex<Slot>> {
        Arc::clone(lock(&self.0.lanes).entry(lane).or_default())
    }

    /// The connection to broker `node` for `purpose`: the open one, or a new one.
    ///
    /// # Errors
    ///
    /// [`CallError`]; the next try may succeed, and waits as long as the profile says.
    pub async fn connection(&self, node: i32, purpose: Purpose) -> Result<Connection, CallError> {
        let purpose = self.0.client.profile.lane(purpose);
        let address = lock(&self.0.state).brokers.get(&node).cloned();
        let address = address.ok_or(CallError::NoBroker(node))?;
        self.open(Lane::Broker(node, purpose), &address).await
    }

    async fn open(&self, lane: Lane, address: &Address) -> Result<Connection, CallError> {
        let client = &self.0.client;
        let slot = self.slot(lane);
        let mut slot = slot.lock().await;
        if let Some(open) = slot.connection.as_ref().filter(|held| held.is_open()) {
            return Ok(open.clone());
        }
        slot.connection = None;
        if let Some(not_before) = slot.not_before {
            sleep(not_before.saturating_since(client.now())).await;
        }
        match Connection::open(client, address).await {
            Ok(connection) => {
                slot.failures = 0;
                slot.connection = Some(connection.clone());
                // A connection that breaks at once is not made again at once.
                let wait = client.profile.reconnect.after(1, &*client.host.entropy);
                slot.not_before = Some(client.now() + wait);
                Ok(connection)
            }
            Err(error) => {
                slot.failures += 1;
                let rule = client.profile.reconnect;
                let wait = rule.after(slot.failures, &*client.host.entropy);
                slot.not_before = Some(client.now() + wait);
                Err(error)
            }
        }
    }

    /// Whether anything is known beside the bootstrap server.
    pub fn knows_brokers(&self) -> bool {
        !lock(&self.0.state).brokers.is_empty()
    }

    /// A connection to any broker: an open one, or one to the next of those known. The bootstrap
    /// server is asked while no broker is known, and when they can't be reached.
    ///
    /// # Errors
    ///
    /// [`CallError`]; the next try asks another one.
    pub async fn any(&self) -> Result<Connection, CallError> {
        let brokers = lock(&self.0.state).brokers.clone();
        let mut lanes: Vec<_> = brokers
            .into_iter()
            .map(|(node, address)| (Lane::Broker(node, Purpose::Control), address))
            .collect();
        for (lane, _) in &lanes {
            let slot = self.slot(*lane);
            // One that is being made is not open yet.
            if let Ok(slot) = slot.try_lock()
                && let Some(open) = slot.connection.as_ref().filter(|held| held.is_open())
            {
                return Ok(open.clone());
            }
        }
        lanes.push((Lane::Bootstrap, self.0.client.bootstrap.clone()));
        let turn = *lock(&self.0.turn) % lanes.len();
        let (lane, address) = &lanes[turn];
        let opened = self.open(*lane, address).await;
        if opened.is_err() {
            *lock(&self.0.turn) += 1;
        }
        opened
    }

    /// A connection to the controller, or to any broker where none is known.
    ///
    /// # Errors
    ///
    /// [`CallError`].
    pub async fn controller(&self) -> Result<Connection, CallError> {
        let controller = lock(&self.0.state).controller;
        match controller {
            Some(node) => self.connection(node, Purpose::Control).await,
            None => self.any().await,
        }
    }

    /// Remembers where a coordinator is.
    pub fn meet(&self, node: i32, address: (String, u16)) {
        lock(&self.0.state).brokers.insert(node, address);
    }

    /// Who leads `at`.
    pub fn leader(&self, at: &TopicPartition) -> Option<Leader> {
        let state = lock(&self.0.state);
        let topic = state.topics.get(&at.topic)?;
        let leader = topic.leaders.get(&at.partition).copied()?;
        // Brokers are those of the last answer, which may have been about other topics.
        state.brokers.contains_key(&leader.node).then_some(leader)
    }

    /// The topic, once it is known.
    pub fn topic(&self, topic: &Name) -> Option<Topic> {
        lock(&self.0.state).topics.get(topic).cloned()
    }

    /// The name of the topic with this id.
    pub fn topic_of_id(&self, id: TopicId) -> Option<Name> {
        let state = lock(&self.0.state);
        let mut topics = state.topics.iter();
        topics
            .find(|(_, topic)| topic.id == id)
            .map(|(name, _)| name.clone())
    }

    /// An answer showed that what is known of `topic` is wrong.
    pub fn is_wrong_about(&self, topic: &Name) {
        lock(&self.0.state).stale.insert(topic.clone());
    }

    /// Whether [`refresh`](Self::refresh) is due for `topics`.
    pub fn is_due(&self, topics: &BTreeSet<Name>) -> bool {
        let (now, max_age) = (self.0.client.now(), self.0.client.profile.metadata.max_age);
        let state = lock(&self.0.state);
        let old = state
            .known_at
            .is_none_or(|at| now.saturating_since(at) >= max_age);
        let wrong = |name: &Name| {
            let leaderless = |topic: &Topic| {
                let mut leaders = topic.leaders.values();
                leaders.any(|leader| !state.brokers.contains_key(&leader.node))
            };
            state.topics.get(name).is_none_or(leaderless) || state.stale.contains(name)
        };
        old || topics.iter().any(wrong)
    }

    /// Asks for Metadata of `topics`, which are created where `create` says so and the broker lets
    /// it. Errors of single topics are in [`topic`](Self::topic): it isn't there, or has no leader.
    ///
    /// # Errors
    ///
    /// [`CallError`]; nothing has changed.
    pub async fn refresh(&self, topics: &BTreeSet<Name>, create: bool) -> Result<(), CallError> {
        let client = &self.0.client;
        let wanted_at = client.now();
        let _one_at_a_time = self.0.refreshing.lock().await;
        let asked_at = lock(&self.0.state).asked_at;
        if let Some(asked_at) = asked_at {
            if asked_at > wanted_at && !self.is_due(topics) {
                // Somebody else has asked meanwhile.
                return Ok(());
            }
            let since = client.now().saturating_since(asked_at);
            sleep(client.profile.metadata.min_age.saturating_sub(since)).await;
        }
        lock(&self.0.state).asked_at = Some(client.now());
        let asked = topics
            .iter()
            .map(|topic| MetadataRequestTopic::default().with_name(Some(topic_name(topic))));
        let request = MetadataRequest::default()
            .with_topics(Some(asked.collect()))
            .with_allow_auto_topic_creation(create);
        let response = self.any().await?.call(&request).await?;
        self.learn(&response)
    }

    fn learn(&self, response: &MetadataResponse) -> Result<(), CallError> {
        let mut brokers = BTreeMap::new();
        for broker in &response.brokers {
            let port = u16::try_from(broker.port)
                .map_err(|_| CallError::malformed("a port that is none in Metadata"))?;
            brokers.insert(broker.node_id.0, (broker.host.to_string(), port));
        }
        if brokers.is_empty() {
            return Err(CallError::malformed("Metadata without a broker"));
        }
        let mut state = lock(&self.0.state);
        for described in &response.topics {
            let Some(topic) = described.name.as_ref() else {
                return Err(CallError::malformed("Metadata of a topic without its name"));
            };
            let topic = name(&topic.0);
            state.stale.remove(&topic);
            match error_code(described.error_code)? {
                ErrorCode::None => {
                    let known = described_topic(described, &brokers)?;
                    if known.leaders.len() < described.partitions.len() {
                        state.stale.insert(topic.clone());
                    }
                    state.topics.insert(topic, known);
                }
                ErrorCode::UnknownTopicOrPartition => {
                    state.topics.remove(&topic);
                }
                // What was known may still be right.
                _ => {
                    state.stale.insert(topic);
                }
            }
        }
        state.controller = brokers
            .contains_key(&response.controller_id.0)
            .then_some(response.controller_id.0);
        state.brokers = brokers;
        state.known_at = Some(self.0.client.now());
        drop(state);
        *lock(&self.0.turn) = 0;
        Ok(())
    }

    /// Ends every connection.
    pub async fn close(&self) {
        let lanes: Vec<_> = lock(&self.0.lanes).values().cloned().collect();
        for slot in lanes {
            if let Some(connection) = slot.lock().await.connection.take() {
                connection.close("the client is done");
            }
        }
    }
}

fn described_topic(
    described: &MetadataResponseTopic,
    brokers: &BTreeMap<i32, Address>,
) -> Result<Topic, CallError> {
    let mut leaders = BTreeMap::new();
    for partition in &described.partitions {
        let node = partition.leader_id.0;
        if error_code(partition.error_code)? == ErrorCode::None && brokers.contains_key(&node) {
            let epoch = partition.leader_epoch;
            leaders.insert(partition.partition_index, Leader { node, epoch });
        }
    }
    Ok(Topic {
        id: described.topic_id,
        leaders,
        partitions: i32::try_from(described.partitions.len())
            .map_err(|_| CallError::malformed("more partitions than can be numbered"))?,
    })
}
