//! What a handler works with: the process ([`Node`]), the connection ([`Session`]) and the request
//! ([`Context`]); and what it may answer ([`Reply`]).

use std::fmt;
use std::net::SocketAddr;
use std::sync::{Arc, OnceLock};

use futures::FutureExt;
use futures::future::BoxFuture;
use host::sampled::Sampler;
use host::shutdown::Shutdown;
use host::tls::Acceptor;
use host::{Connect, Host, Monotonic, Secret};
use kafka_protocol::protocol::StrBytes;

pub use coordinator::cluster::NodeId;

use crate::catalogue::Catalogue;
use crate::cluster::{Broker, Cluster, View};
use crate::config::{Config, HostPort, TransactionStage};
use crate::fetch::Fetching;
use crate::floors::Floors;
use crate::groups::{self, GroupName, Groups};
use crate::metrics::Metrics;
use crate::offsets::{Fencing, Offsets};
use crate::produce::{Overtaken, Produce};
use crate::queen::{Client, Credential, Scope};
use crate::room::{Budgets, Room};
use crate::security::{Authentication, Identities};
use crate::time_index::TimeIndex;
use crate::transactions::{Alone, InCluster, Ownership, Transactions};

/// What [`Node::new`] builds a node from.
#[derive(Debug)]
pub struct NodeParts {
    /// The machine.
    pub host: Host,
    /// The settings.
    pub config: Arc<Config>,
    /// Streams to Queen: remote or in this process.
    pub upstream: Arc<dyn Connect>,
    /// The address that clients are told to connect to.
    pub advertised: HostPort,
    /// Hears the stop of this node.
    pub shutdown: Shutdown,
    /// The series of this node.
    pub metrics: Arc<Metrics>,
}

/// The state of one facade, shared by all its connections.
#[derive(Debug)]
pub struct Node {
    /// The machine: clocks, entropy, network.
    pub host: Host,
    /// The settings.
    pub config: Arc<Config>,
    /// The broker id that clients see.
    pub node_id: NodeId,
    /// The address that clients are told to connect to.
    pub advertised: HostPort,
    /// Streams to Queen.
    pub upstream: Arc<dyn Connect>,
    /// Hears the drain: from then on nothing parks, and what is parked is answered.
    pub shutdown: Shutdown,
    /// Counters, gauges and histograms; `metrics.registry` takes more.
    pub metrics: Arc<Metrics>,
    /// The memory that requests, answers and reads may hold together.
    pub budgets: Budgets,
    /// For lines about responses that can't be encoded.
    pub unencodable: Sampler,
    /// Calls to Queen.
    pub queen: Arc<Client>,
    /// The topics of every tenant.
    pub catalogue: Catalogue,
    /// Sequence windows and gathered pushes.
    pub produce: Produce,
    /// Fetch sessions and what was read ahead.
    pub fetching: Fetching,
    /// Offsets by time.
    pub time_index: Arc<TimeIndex>,
    /// Where DeleteRecords moved the start of logs.
    pub floors: Arc<Floors>,
    /// Committed offsets of every tenant.
    pub offsets: Offsets,
    /// The consumer groups this node coordinates.
    pub groups: Groups,
    /// Whose the credentials are that clients authenticate with.
    pub identities: Identities,
    /// TLS of the Kafka listener; `None` is plaintext.
    pub tls: Option<Acceptor>,
    /// The other facades; `None` outside cluster mode.
    pub cluster: Option<Cluster>,
    /// The transactions this node coordinates.
    pub transactions: Transactions,
}

