//! Transactions: what lands, lands together; what was fenced or aborted is seen by nobody; and a
//! loop that reads, transforms and writes neither loses nor repeats. Except where a scenario says
//! otherwise, calls to Queen pass through a relay.
//!
//! Each of them is tried with both stages (docs/decisions/transaction-stage.md).

pub mod eos;
pub mod ledger;
pub mod mirror;

use std::time::Duration;

use futures::FutureExt;

use super::failover::RELAYED;
use super::family::Family;
use super::{PATIENCE, Scenario, Setting};
use crate::client::{Profile, profile};
use crate::schedule::{Kind, Link, Rules, Server};
use eos::Loop;
use ledger::Ledger;

/// Every library in a hurry, as it writes in transactions.
pub const PROFILES: &[&Profile] = &[
    &profile::LIBRDKAFKA.hurried().idempotent(),
    &profile::JAVA.hurried(),
    &profile::FRANZ_GO.hurried(),
];

/// Groups change while something is read, not before.
const HASTY: (&str, &str) = ("QUEEN_KAFKA_GROUP_JOIN_DELAY_MS", "300");

const MEMORY: Setting = Setting {
    relay: true,
    variables: &[("QUEEN_KAFKA_TXN_STAGE", "memory"), HASTY],
    ..Setting::PLAIN
};

