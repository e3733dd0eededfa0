//! Rebalance: consumer groups change while things go wrong. Somebody writes meanwhile, and whatever
//! is written has to be given to the group.

mod loners;

use std::time::Duration;

use futures::FutureExt;
use tokio::task::JoinHandle;

use super::failover;
use super::family::Family;
use super::members::{Group, Habits};
use super::orders::{Orders, TOPIC};
use super::stage::Stage;
use super::{Scenario, Setting};
use crate::client::profile;
use crate::history::TopicPartition;
use crate::schedule::{Kind, Link, Rules, Server};

/// What a group needs at most after the heal: a session expires, a rebalance waits for it, and a
/// call to Queen that began just before the heal comes first.
pub(super) const PATIENCE: Duration = Duration::from_secs(45);
/// Partitions of the topic.
const PARTITIONS: i32 = 4;
/// The requests of a group that may be late.
const GROUP_APIS: &[&str] = &[
    "FindCoordinator",
    "JoinGroup",
    "SyncGroup",
    "Heartbeat",
    "LeaveGroup",
    "OffsetCommit",
    "OffsetFetch",
];

pub(super) const ORDERS: Orders = Orders {
    writers: 4,
    partitions: PARTITIONS,
    batches: 40,
    every: Duration::from_millis(150),
    ..Orders::USUAL
};

/// Groups as an operator has them who can't wait.
pub(super) const SETTING: Setting = Setting {
    partitions: PARTITIONS,
    variables: &[("QUEEN_KAFKA_GROUP_JOIN_DELAY_MS", "300")],
    ..Setting::PLAIN
};

const RULES: Rules = Rules {
    heal_at_ms: 10_000,
    max_steps: 6,
    max_lasting_ms: 4_000,
    clients: &["member-0", "member-1", "member-2"],
    apis: GROUP_APIS,
    ..failover::RULES
};

/// Three members under faults of every kind, and late requests of the group.
pub(super) const GROUPED: Scenario = Scenario {
    name: "",
    about: "",
    family: Family::Rebalance,
    rules: Rules {
        kinds: &[
            (2, Kind::Bounce),
            (1, Kind::Restart),
            (2, Kind::Partition),
            (3, Kind::Repair),
            (2, Kind::Hold),
            (3, Kind::Release),
            (1, Kind::Latency),
            (3, Kind::PauseClient),
            (1, Kind::Pause),
            (2, Kind::Cut),
            (1, Kind::Status),
            (1, Kind::Slow),
            (3, Kind::DelayApi),
        ],
        ..RULES
    },
    planted: None,
    setting: SETTING,
    patience: PATIENCE,
    play: |stage| usual(stage, Habits::default()).boxed(),
    strangers: None,
};

pub(super) const fn seconds(seconds: u64) -> Duration {
    Duration::from_secs(seconds)
}

/// Faults that strike the clients' side alone.
pub(super) const FRONT: Rules = Rules {
    servers: &[Server::Facade],
    links: &[Link::ClientsFacade],
    ..RULES
};

