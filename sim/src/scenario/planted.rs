//! Planted faults that need no double: a disk that lies, a producer that repeats itself.

use futures::FutureExt;

use super::failover::RULES;
use super::family::Family;
use super::orders::Orders;
use super::{PATIENCE, Scenario, Setting};
use crate::client::profile;
use crate::history::Anomaly;
use crate::schedule::{Kind, Rules};

/// A planted fault shows soon, and many runs are spent on shrinking it.
const PLANTED: Scenario = Scenario {
    name: "",
    about: "",
    family: Family::Planted,
    rules: Rules {
        heal_at_ms: 4_000,
        kinds: &[
            (2, Kind::Crash),
            (4, Kind::Bounce),
            (3, Kind::Partition),
            (4, Kind::Repair),
            (3, Kind::Hold),
            (4, Kind::Release),
        ],
        ..RULES
    },
    planted: None,
    setting: Setting::PLAIN,
    patience: PATIENCE,
    play: |stage| SHORT.play(stage).boxed(),
    strangers: None,
};

const SHORT: Orders = Orders {
    batches: 30,
    ..Orders::USUAL
};

/// All of them.
pub const ALL: &[Scenario] = &[
    Scenario {
        name: "planted-disk-forgets",
        about: "Queen's disk loses its last confirmed syncs at a power cut: the checker sees lost writes",
        planted: Some(Anomaly::LostWrite),
        setting: Setting {
            lying_syncs: 4,
            ..Setting::PLAIN
        },
        ..PLANTED
    },
    Scenario {
        name: "planted-plain-producer",
        about: "a producer without idempotence sends again what was stored: the checker sees duplicates",
        planted: Some(Anomaly::Duplicate),
        play: |stage| {
            let orders = Orders {
                profiles: &[&profile::PLAIN],
                ..SHORT
            };
            orders.play(stage).boxed()
        },
        ..PLANTED
    },
];