impl Node {
    /// A node that serves nobody yet.
    pub fn new(parts: NodeParts) -> Arc<Self> {
        let in_flight_bytes = parts.config.listener.max_in_flight_bytes;
        let budgets = Budgets::of(in_flight_bytes, &parts.metrics.budget);
        let queen = Client::for_url(&parts.host, parts.upstream.clone(), &parts.config.queen_url);
        let queen = queen.counted_in(&parts.metrics.registry);
        let queen = Arc::new(queen.reading_within(budgets.reads.clone()));
        let catalogue = Catalogue::new(
            &parts.host,
            queen.clone(),
            parts.config.default_partitions.get(),
            parts.config.node.is_some(),
            &parts.metrics.registry,
        );
        let cluster = parts.config.node.as_ref().map(|node| {
            let credential = Credential {
                bearer: parts.config.queen_token.clone(),
                host: None,
            };
            Cluster::new(
                &parts.host,
                queen.clone(),
                credential,
                node,
                (
                    &parts.config.cluster,
                    parts.config.transactions.stage == TransactionStage::Queen,
                ),
                &parts.advertised,
                &parts.metrics.registry,
            )
        });
        let offsets = Offsets::over(
            &parts.host,
            queen.clone(),
            parts.shutdown.clone(),
            &parts.metrics.registry,
            cluster
                .clone()
                .map(|cluster| Arc::new(cluster) as Arc<dyn Fencing>),
        );
        let groups = Groups::new(
            &parts.host,
            &parts.config.groups,
            offsets.clone(),
            parts.shutdown.clone(),
            &parts.metrics.registry,
            cluster.clone(),
        );
        let coordinates: (i32, Arc<dyn Ownership>) = match &cluster {
            Some(cluster) => (cluster.id().0, Arc::new(InCluster(cluster.clone()))),
            None => (NodeId::SINGLE.0, Arc::new(Alone)),
        };
        let transactions = Transactions::new(
            &parts.host,
            queen.clone(),
            parts.config.transactions.clone(),
            offsets.clone(),
            coordinates,
            parts.shutdown.clone(),
            &parts.metrics.registry,
        );
        let time_index = Arc::new(TimeIndex::new());
        let produce = Produce::new(
            &parts.host,
            (queen.clone(), cluster.is_some()),
            time_index.clone(),
            parts.shutdown.clone(),
            &parts.metrics.registry,
        );
        let tls = parts.config.security.tls.as_ref();
        let tls = tls.map(|tls| Acceptor::new(tls.identity.clone(), parts.host.clock.clone()));
        Arc::new(Self {
            identities: Identities::new(&parts.host, queen.clone()),
            tls,
            produce,
            fetching: Fetching::new(parts.config.fetch_sessions, &parts.metrics.registry),
            time_index,
            floors: Arc::new(Floors::new(&parts.host, queen.clone())),
            queen,
            catalogue,
            offsets,
            groups,
            transactions,
            host: parts.host,
            config: parts.config,
            node_id: cluster.as_ref().map_or(NodeId::SINGLE, Cluster::id),
            cluster,
            advertised: parts.advertised,
            upstream: parts.upstream,
            shutdown: parts.shutdown,
            metrics: parts.metrics,
            budgets,
            unencodable: Sampler::default(),
        })
    }

    /// The nodes that clients are told of, as of now.
    pub fn view(&self) -> View {
        match &self.cluster {
            Some(cluster) => cluster.view(),
            None => View::new(
                Broker {
                    id: self.node_id,
                    host: self.advertised.host.as_str().into(),
                    port: self.advertised.port,
                },
                None,
            ),
        }
    }

    /// The cluster id that clients see.
    pub fn cluster_id(&self) -> &str {
        &self.config.cluster
    }
}

/// A number for each connection of a node, in order of arrival.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct SessionId(pub u64);

impl fmt::Display for SessionId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
    }
}

/// What a client says it is (ApiVersions v3 and later). Printable, bounded, not to be trusted.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ClientSoftware {
    /// For example `librdkafka`.
    pub name: StrBytes,
    /// For example `2.12.1`.
    pub version: StrBytes,
}

