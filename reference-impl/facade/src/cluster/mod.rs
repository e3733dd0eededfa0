//! Several facades in front of one Queen: the registry that they share, and who owns what.
//!
//! Seed heading "Cluster mode". A node keeps a row in Queen's key/value store and reads those of the
//! others; rendezvous hashing over the live ones names the coordinator of a group and the leader
//! that clients are told of. Leadership is advertised and not enforced: every node serves every
//! partition, because the log is in Queen. Without a node id nothing of this runs.

mod registry;
mod task;
mod view;

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

pub use coordinator::cluster::NodeId;
use coordinator::cluster::rendezvous::{self, Item};
use coordinator::cluster::{Answer, Call, Write};
use coordinator::cluster::{DuplicateNode, Membership, Settings, Standing};
use host::metrics::{Counter, Gauge, Registry};
use host::{Clock, Host};
use tokio::sync::watch;

pub use registry::RELEASE_BUDGET;
pub use view::{Broker, View};

use crate::config::{ClusterConfig, HostPort};
use crate::offsets::Fencing;
use crate::queen::{Client, Credential, Error};

/// What a cluster knows of itself, as its task last left it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Ownership {
    /// This node is the owner.
    Ours,
    /// Another live node is.
    Theirs,
    /// This node cannot say, or may not act: its view is too old, or it has no place in it.
    Unknown,
}

/// This node among the others. Cheap to clone.
#[derive(Clone, Debug)]
pub struct Cluster(Arc<Inner>);

#[derive(Debug)]
struct Inner {
    name: String,
    me: Broker,
    incarnation: Arc<str>,
    settings: Settings,
    clock: Arc<dyn Clock>,
    queen: Arc<Client>,
    credential: Credential,
    since_ms: i64,
    /// Whether this node serves transactions beside others.
    serves_transactions: bool,
    membership: Mutex<Membership>,
    /// Counts the changes of who is live, or of how this node stands.
    changes: watch::Sender<u64>,
    metrics: Metrics,
    /// Why the registry's last call had no answer.
    failure: Mutex<Option<String>>,
}

#[derive(Debug)]
struct Metrics {
    live: Gauge,
    coordinating: Gauge,
    calls: Counter,
    failed: Counter,
}

impl Cluster {
    /// A node that has not claimed its number yet; [`Cluster::claim`] does.
    pub fn new(
        host: &Host,
        queen: Arc<Client>,
        credential: Credential,
        config: &ClusterConfig,
        (name, serves_transactions): (&str, bool),
        advertised: &HostPort,
        registry: &Registry,
    ) -> Self {
        let mut life = [0; 8];
        host.entropy.fill(&mut life);
        let incarnation: Arc<str> = life.map(|byte| format!("{byte:02x}")).concat().into();
        let settings = Settings {
            heartbeat: config.heartbeat,
            ttl: config.ttl,
        };
        let now = host.clock.monotonic();
        let membership = Membership::new(config.id, Arc::clone(&incarnation), settings, now);
        Self(Arc::new(Inner {
            name: name.to_owned(),
            me: Broker {
                id: config.id,
                host: advertised.host.as_str().into(),
                port: advertised.port,
            },
            incarnation,
            settings,
            clock: Arc::clone(&host.clock),
            queen,
            credential,
            since_ms: host.clock.wall().epoch_ms(),
            serves_transactions,
            membership: Mutex::new(membership),
            changes: watch::Sender::new(0),
            metrics: Metrics::new(registry),
            failure: Mutex::default(),
        }))
    }

    /// This node's number.
    pub fn id(&self) -> NodeId {
        self.0.me.id
    }

    /// Which life of this node this is.
    pub fn incarnation(&self) -> &Arc<str> {
        &self.0.incarnation
    }

    /// How this node stands now.
    pub fn standing(&self) -> Standing {
        let now = self.0.clock.monotonic();
        self.0.membership().standing(now)
    }

    /// Who is live, as far as is known: this node always is.
    pub fn view(&self) -> View {
        let nodes = Arc::clone(self.0.membership().nodes());
        View::new(self.0.me.clone(), Some(nodes))
    }

