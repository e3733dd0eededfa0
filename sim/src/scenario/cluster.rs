//! A cluster of three facades: its nodes die and stop, and clients follow the leaders and
//! coordinators that they are told of.

use std::time::Duration;

use facade::cluster::NodeId;
use facade::config::{ClusterConfig, Config};
use futures::FutureExt;
use host::Secret;

use super::family::Family;
use super::members::{Group, Habits};
use super::orders::Orders;
use super::transaction::eos::Loop;
use super::transaction::ledger::Ledger;
use super::{Scenario, Setting, failover, rebalance, transaction};
use crate::client::profile;
use crate::schedule::{Kind, Link, Rules, Server};
use crate::trace::Node;

/// Between two writes of a node's row.
const HEARTBEAT: Duration = Duration::from_millis(500);
/// How long a node that is silent stays live.
const TTL: Duration = Duration::from_secs(3);
/// What clients need at most after the heal: a node that restarted waits for its own row, a session
/// expires and a rebalance waits for it, and a call to Queen that began just before comes first.
const PATIENCE: Duration = Duration::from_secs(60);
const PARTITIONS: i32 = 4;
/// The nodes, in order of their ids.
const NODES: [Node; 3] = [Node::Facade, Node::Facade2, Node::Facade3];

/// Order and single storage are demanded of whichever node leads
/// (docs/decisions/cluster-producers.md).
const ORDERS: Orders = Orders {
    writers: 4,
    partitions: PARTITIONS,
    batches: 60,
    every: Duration::from_millis(150),
    doors: &NODES,
    ..Orders::USUAL
};

const RULES: Rules = Rules {
    heal_at_ms: 14_000,
    max_steps: 8,
    max_lasting_ms: 5_000,
    servers: &[
        Server::Facade,
        Server::Facade2,
        Server::Facade3,
        Server::Queen,
    ],
    links: &[
        Link::ClientsFacade,
        Link::ClientsFacade2,
        Link::ClientsFacade3,
        Link::FacadeQueen,
        Link::Facade2Queen,
        Link::Facade3Queen,
    ],
    ..failover::RULES
};

/// Nodes that die and nodes that stop. What writes is tried under these, and groups only under stops:
/// a group that moves begins again at generation 1, without those who have not heard of it yet, and
/// the checkers take a generation for one owner's.
const NODES_DIE: &[(u32, Kind)] = &[
    (2, Kind::Crash),
    (5, Kind::Bounce),
    (3, Kind::Restart),
    (1, Kind::WallJump),
];

/// What moves coordinators of transactions in every phase, and loses their answers.
const COORDINATORS_MOVE: Rules = Rules {
    kinds: &[
        (2, Kind::Crash),
        (5, Kind::Bounce),
        (4, Kind::Restart),
        (2, Kind::Hold),
        (2, Kind::Release),
        (2, Kind::Cut),
        (1, Kind::WallJump),
        (6, Kind::EndOfTransaction),
    ],
    apis: &["EndTxn", "Produce", "TxnOffsetCommit"],
    ..RULES
};

const LEDGER: Ledger = Ledger {
    partitions: PARTITIONS,
    doors: &NODES,
    ..Ledger::USUAL
};

const LEDGER_2: Ledger = Ledger {
    profiles: &[&profile::TRANSACTIONS_2],
    ..LEDGER
};

/// Calls of a transaction reach three nodes and each asks Queen: fewer records in the same time.
const LOOP: Loop = Loop {
    doors: &NODES,
    orders: Orders {
        batches: 20,
        ..Loop::USUAL.orders
    },
    ..Loop::USUAL
};

/// The number of a node, from where clients reach it.
fn number(host: &str) -> i32 {
    let at = NODES.iter().position(|node| node.name() == host);
    at.and_then(|at| i32::try_from(at).ok()).unwrap_or(0) + 1
}

fn clustered(config: &mut Config) {
    config.queen_token = Some(Secret::new("cluster".to_owned()));
    config.node = Some(ClusterConfig {
        id: NodeId(number(&config.advertised.host)),
        heartbeat: HEARTBEAT,
        ttl: TTL,
    });
}

const CLUSTER: Scenario = Scenario {
    name: "",
    about: "",
    family: Family::Failover,
    rules: Rules {
        kinds: NODES_DIE,
        ..RULES
    },
    planted: None,
    setting: Setting {
        facades: 3,
        partitions: PARTITIONS,
        variables: &[("QUEEN_KAFKA_GROUP_JOIN_DELAY_MS", "300")],
        configure: clustered,
        ..Setting::PLAIN
    },
    patience: PATIENCE,
    play: |stage| ORDERS.play(stage).boxed(),
    strangers: None,
};

/// A scenario of transactions. What is open waits in Queen, where every node finds it.
const TRANSACTIONS: Scenario = Scenario {
    family: Family::Transaction,
    rules: COORDINATORS_MOVE,
    setting: Setting {
        variables: &[
            ("QUEEN_KAFKA_GROUP_JOIN_DELAY_MS", "300"),
            ("QUEEN_KAFKA_TXN_STAGE", "queen"),
        ],
        ..CLUSTER.setting
    },
    play: |stage| LEDGER.play(stage).boxed(),
    ..CLUSTER
};

/// All of them.
pub const ALL: &[Scenario] = &[
    Scenario {
        name: "transactions-in-a-cluster",
        about: "what a transaction wrote through several nodes is there as a whole or not at all, once and in order, whichever node ends it",
        ..TRANSACTIONS
    },
    Scenario {
        name: "transactions-of-version-2-in-a-cluster",
        about: "the same where the coordinator hears of a transaction at its end only (KIP-890)",
        play: |stage| LEDGER_2.play(stage).boxed(),
        ..TRANSACTIONS
    },
    Scenario {
        name: "loop-in-a-cluster-that-restarts",
        about: "a loop that reads, transforms and writes makes one record of each while its nodes stop and start in turn",
        rules: Rules {
            kinds: &[
                (4, Kind::Restart),
                (1, Kind::EndOfTransaction),
                (1, Kind::Latency),
            ],
            ..COORDINATORS_MOVE
        },
        setting: Setting {
            partitions: LOOP.orders.partitions,
            ..TRANSACTIONS.setting
        },
        play: |stage| LOOP.play(stage).boxed(),
        patience: transaction::LOOP_PATIENCE,
        ..TRANSACTIONS
    },
    Scenario {
        name: "leaders-move-in-a-cluster",
        about: "what producers were told is stored is there, whichever node led",
        ..CLUSTER
    },
    Scenario {
        name: "rolling-restart-of-a-cluster",
        about: "nodes that stop in good order, one after the other, cost no record and no circle of redirects",
        rules: Rules {
            kinds: &[(1, Kind::Restart)],
            servers: &[Server::Facade, Server::Facade2, Server::Facade3],
            ..RULES
        },
        play: |stage| {
            let group = Group::new(&stage);
            group.start(2, Habits::default(), Duration::from_millis(500));
            rebalance::finish(stage, group, ORDERS).boxed()
        },
        ..CLUSTER
    },
];

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_node_has_a_number_of_its_own() {
        assert_eq!(NODES.map(|node| number(node.name())), [1, 2, 3]);
    }
}