/// One connection.
#[derive(Debug)]
pub struct Session {
    /// Its number.
    pub id: SessionId,
    /// The other end.
    pub peer: SocketAddr,
    /// Who its calls to Queen are made as.
    pub credential: Credential,
    /// Whose state it works on: topic caches, groups and producers are filed under it. Empty on a
    /// listener that authenticates nobody.
    pub scope: Scope,
    /// What the client said it is, once it has.
    pub software: Arc<OnceLock<ClientSoftware>>,
    /// What the connection has proved.
    pub authentication: Arc<Authentication>,
    /// When `credential` was proved; `None` when it is the process's own.
    pub since: Option<Monotonic>,
    /// Batches that were refused and have not come again.
    pub overtaken: Arc<Overtaken>,
}

impl Session {
    /// A session that reaches Queen with the process's own token.
    pub fn new(id: SessionId, peer: SocketAddr, token: Option<Secret<String>>) -> Arc<Self> {
        let credential = Credential {
            bearer: token,
            host: None,
        };
        Self::first(id, peer, credential, false)
    }

    /// The first session of a connection. When it has to authenticate, `credential` brings no
    /// bearer. A `Host` of its own sets its state apart: it may lead to another tenant.
    pub fn first(
        id: SessionId,
        peer: SocketAddr,
        credential: Credential,
        authenticates: bool,
    ) -> Arc<Self> {
        let scope = match &credential.host {
            Some(host) => Scope::new(&format!("host:{host}")),
            None => Scope::new(""),
        };
        Arc::new(Self {
            id,
            peer,
            credential,
            scope,
            software: Arc::default(),
            authentication: Authentication::new(authenticates),
            since: None,
            overtaken: Arc::default(),
        })
    }

    /// The session that follows on the same connection when `credential` was proved at `since`.
    pub fn authenticated(
        &self,
        credential: Credential,
        scope: Scope,
        since: Monotonic,
    ) -> Arc<Self> {
        Arc::new(Self {
            id: self.id,
            peer: self.peer,
            credential,
            scope,
            software: Arc::clone(&self.software),
            authentication: Arc::clone(&self.authentication),
            since: Some(since),
            overtaken: Arc::clone(&self.overtaken),
        })
    }
}

/// One request, as its handler sees it. Cheap to clone.
#[derive(Clone, Debug)]
pub struct Context {
    /// The process.
    pub node: Arc<Node>,
    /// The connection.
    pub session: Arc<Session>,
    /// The version of the request, inside the window of its API.
    pub version: i16,
    /// The client id of the request header.
    pub client_id: Option<StrBytes>,
    /// When the request's last byte arrived.
    pub received: Monotonic,
    /// What it holds of the node's memory.
    pub room: Room,
}

impl Context {
    /// The group `id` of this connection's tenant, if this node coordinates it.
    ///
    /// # Errors
    ///
    /// [`groups::Refused`]: no state may be touched.
    pub fn group(&self, id: &str) -> Result<GroupName, groups::Refused> {
        groups::owned(self.node.cluster.as_ref(), &self.session.scope, id)
    }
}

/// How a request ends.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Answer<R> {
    /// With a response.
    Send(R),
    /// Without one (Produce with acks=0).
    Silence,
    /// With the end of the connection and this reason in the log (acks=0 that failed: the only way
    /// left to make the client ask for metadata again).
    Close(&'static str),
}

/// What a handler that does not simply answer returns. Only Produce needs it.
pub enum Reply<R> {
    /// The request is over.
    Now(Answer<R>),
    /// The request is admitted, and its order is fixed: a Produce behind it may start. The future
    /// is polled by the connection and dropped with it, so work that must not stop half way runs
    /// elsewhere.
    Later(BoxFuture<'static, Answer<R>>),
}

impl<R: Send + 'static> Reply<R> {
    /// A response now.
    pub fn now(response: R) -> Self {
        Self::Now(Answer::Send(response))
    }

    /// No response.
    pub fn none() -> Self {
        Self::Now(Answer::Silence)
    }

    /// An answer when `answer` ends.
    pub fn later(answer: impl Future<Output = Answer<R>> + Send + 'static) -> Self {
        Self::Later(answer.boxed())
    }
}

impl<R: Send + 'static> From<R> for Reply<R> {
    fn from(response: R) -> Self {
        Self::now(response)
    }
}