    /// The ids of the live nodes in the newest view of the registry.
    pub fn live(&self) -> Vec<NodeId> {
        self.0.membership().nodes().keys().copied().collect()
    }

    /// Whether all live nodes serve transactions over several of them.
    pub fn serves_transactions(&self) -> bool {
        let membership = self.0.membership();
        let mut others = membership.nodes().iter();
        let me = self.0.me.id;
        self.0.serves_transactions && others.all(|(id, row)| *id == me || row.serves_transactions)
    }

    /// Whether this node owns `item` by what the registry says now, not by its last view: nobody
    /// who joined since can have acted as the owner before the call.
    pub async fn confirms(&self, item: Item<'_>) -> bool {
        if self.ownership(item) != Ownership::Ours {
            return false;
        }
        let answer = registry::call(&self.0, Call::Heartbeat(Write::No)).await;
        let Answer::Heartbeat(_, rows) = answer else {
            return false;
        };
        let mine = rows.get(&self.0.me.id);
        mine.is_some_and(|row| row.incarnation == self.0.incarnation)
            && rendezvous::owner(item, rows.keys().copied()) == Some(self.0.me.id)
    }

    /// Who owns `item`, for a request that must meet its owner.
    pub fn ownership(&self, item: Item<'_>) -> Ownership {
        let now = self.0.clock.monotonic();
        let membership = self.0.membership();
        if membership.standing(now) != Standing::Coordinating {
            return Ownership::Unknown;
        }
        let live = membership.nodes().keys().copied();
        match rendezvous::owner(item, live) {
            Some(owner) if owner == self.0.me.id => Ownership::Ours,
            Some(_) => Ownership::Theirs,
            None => Ownership::Unknown,
        }
    }

    /// Hears of every change of who is live, or of how this node stands.
    pub fn changes(&self) -> watch::Receiver<u64> {
        self.0.changes.subscribe()
    }

    /// Claims this node's number: returns when it is held, or when the registry cannot be reached
    /// (which is no reason not to serve records). Waits for a dead predecessor's row.
    ///
    /// # Errors
    ///
    /// [`DuplicateNode`]: another live process has the number.
    pub async fn claim(&self) -> Result<(), DuplicateNode> {
        task::claim(&self.0).await
    }

    /// Keeps the row and the view young until the node has stopped or lost its number for good.
    ///
    /// # Errors
    ///
    /// [`DuplicateNode`] when the claim was not over and fails.
    pub async fn run(self) -> Result<(), DuplicateNode> {
        task::run(&self.0).await
    }

    /// Gives the number back, within [`RELEASE_BUDGET`]: peers see it at their next heartbeat.
    pub async fn release(&self) {
        task::release(&self.0).await;
    }
}

impl Inner {
    /// The registry answered, or did not because of `error`.
    fn reached(&self, error: Option<&Error>) {
        let text = error.map(Error::to_string);
        *self.failure.lock().unwrap_or_else(PoisonError::into_inner) = text;
    }

    /// Why the registry's last call had no answer; empty when it had one.
    fn why(&self) -> String {
        let failure = self.failure.lock().unwrap_or_else(PoisonError::into_inner);
        failure.clone().unwrap_or_default()
    }

    fn membership(&self) -> MutexGuard<'_, Membership> {
        // Every change leaves it whole.
        self.membership
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
    }
}

impl Metrics {
    fn new(registry: &Registry) -> Self {
        Self {
            live: registry.gauge(
                "cluster_live_nodes",
                "Live nodes of the cluster in this node's newest view.",
                &[],
            ),
            coordinating: registry.gauge(
                "cluster_coordinating",
                "1 while this node may coordinate groups, else 0.",
                &[],
            ),
            calls: registry.counter(
                "cluster_registry_calls_total",
                "Calls to the registry.",
                &[],
            ),
            failed: registry.counter(
                "cluster_registry_failures_total",
                "Calls to the registry without an answer.",
                &[],
            ),
        }
    }
}

impl Fencing for Cluster {
    fn node(&self) -> i32 {
        self.id().0
    }

    fn incarnation(&self) -> &str {
        &self.0.incarnation
    }

    fn owns(&self, group: &str) -> bool {
        self.ownership(Item::Group(group)) == Ownership::Ours
    }
}
