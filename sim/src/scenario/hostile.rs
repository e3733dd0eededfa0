//! Hostile neighbours: clients that mean no good, beside honest ones that must not notice. Somebody
//! watches what the facade's listeners hold.

mod attacks;

use futures::FutureExt;

use super::failover::RULES;
use super::family::Family;
use super::orders::Orders;
use super::stage::Stage;
use super::{PATIENCE, Scenario, Setting};
use crate::schedule::{Kind, Link, Rules, Server};

/// `QUEEN_KAFKA_MAX_IN_FLIGHT_BYTES`: the least it may be.
const IN_FLIGHT_BYTES: u64 = 16 << 20;
/// One frame may be taken in beyond the budget, so that a large one can pass at all.
const OVERDRAFT_BYTES: u64 = 100 << 20;
/// The port of the facade's metrics.
const HTTP_PORT: u16 = 9464;

/// A small listener, as an operator has it who expects no good.
const GUARDED: Setting = Setting {
    variables: &[
        ("QUEEN_KAFKA_HTTP_ADDR", "0.0.0.0:9464"),
        ("QUEEN_KAFKA_MAX_IN_FLIGHT_BYTES", "16777216"),
        ("QUEEN_KAFKA_MAX_CONNECTIONS", "128"),
        ("QUEEN_KAFKA_MAX_CONNECTIONS_PER_IP", "48"),
        ("QUEEN_KAFKA_WRITE_TIMEOUT_MS", "3000"),
    ],
    ..Setting::PLAIN
};

/// Honest clients under few faults of other kinds.
const BESIDE: Scenario = Scenario {
    name: "",
    about: "",
    family: Family::Hostile,
    rules: Rules {
        max_steps: 3,
        servers: &[Server::Facade, Server::Queen],
        links: &[Link::ClientsFacade, Link::FacadeQueen],
        kinds: &[
            (3, Kind::Bounce),
            (2, Kind::Restart),
            (2, Kind::Pause),
            (2, Kind::Latency),
            (1, Kind::Cut),
        ],
        ..RULES
    },
    planted: None,
    setting: GUARDED,
    patience: PATIENCE,
    play: |stage| watched(stage).boxed(),
    strangers: None,
};

/// All of them.
pub const ALL: &[Scenario] = &[
    Scenario {
        name: "slow-loris",
        about: "connections that send a byte now and then keep no honest client out",
        strangers: Some(|stage| attacks::slow_loris(stage).boxed()),
        ..BESIDE
    },
    Scenario {
        name: "half-frames",
        about: "frames that end in the middle, at any byte, cost a connection and nothing else",
        strangers: Some(|stage| attacks::half_frames(stage).boxed()),
        ..BESIDE
    },
    Scenario {
        name: "floods",
        about: "requests without end, by clients that never read an answer, take no more than the budget",
        strangers: Some(|stage| attacks::floods(stage).boxed()),
        ..BESIDE
    },
    Scenario {
        name: "bombs",
        about: "lengths, counts and compressed records that ask for the machine's memory are refused",
        strangers: Some(|stage| attacks::bombs(stage).boxed()),
        ..BESIDE
    },
    Scenario {
        name: "half-frames-before-tls",
        about: "bytes that are no TLS, and handshakes that nobody ends, keep no client out that speaks it",
        setting: Setting {
            secure: true,
            ..GUARDED
        },
        strangers: Some(|stage| attacks::half_frames(stage).boxed()),
        ..BESIDE
    },
    Scenario {
        name: "slow-loris-before-tls",
        about: "connections that send a byte now and then instead of a handshake keep no honest client out",
        setting: Setting {
            secure: true,
            ..GUARDED
        },
        strangers: Some(|stage| attacks::slow_loris(stage).boxed()),
        ..BESIDE
    },
];

/// The usual orders, while somebody watches the facade's memory.
async fn watched(stage: Stage) {
    let bound_bytes = IN_FLIGHT_BYTES + OVERDRAFT_BYTES;
    let watching = tokio::spawn(stage.clone().watch_memory(HTTP_PORT, bound_bytes));
    Orders::USUAL.play(stage).await;
    watching.abort();
}
