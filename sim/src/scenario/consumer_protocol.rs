//! Rebalance under KIP-848: the coordinator assigns, members move by epochs. The checkers are those of
//! classic groups, but for what generations say: see the history's `check::epochs`.

use std::time::Duration;

use futures::FutureExt;

use super::members::{Group, Habits};
use super::rebalance::{FRONT, GROUPED, ORDERS, changing, finish, seconds, three, twins};
use super::stage::Stage;
use super::{Scenario, Setting, rebalance};
use crate::client::profile::{HURRIED, JAVA_CONSUMER_PROTOCOL};
use crate::schedule::{Kind, Rules};

/// The requests of such a group that may be late.
const APIS: &[&str] = &[
    "FindCoordinator",
    "ConsumerGroupHeartbeat",
    "OffsetCommit",
    "OffsetFetch",
];

/// Sessions as short as a facade lets them be.
const SETTING: Setting = Setting {
    variables: &[
        ("QUEEN_KAFKA_GROUP_JOIN_DELAY_MS", "300"),
        ("QUEEN_KAFKA_GROUP_CONSUMER_SESSION_TIMEOUT_MS", "5000"),
        ("QUEEN_KAFKA_GROUP_CONSUMER_HEARTBEAT_INTERVAL_MS", "500"),
    ],
    ..rebalance::SETTING
};

/// Three members under faults of every kind.
const EPOCHS: Scenario = Scenario {
    rules: Rules {
        apis: APIS,
        ..GROUPED.rules
    },
    setting: SETTING,
    play: |stage| {
        let group = group(&stage);
        three(stage, group, Habits::default()).boxed()
    },
    ..GROUPED
};

/// Faults that strike the clients' side alone.
const NEAR: Rules = Rules {
    apis: APIS,
    ..FRONT
};

fn group(stage: &Stage) -> Group {
    Group::of(stage, &JAVA_CONSUMER_PROTOCOL)
}

/// All of them.
pub const ALL: &[Scenario] = &[
    Scenario {
        name: "consumer-protocol-reads-on",
        about: "whatever is written is given to a group of KIP-848, under every kind of fault",
        ..EPOCHS
    },
    Scenario {
        name: "consumer-protocol-join-storm",
        about: "fifty members that come within a second are at one epoch after a few heartbeats",
        rules: Rules {
            max_steps: 3,
            kinds: &[
                (2, Kind::Bounce),
                (1, Kind::Restart),
                (2, Kind::Latency),
                (1, Kind::DelayApi),
            ],
            ..NEAR
        },
        play: |stage| {
            let group = group(&stage);
            group.start(50, Habits::default(), Duration::from_millis(20));
            finish(stage, group, ORDERS).boxed()
        },
        ..EPOCHS
    },
    Scenario {
        name: "consumer-protocol-late-heartbeats",
        about: "a heartbeat that comes late, behind those that were sent for want of its answer, takes nothing from who is right",
        rules: Rules {
            kinds: &[
                (8, Kind::DelayApi),
                (1, Kind::PauseClient),
                (1, Kind::Latency),
            ],
            apis: &["ConsumerGroupHeartbeat"],
            max_lasting_ms: 7_000,
            heal_at_ms: 12_000,
            ..NEAR
        },
        play: |stage| {
            let group = group(&stage);
            changing(stage, group, (2, 2), seconds(2)).boxed()
        },
        ..EPOCHS
    },
    Scenario {
        name: "consumer-protocol-sessions-expire",
        about: "a member that was frozen beyond its session is fenced, and takes nothing back",
        rules: Rules {
            kinds: &[
                (8, Kind::PauseClient),
                (1, Kind::Hold),
                (1, Kind::Release),
                (1, Kind::Latency),
            ],
            max_lasting_ms: 9_000,
            heal_at_ms: 12_000,
            ..NEAR
        },
        ..EPOCHS
    },
    Scenario {
        name: "consumer-protocol-coordinator-restarts",
        about: "a coordinator that dies, or drains, and knows nobody any more has all its members back",
        rules: Rules {
            kinds: &[
                (3, Kind::Crash),
                (6, Kind::Bounce),
                (4, Kind::Restart),
                (4, Kind::DelayApi),
            ],
            max_lasting_ms: 1_500,
            max_steps: 8,
            ..NEAR
        },
        play: |stage| {
            let group = group(&stage);
            changing(stage, group, (3, 1), seconds(2)).boxed()
        },
        ..EPOCHS
    },
    Scenario {
        name: "consumer-protocol-commits-while-epochs-change",
        about: "offsets committed with an epoch that has passed are refused, or stay; none goes back",
        rules: Rules {
            kinds: &[
                (6, Kind::DelayApi),
                (3, Kind::PauseClient),
                (1, Kind::Cut),
                (1, Kind::Slow),
            ],
            apis: &["OffsetCommit", "ConsumerGroupHeartbeat"],
            ..GROUPED.rules
        },
        play: |stage| {
            let group = group(&stage);
            changing(stage, group, (2, 2), seconds(1)).boxed()
        },
        ..EPOCHS
    },
    Scenario {
        name: "consumer-protocol-static-members",
        about: "a static member that comes again gets its place when it was released, and not before",
        rules: Rules {
            kinds: &[
                (3, Kind::PauseClient),
                (2, Kind::DelayApi),
                (1, Kind::Bounce),
                (1, Kind::Hold),
                (2, Kind::Release),
            ],
            clients: &["member-0", "twin-0", "twin-1"],
            ..NEAR
        },
        play: |stage| {
            let group = group(&stage);
            twins(stage, group).boxed()
        },
        ..EPOCHS
    },
    Scenario {
        name: "consumer-protocol-migrates",
        about: "members of both protocols share a group that changes from one to the other and back",
        rules: Rules {
            kinds: &[
                (2, Kind::Bounce),
                (3, Kind::DelayApi),
                (3, Kind::PauseClient),
                (1, Kind::Latency),
            ],
            apis: &[
                "ConsumerGroupHeartbeat",
                "JoinGroup",
                "SyncGroup",
                "Heartbeat",
                "OffsetCommit",
            ],
            max_steps: 4,
            ..NEAR
        },
        play: |stage| migrating(stage).boxed(),
        ..EPOCHS
    },
];

/// Two classic members stay, and one of the new protocol comes and goes beside a classic one.
async fn migrating(stage: Stage) {
    // The Java client's: its assignors are those that the coordinator knows.
    let group = Group::of(&stage, HURRIED[1]);
    group.start(2, Habits::default(), Duration::from_millis(300));
    let passing = |after, profile| Habits {
        after,
        profile,
        stays: Some(seconds(3)),
        ..Habits::default()
    };
    let modern: &_ = &JAVA_CONSUMER_PROTOCOL;
    group.member("member-2".to_owned(), passing(seconds(1), Some(modern)));
    group.member("passer-0".to_owned(), passing(seconds(2), None));
    finish(stage, group, ORDERS).await;
}