const QUEEN: Setting = Setting {
    variables: &[("QUEEN_KAFKA_TXN_STAGE", "queen"), HASTY],
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

/// Machines that hold a transaction die, or are told to stop.
const DEATHS: Rules = Rules {
    kinds: &[
        (2, Kind::Crash),
        (8, Kind::Bounce),
        (4, Kind::Restart),
        (1, Kind::Cut),
        (3, Kind::EndOfTransaction),
    ],
    servers: &[Server::Facade],
    ..RULES
};

/// Queen is away, for seconds.
const OUTAGES: Rules = Rules {
    kinds: &[
        (3, Kind::Crash),
        (5, Kind::Bounce),
        (3, Kind::Pause),
        (2, Kind::Partition),
        (2, Kind::Repair),
        (1, Kind::EndOfTransaction),
    ],
    servers: &[Server::Queen, Server::Relay],
    links: &[Link::FacadeRelay, Link::RelayQueen],
    ..RULES
};

/// Answers are lost after what they answer was done.
const LOST_ANSWERS: Rules = Rules {
    kinds: &[
        (8, Kind::EndOfTransaction),
        (3, Kind::Cut),
        (1, Kind::Bounce),
        (2, Kind::Hold),
        (2, Kind::Release),
    ],
    servers: &[Server::Facade, Server::Relay],
    links: &[Link::ClientsFacade, Link::FacadeRelay],
    ..RULES
};

/// Requests arrive after their client gave up waiting, and asked again elsewhere.
const LATE: Rules = Rules {
    kinds: &[
        (8, Kind::DelayApi),
        (1, Kind::Bounce),
        (2, Kind::EndOfTransaction),
        (1, Kind::Latency),
    ],
    apis: &[
        "EndTxn",
        "Produce",
        "AddPartitionsToTxn",
        "InitProducerId",
        "TxnOffsetCommit",
    ],
    max_lasting_ms: 6_000,
    ..RULES
};

/// The coordinator dies while it adds offsets to a transaction, which takes its time.
const DEATHS_AT_OFFSETS: Rules = Rules {
    kinds: &[
        (6, Kind::DelayApi),
        (5, Kind::Bounce),
        (2, Kind::Crash),
        (2, Kind::Restart),
    ],
    servers: &[Server::Facade],
    apis: &["AddOffsetsToTxn", "TxnOffsetCommit"],
    max_lasting_ms: 2_500,
    max_steps: 8,
    ..RULES
};

/// Members are lost to their group.
const REBALANCES: Rules = Rules {
    kinds: &[
        (5, Kind::PauseClient),
        (3, Kind::DelayApi),
        (2, Kind::EndOfTransaction),
        (1, Kind::Bounce),
        (1, Kind::Latency),
        (1, Kind::Hold),
        (2, Kind::Release),
    ],
    clients: &["loop-0", "loop-1"],
    apis: &[
        "EndTxn",
        "TxnOffsetCommit",
        "OffsetFetch",
        "JoinGroup",
        "SyncGroup",
        "Heartbeat",
        "AddOffsetsToTxn",
    ],
    max_lasting_ms: 8_000,
    // Later than a client waits, and an end is carried out in the next transaction of its epoch: before
    // KIP-890 nobody can tell.
    max_delay_ms: 2_500,
    ..RULES
};

const TWINS: Ledger = Ledger {
    tellers: 2,
    twins: true,
    ..Ledger::USUAL
};

const SHORT: Ledger = Ledger {
    think: Duration::from_millis(450),
    timeout: Duration::from_millis(1_200),
    transactions: 8,
    ..Ledger::USUAL
};

const TRANSACTIONS_2: Ledger = Ledger {
    profiles: &[&profile::TRANSACTIONS_2],
    ..Ledger::USUAL
};

const LOOP_2: Loop = Loop {
    profiles: &[&profile::TRANSACTIONS_2],
    ..Loop::USUAL
};

/// A scenario of a loop that members come to and leave.
const LOOP: Scenario = Scenario {
    rules: REBALANCES,
    play: |stage| Loop::USUAL.play(stage).boxed(),
    patience: LOOP_PATIENCE,
    ..TRANSACTION
};

/// A member that is gone is waited for, and its transaction, before another one may go on; and a
/// library that hands out one record at a time commits eighty transactions of one partition, in two
/// thirds of a second each.
pub(super) const LOOP_PATIENCE: Duration = Duration::from_secs(90);

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
    Scenario {
        name: "ends-whose-answers-are-lost",
        about: "a commit that landed is told so when it is asked for again, and done once",
        rules: LOST_ANSWERS,
        ..TRANSACTION
    },
    Scenario {
        name: "staged-ends-whose-answers-are-lost",
        about: "the same where open transactions wait in Queen",
        rules: LOST_ANSWERS,
        setting: QUEEN,
        ..TRANSACTION
    },
    Scenario {
        name: "coordinator-dies-in-a-transaction",
        about: "a coordinator that dies in any phase of a transaction leaves all of it or nothing, and tells which",
        rules: DEATHS,
        ..TRANSACTION
    },
    Scenario {
        name: "staging-coordinator-dies-in-a-transaction",
        about: "the same where the transaction outlives it",
        rules: DEATHS,
        setting: QUEEN,
        ..TRANSACTION
    },
    Scenario {
        name: "queen-is-out-in-a-transaction",
        about: "an outage of Queen in any phase of a transaction costs time, and nothing else",
        rules: OUTAGES,
        ..TRANSACTION
    },
    Scenario {
        name: "queen-is-out-in-a-staged-transaction",
        about: "the same where open transactions wait in her",
        rules: OUTAGES,
        setting: QUEEN,
        ..TRANSACTION
    },
    Scenario {
        name: "two-producers-of-one-id",
        about: "of two producers with one transactional id the older one is fenced, and lands nothing more",
        play: |stage| TWINS.play(stage).boxed(),
        ..TRANSACTION
    },
    Scenario {
        name: "late-requests-of-a-fenced-epoch",
        about: "what a fenced producer asked for, and what comes late, lands nothing",
        rules: LATE,
        play: |stage| TWINS.play(stage).boxed(),
        ..TRANSACTION
    },
    Scenario {
        name: "late-requests-of-a-fenced-epoch-staged",
        about: "the same where open transactions wait in Queen",
        rules: LATE,
        setting: QUEEN,
        play: |stage| TWINS.play(stage).boxed(),
        ..TRANSACTION
    },
    Scenario {
        name: "timeouts-against-commits",
        about: "a commit that meets the end of its transaction's time lands as a whole or not at all",
        play: |stage| SHORT.play(stage).boxed(),
        ..TRANSACTION
    },
    Scenario {
        name: "timeouts-against-staged-commits",
        about: "the same where open transactions wait in Queen",
        setting: QUEEN,
        play: |stage| SHORT.play(stage).boxed(),
        ..TRANSACTION
    },
    Scenario {
        name: "transactions-of-version-2",
        about: "an epoch for each transaction (KIP-890) keeps the same promises",
        play: |stage| TRANSACTIONS_2.play(stage).boxed(),
        ..TRANSACTION
    },
    Scenario {
        name: "transactions-of-version-2-staged",
        about: "the same where open transactions wait in Queen",
        setting: QUEEN,
        play: |stage| TRANSACTIONS_2.play(stage).boxed(),
        ..TRANSACTION
    },
    Scenario {
        name: "transactions-that-read-each-other",
        about: "transactions that read what the other one writes see it when it is committed, and never in a circle",
        play: |stage| mirror::play(stage).boxed(),
        ..TRANSACTION
    },
    Scenario {
        name: "loop-through-rebalances",
        about: "a loop that reads, transforms and writes makes one record of each, whoever comes and goes",
        ..LOOP
    },
    Scenario {
        name: "staged-loop-through-rebalances",
        about: "the same where open transactions wait in Queen",
        setting: QUEEN,
        ..LOOP
    },
    Scenario {
        name: "loop-under-every-fault",
        about: "the same under every kind of fault",
        rules: RULES,
        ..LOOP
    },
    Scenario {
        name: "staged-loop-under-every-fault",
        about: "the same where open transactions wait in Queen",
        rules: RULES,
        setting: QUEEN,
        ..LOOP
    },
    Scenario {
        name: "loop-whose-coordinator-dies-at-offsets",
        about: "offsets that were being added to a transaction when its coordinator died are there with its records, or neither",
        rules: DEATHS_AT_OFFSETS,
        ..LOOP
    },
    Scenario {
        name: "loop-of-version-2",
        about: "a loop with an epoch for each transaction keeps the same promises",
        play: |stage| LOOP_2.play(stage).boxed(),
        ..LOOP
    },
];