/// All of them.
pub const ALL: &[Scenario] = &[
    Scenario {
        name: "a-group-reads-on",
        about: "whatever is written is given to the group, under every kind of fault",
        ..GROUPED
    },
    Scenario {
        name: "join-storm",
        about: "fifty members that come within a second are one generation after a few rebalances",
        rules: Rules {
            max_steps: 3,
            kinds: &[
                (2, Kind::Bounce),
                (1, Kind::Restart),
                (2, Kind::Latency),
                (1, Kind::Cut),
            ],
            ..FRONT
        },
        play: |stage| {
            let group = Group::new(&stage);
            group.start(50, Habits::default(), Duration::from_millis(20));
            finish(stage, group, ORDERS).boxed()
        },
        ..GROUPED
    },
    Scenario {
        name: "slow-joiner",
        about: "a member whose JoinGroup comes late holds a rebalance up, and no longer than its timeout",
        rules: Rules {
            kinds: &[
                (6, Kind::DelayApi),
                (2, Kind::PauseClient),
                (1, Kind::Bounce),
            ],
            apis: &["JoinGroup", "FindCoordinator"],
            max_lasting_ms: 7_000,
            ..FRONT
        },
        ..GROUPED
    },
    Scenario {
        name: "leader-never-syncs",
        about: "a leader that joins and never assigns is put out, and the others go on without it",
        play: |stage| {
            let group = Group::of(&stage, profile::HURRIED[0]);
            let loner = tokio::spawn(loners::joins_and_is_silent(stage.clone()));
            let habits = Habits {
                after: seconds(1),
                ..Habits::default()
            };
            group.start(2, habits, Duration::from_millis(100));
            async move {
                finish(stage, group, ORDERS).await;
                loner.abort();
            }
            .boxed()
        },
        rules: Rules {
            max_steps: 3,
            clients: &["member-0", "member-1"],
            kinds: &[
                (3, Kind::Bounce),
                (2, Kind::DelayApi),
                (2, Kind::PauseClient),
            ],
            ..FRONT
        },
        ..GROUPED
    },
    Scenario {
        name: "commits-while-a-rebalance-completes",
        about: "offsets committed while members sync are told to try again, or stay; none goes back",
        rules: Rules {
            kinds: &[
                (6, Kind::DelayApi),
                (3, Kind::PauseClient),
                (1, Kind::Cut),
                (1, Kind::Slow),
            ],
            apis: &["SyncGroup", "OffsetCommit", "Heartbeat"],
            ..RULES
        },
        play: |stage| churning(stage, 2, 1, seconds(1)).boxed(),
        ..GROUPED
    },
    Scenario {
        name: "static-members-are-swapped",
        about: "a static member that comes again under its name takes its place, and the old one is fenced",
        rules: Rules {
            kinds: &[
                (3, Kind::PauseClient),
                (2, Kind::DelayApi),
                (1, Kind::Bounce),
                (1, Kind::Hold),
                (2, Kind::Release),
            ],
            clients: &["member-0", "twin-0", "twin-1"],
            ..FRONT
        },
        play: |stage| {
            let group = Group::new(&stage);
            twins(stage, group).boxed()
        },
        ..GROUPED
    },
    Scenario {
        name: "cooperative-members-come-and-go",
        about: "partitions that members give up one by one, with fetches in flight, are read by one at a time",
        rules: Rules {
            kinds: &[
                (3, Kind::PauseClient),
                (2, Kind::DelayApi),
                (2, Kind::Latency),
                (1, Kind::Bounce),
            ],
            ..RULES
        },
        play: |stage| {
            let group = Group::of(&stage, profile::HURRIED[2]);
            group.start(3, Habits::default(), Duration::from_millis(400));
            come_and_go(&group, 1, seconds(2));
            finish(stage, group, ORDERS).boxed()
        },
        ..GROUPED
    },
    Scenario {
        name: "sessions-expire",
        about: "a member that was frozen beyond its session finds its partitions gone, and takes nothing back",
        rules: Rules {
            kinds: &[
                (8, Kind::PauseClient),
                (1, Kind::Hold),
                (1, Kind::Release),
                (1, Kind::Latency),
            ],
            max_lasting_ms: 9_000,
            heal_at_ms: 12_000,
            ..FRONT
        },
        ..GROUPED
    },
    Scenario {
        name: "members-leave-while-others-sync",
        about: "a member that leaves, or crashes, in the middle of a rebalance starts the next one",
        rules: Rules {
            kinds: &[
                (6, Kind::DelayApi),
                (1, Kind::PauseClient),
                (1, Kind::Bounce),
            ],
            apis: &["SyncGroup", "LeaveGroup", "JoinGroup"],
            max_lasting_ms: 2_000,
            ..FRONT
        },
        play: |stage| churning(stage, 2, 2, Duration::from_millis(700)).boxed(),
        ..GROUPED
    },
    Scenario {
        name: "partitions-are-added",
        about: "a group over two topics finds the partitions that one of them gets, and reads them",
        rules: Rules {
            max_steps: 4,
            ..GROUPED.rules
        },
        play: |stage| growing(stage).boxed(),
        ..GROUPED
    },
    Scenario {
        name: "facade-restarts-in-every-phase",
        about: "a coordinator that dies, or drains, while members join or sync is found again by all of them",
        rules: Rules {
            kinds: &[
                (3, Kind::Crash),
                (6, Kind::Bounce),
                (4, Kind::Restart),
                (4, Kind::DelayApi),
            ],
            apis: &["JoinGroup", "SyncGroup", "Heartbeat", "FindCoordinator"],
            max_lasting_ms: 1_500,
            max_steps: 8,
            ..FRONT
        },
        ..GROUPED
    },
    Scenario {
        name: "facade-dies-while-members-sync",
        about: "members that wait for their assignment from a coordinator that dies get one from the next",
        rules: Rules {
            kinds: &[
                (6, Kind::DelayApi),
                (5, Kind::Bounce),
                (2, Kind::Crash),
                (2, Kind::Restart),
            ],
            apis: &["SyncGroup"],
            max_lasting_ms: 2_500,
            max_steps: 8,
            ..FRONT
        },
        play: |stage| churning(stage, 2, 2, Duration::from_millis(700)).boxed(),
        ..GROUPED
    },
    Scenario {
        name: "offsets-commit-by-themselves",
        about: "offsets that libraries commit on their own never pass what was read, nor go back",
        play: |stage| {
            let habits = Habits {
                auto_commit: true,
                ..Habits::default()
            };
            usual(stage, habits).boxed()
        },
        ..GROUPED
    },
];

