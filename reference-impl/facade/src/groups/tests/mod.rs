//! Groups over a scripted Queen. Time is paused: it moves when everybody waits.

mod consumer;
mod handlers;
mod registry;
mod versions;

use std::net::{Ipv4Addr, SocketAddr};
use std::sync::Arc;
use std::time::Duration;

use coordinator::classic::{
    GenerationId, GroupError, JoinRefusal, JoinRequest, Joined, MemberId, MemberRef, Protocols,
    SyncRequest,
};
use host::shutdown::{Trigger, shutdown};
use kafka_protocol::protocol::StrBytes;
use kafka_wire::ErrorCode;

use super::{Committer, GroupName};
use crate::config::{Config, HostPort};
use crate::context::{Context, Node, NodeParts, Session, SessionId};
use crate::metrics::Metrics;
use crate::offsets::{Commit, Receipt};
use crate::queen::Scope;
use crate::scripted_queen::{ScriptedQueen, test_host};

/// A node over a scripted Queen.
struct World {
    queen: ScriptedQueen,
    node: Arc<Node>,
    stop: Trigger,
}

impl World {
    fn new() -> Self {
        Self::with(Config::local())
    }

    fn with(config: Config) -> Self {
        let queen = ScriptedQueen::start();
        let (stop, shutdown) = shutdown();
        let node = Node::new(NodeParts {
            host: test_host(),
            config: Arc::new(config),
            upstream: queen.connector(),
            advertised: HostPort::new("kafka.example", 9092),
            shutdown,
            metrics: Arc::new(Metrics::default()),
        });
        Self { queen, node, stop }
    }

    fn cx(&self, version: i16) -> Context {
        let peer = SocketAddr::from((Ipv4Addr::LOCALHOST, 40_000));
        Context {
            node: Arc::clone(&self.node),
            session: Session::new(SessionId(1), peer, None),
            version,
            client_id: Some(StrBytes::from_static_str("app")),
            received: self.node.host.clock.monotonic(),
            room: crate::room::Room::new(&self.node.budgets.answers, None),
        }
    }

    fn name(&self, id: &str) -> GroupName {
        GroupName::new(&self.cx(0).session.scope, id).unwrap()
    }

    fn request(&self) -> JoinRequest {
        JoinRequest {
            member_id: MemberId::unknown(),
            instance_id: None,
            client_id: "app".into(),
            client_host: "/127.0.0.1".into(),
            session_timeout: Duration::from_secs(10),
            rebalance_timeout: Duration::from_secs(60),
            protocol_type: "consumer".into(),
            protocols: Protocols::copy_of([("range", subscription(&["t"]).as_slice())]),
            require_known_member_id: false,
            supports_skip_assignment: false,
            reason: None,
            random: self.node.host.entropy.uuid_v4(),
        }
    }

    async fn join(&self, name: &GroupName, request: JoinRequest) -> Result<Joined, JoinRefusal> {
        self.node.groups.join(name, request, None).await
    }

    async fn heartbeat(&self, name: &GroupName, member: MemberRef) -> Result<(), GroupError> {
        self.node.groups.heartbeat(name, member, None).await
    }

    async fn commit(
        &self,
        name: &GroupName,
        member: MemberRef,
        commit: Commit,
    ) -> Result<Receipt, ErrorCode> {
        let committer = Committer {
            member,
            knows_epochs: false,
            partitions: Vec::new(),
        };
        let accepted = self.node.groups.commit(name, committer, commit).await;
        accepted.map(|accepted| accepted.receipt)
    }

    /// A stable group of one.
    async fn stable(&self, id: &str) -> Joined {
        let name = self.name(id);
        let joined = self.join(&name, self.request()).await.unwrap();
        let synced = self.node.groups.sync(&name, sync(&joined)).await;
        assert!(synced.is_ok());
        joined
    }
}

fn weighing(bytes: usize) -> Protocols {
    Protocols::copy_of([("range", vec![0; bytes].as_slice())])
}

fn subscription(topics: &[&str]) -> Vec<u8> {
    let mut bytes = vec![0, 0];
    bytes.extend((topics.len() as i32).to_be_bytes());
    for topic in topics {
        bytes.extend((topic.len() as i16).to_be_bytes());
        bytes.extend(topic.as_bytes());
    }
    bytes.extend((-1_i32).to_be_bytes());
    bytes
}

fn member(joined: &Joined) -> MemberRef {
    MemberRef {
        member_id: joined.member_id.clone(),
        instance_id: None,
        generation_id: joined.generation_id,
    }
}

fn sync(joined: &Joined) -> SyncRequest {
    SyncRequest {
        member: member(joined),
        protocol_type: None,
        protocol_name: None,
        assignments: vec![],
    }
}

fn anonymous() -> MemberRef {
    MemberRef {
        member_id: MemberId::unknown(),
        instance_id: None,
        generation_id: GenerationId::NONE,
    }
}

fn other_scope(id: &str) -> GroupName {
    GroupName::new(&Scope::new("other"), id).unwrap()
}
