//! Quotas: Queen, or a proxy before her, refuses calls with 429 for a while, with Retry-After or
//! without, or freezes. Clients that obey a throttle and clients that don't lose nothing by it.

use futures::FutureExt;

use super::failover::RELAYED;
use super::family::Family;
use super::members::Habits;
use super::orders::Orders;
use super::rebalance;
use super::transaction::eos::Loop;
use super::transaction::ledger::Ledger;
use super::{PATIENCE, Scenario, Setting};
use crate::client::profile;
use crate::schedule::{Kind, Link, Rules, Server};

/// Storms, and now and then a facade that is lost in one.
const STORMS: Rules = Rules {
    kinds: &[
        (10, Kind::Throttle),
        (2, Kind::Slow),
        (1, Kind::Bounce),
        (1, Kind::Pause),
    ],
    servers: &[Server::Facade, Server::Queen],
    ..RELAYED
};

const QUOTA: Scenario = Scenario {
    name: "",
    about: "",
    family: Family::QuotaThrottle,
    rules: STORMS,
    planted: None,
    setting: Setting {
        relay: true,
        ..Setting::PLAIN
    },
    patience: PATIENCE,
    play: |stage| WRITERS.play(stage).boxed(),
    strangers: None,
};

/// librdkafka ignores a throttle; the others obey.
pub(super) const WRITERS: Orders = Orders {
    profiles: &[
        &profile::LIBRDKAFKA.hurried().idempotent(),
        &profile::JAVA.hurried(),
        &profile::FRANZ_GO.hurried(),
    ],
    ..Orders::USUAL
};

/// Storms under a group whose members are lost meanwhile.
const GROUPS: Rules = Rules {
    heal_at_ms: 10_000,
    kinds: &[
        (8, Kind::Throttle),
        (3, Kind::PauseClient),
        (1, Kind::Slow),
        (1, Kind::Bounce),
    ],
    clients: &["member-0", "member-1", "member-2"],
    ..STORMS
};

/// All of them.
pub const ALL: &[Scenario] = &[
    Scenario {
        name: "throttled-writers",
        about: "a storm of 429 costs writers time and no record, whether they obey a throttle or not",
        ..QUOTA
    },
    Scenario {
        name: "throttled-group",
        about: "a storm of 429 costs a group time, through rebalances, and never sleeps over its offsets",
        rules: GROUPS,
        setting: Setting {
            relay: true,
            ..rebalance::SETTING
        },
        patience: rebalance::PATIENCE,
        play: |stage| rebalance::usual(stage, Habits::default()).boxed(),
        ..QUOTA
    },
    Scenario {
        name: "throttled-transactions",
        about: "a storm of 429 in any phase of a transaction costs time, and tears nothing",
        play: |stage| Ledger::USUAL.play(stage).boxed(),
        ..QUOTA
    },
    Scenario {
        name: "throttled-loop",
        about: "a loop that reads, transforms and writes makes one record of each through a storm of 429",
        patience: super::transaction::LOOP_PATIENCE,
        play: |stage| Loop::USUAL.play(stage).boxed(),
        ..QUOTA
    },
    Scenario {
        name: "frozen-queen",
        about: "calls that freeze for seconds, and are refused when they thaw, cost time and no record",
        rules: Rules {
            kinds: &[(5, Kind::Slow), (3, Kind::Pause), (3, Kind::Throttle)],
            servers: &[Server::Queen, Server::Relay],
            links: &[Link::FacadeRelay],
            max_lasting_ms: 6_000,
            ..STORMS
        },
        ..QUOTA
    },
];