fn partitions(topic: &str, count: i32) -> Vec<TopicPartition> {
    (0..count)
        .map(|partition| TopicPartition::new(topic, partition))
        .collect()
}

/// Three members, half a second apart.
pub(super) async fn usual(stage: Stage, habits: Habits) {
    let group = Group::new(&stage);
    three(stage, group, habits).await;
}

/// The same of this group.
pub(super) async fn three(stage: Stage, group: Group, habits: Habits) {
    group.start(3, habits, Duration::from_millis(500));
    finish(stage, group, ORDERS).await;
}

/// Members that stay, and others that come and go.
async fn churning(stage: Stage, staying: u32, passing: u32, stay: Duration) {
    let group = Group::new(&stage);
    changing(stage, group, (staying, passing), stay).await;
}

/// The same of this group.
pub(super) async fn changing(
    stage: Stage,
    group: Group,
    (staying, passing): (u32, u32),
    stay: Duration,
) {
    group.start(staying, Habits::default(), Duration::from_millis(300));
    come_and_go(&group, passing, stay);
    finish(stage, group, ORDERS).await;
}

fn come_and_go(group: &Group, members: u32, stay: Duration) {
    for number in 0..members {
        let habits = Habits {
            after: seconds(2),
            stays: Some(stay),
            ..Habits::default()
        };
        group.member(format!("passer-{number}"), habits);
    }
}

/// Two that call themselves by the same static name, one after the other and at once.
pub(super) async fn twins(stage: Stage, group: Group) {
    let group = group.refusable();
    let habits = |after, instance| Habits {
        after,
        instance: Some(instance),
        ..Habits::default()
    };
    group.member("member-0".to_owned(), habits(Duration::ZERO, "solo"));
    for number in 0..2_u32 {
        let passing = Habits {
            stays: Some(seconds(3)),
            ..habits(seconds(1) * (number + 1), "twin")
        };
        group.member(format!("twin-{number}"), passing);
    }
    finish(stage, group, ORDERS).await;
}

/// Writes, waits until the group has settled, and audits.
pub(super) async fn finish(stage: Stage, group: Group, orders: Orders) {
    let mut writers = orders.write(&stage);
    stage.healed().await;
    while writers.join_next().await.is_some() {}
    group
        .settle(&partitions(TOPIC, orders.partitions), orders.total())
        .await;
    group.end();
    stage
        .audit(&TOPIC.into(), orders.partitions, orders.profiles[0])
        .await;
}

/// A second topic gets partitions, and somebody writes to them.
async fn growing(stage: Stage) {
    const MORE: i32 = PARTITIONS + 2;
    let group = Group::new(&stage).reading(&[TOPIC, loners::GROWING]);
    group.start(3, Habits::default(), Duration::from_millis(500));
    let mut writers = ORDERS.write(&stage);
    let grown: JoinHandle<()> = tokio::spawn(loners::grows(stage.clone(), MORE));
    stage.healed().await;
    while writers.join_next().await.is_some() {}
    // A panic was reported where it happened.
    let _ = grown.await;
    let mut all = partitions(TOPIC, PARTITIONS);
    all.extend(partitions(loners::GROWING, MORE));
    let records = ORDERS.total() + loners::GROWING_RECORDS;
    group.settle(&all, records).await;
    group.end();
    let profile = ORDERS.profiles[0];
    stage.audit(&TOPIC.into(), PARTITIONS, profile).await;
    stage.audit(&loners::GROWING.into(), MORE, profile).await;
}
