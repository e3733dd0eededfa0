//! Transactions: what lands, lands together; what was fenced or aborted is seen by nobody; and a
//! loop that reads, transforms and writes neither loses nor repeats. Except where a scenario says
//! otherwise, calls to Queen pass through a relay.
//!
//! Each of them is tried with both stages (docs/decisions/transaction-stage.md).

pub mod ledger;

use futures::FutureExt;

use super::failover::RELAYED;
use super::family::Family;
use super::{PATIENCE, Scenario, Setting};
use crate::client::{Profile, profile};
use crate::schedule::{Kind, Rules};
use ledger::Ledger;

/// Every library in a hurry, as it writes in transactions.
pub const PROFILES: &[&Profile] = &[
    &profile::LIBRDKAFKA.hurried().idempotent(),
    &profile::JAVA.hurried(),
    &profile::FRANZ_GO.hurried(),
];

const MEMORY: Setting = Setting {
    relay: true,
    variables: &[("QUEEN_KAFKA_TXN_STAGE", "memory")],
    ..Setting::PLAIN
};

const QUEEN: Setting = Setting {
    variables: &[("QUEEN_KAFKA_TXN_STAGE", "queen")],
    ..MEMORY
};

/// Every fault, and those of ends of transactions more often.
const RULES: Rules = Rules {
    kinds: &[
        (1, Kind::Crash),
        (3, Kind::Bounce),
        (2, Kind::Restart),
        (2, Kind::Pause),
        (2, Kind::Partition),
        (3, Kind::Repair),
        (2, Kind::Hold),
        (3, Kind::Release),
        (1, Kind::Latency),
        (1, Kind::WallJump),
        (1, Kind::Status),
        (3, Kind::Cut),
        (1, Kind::Slow),
        (8, Kind::EndOfTransaction),
    ],
    ..RELAYED
};

const TRANSACTION: Scenario = Scenario {
    name: "",
    about: "",
    family: Family::Transaction,
    rules: RULES,
    planted: None,
    setting: MEMORY,
    patience: PATIENCE,
    play: |stage| Ledger::USUAL.play(stage).boxed(),
    strangers: None,
};

/// All of them.
pub const ALL: &[Scenario] = &[
    Scenario {
        name: "transactions-land-together",
        about: "what a transaction wrote is there as a whole or not at all, once, under every kind of fault",
        ..TRANSACTION
    },
    Scenario {
        name: "transactions-staged-in-queen",
        about: "the same where open transactions wait in Queen, and outlive their facade",
        setting: QUEEN,
        ..TRANSACTION
    },
];
