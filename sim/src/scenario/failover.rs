//! Failover: machines, links and calls fail under readers and writers. Except in the first of them
//! calls to Queen pass through a relay.

use std::time::Duration;

use futures::FutureExt;

use super::family::Family;
use super::orders::Orders;
use super::stage::Stage;
use super::{PATIENCE, Scenario, Setting, fetch_sessions};
use crate::client::{Profile, profile};
use crate::history::Promise;
use crate::schedule::{ANY, Hop, Kind, Link, Rules, Server};
use crate::trace::Node;

/// Every fault, in a world without a relay.
pub const RULES: Rules = Rules {
    heal_at_ms: 8_000,
    max_steps: 8,
    max_wall_jump_ms: 600_000,
    max_lasting_ms: 4_000,
    max_delay_ms: u64::MAX,
    kinds: ANY,
    servers: &[Server::Facade, Server::Queen],
    links: &[Link::ClientsFacade, Link::FacadeQueen],
    hops: &[Hop::Queen],
    clients: &[],
    apis: &[],
    keys: &[],
};

/// Every fault, in a world with one.
pub const RELAYED: Rules = Rules {
    servers: &[Server::Facade, Server::Relay, Server::Queen],
    links: &[Link::ClientsFacade, Link::FacadeRelay, Link::RelayQueen],
    hops: &[Hop::Relay, Hop::Queen],
    ..RULES
};

/// A scenario of the usual orders behind a relay.
const RELAY: Scenario = Scenario {
    name: "",
    about: "",
    family: Family::Failover,
    rules: RELAYED,
    planted: None,
    setting: Setting {
        relay: true,
        ..Setting::PLAIN
    },
    patience: PATIENCE,
    play: |stage| Orders::USUAL.play(stage).boxed(),
    strangers: None,
};

/// A night's outage in a day's pace: what waits is written when Queen is back.
const LONG: Rules = Rules {
    heal_at_ms: 15_000,
    max_steps: 4,
    max_lasting_ms: 13_000,
    ..RELAYED
};

const LIBRDKAFKA: Profile = profile::LIBRDKAFKA.hurried().idempotent();
const JAVA: Profile = profile::JAVA.hurried().idempotent();
const FRANZ_GO: Profile = profile::FRANZ_GO.hurried().idempotent();

const IMPATIENT_JAVA: Profile = impatient(JAVA);
const IMPATIENT: Profile = impatient(profile::IDEMPOTENT);

/// The same, who gives up on a batch while an outage lasts.
const fn impatient(mut profile: Profile) -> Profile {
    profile.request_timeout = Duration::from_millis(1_000);
    profile.producer.delivery_timeout = Duration::from_millis(2_500);
    profile.producer.ack_timeout = Duration::from_millis(1_000);
    profile
}

/// The usual orders by clients like `profiles`, where a library may give up on a batch or start a
/// new epoch.
async fn writes(profiles: &'static [&'static Profile], stage: Stage) {
    let orders = Orders {
        profiles,
        ..Orders::USUAL
    };
    orders.play(stage).await;
}

/// All of them.
pub const ALL: &[Scenario] = &[
    Scenario {
        name: "acknowledged-is-there-once",
        about: "what an idempotent producer was told is stored is in the log once, where it was told, in order",
        rules: RULES,
        setting: Setting::PLAIN,
        ..RELAY
    },
    Scenario {
        name: "anything-behind-a-relay",
        about: "the same with a relay between facade and Queen, under every kind of fault",
        ..RELAY
    },
    Scenario {
        name: "facade-dies-with-five-in-flight",
        about: "a facade that dies, or drains, while five batches of each writer are in flight stores none of them twice",
        rules: Rules {
            servers: &[Server::Facade],
            links: &[Link::ClientsFacade, Link::FacadeRelay],
            kinds: &[
                (2, Kind::Crash),
                (6, Kind::Bounce),
                (4, Kind::Restart),
                (2, Kind::Hold),
                (2, Kind::Release),
                (2, Kind::Latency),
            ],
            ..RELAYED
        },
        play: |stage| {
            let orders = Orders {
                batches: 300,
                records: 1,
                every: Duration::from_millis(20),
                ..Orders::USUAL
            };
            orders.play(stage).boxed()
        },
        ..RELAY
    },
    Scenario {
        name: "queen-is-out-for-long",
        about: "an outage of Queen beyond every call limit costs time, and no record",
        rules: Rules {
            servers: &[Server::Queen],
            links: &[Link::RelayQueen],
            kinds: &[
                (4, Kind::Crash),
                (2, Kind::Bounce),
                (4, Kind::Pause),
                (2, Kind::Partition),
            ],
            ..LONG
        },
        ..RELAY
    },
    Scenario {
        name: "queen-restarts-from-disk",
        about: "a Queen that loses power, or is killed, comes back with all that she acknowledged",
        rules: Rules {
            servers: &[Server::Queen],
            kinds: &[(2, Kind::Crash), (6, Kind::Bounce)],
            ..RELAYED
        },
        ..RELAY
    },
    Scenario {
        name: "links-are-held-and-released",
        about: "what arrives late is neither lost nor stored twice",
        rules: Rules {
            kinds: &[
                (4, Kind::Hold),
                (4, Kind::Release),
                (3, Kind::Latency),
                (1, Kind::Bounce),
            ],
            ..RELAYED
        },
        ..RELAY
    },
    Scenario {
        name: "answers-are-lost-after-applying",
        about: "a push or a KV write that was done and not answered is not done twice",
        rules: Rules {
            kinds: &[(8, Kind::Cut), (1, Kind::Bounce)],
            servers: &[Server::Facade, Server::Relay],
            ..RELAYED
        },
        ..RELAY
    },
    Scenario {
        name: "queen-is-slow",
        about: "calls that take longer than the call limit are repeated, and what they did is done once",
        rules: Rules {
            kinds: &[(6, Kind::Slow), (1, Kind::Latency), (1, Kind::Pause)],
            ..LONG
        },
        ..RELAY
    },
    Scenario {
        name: "storm-of-429",
        about: "a Queen that refuses calls for a while, with Retry-After or without, is waited for",
        rules: Rules {
            kinds: &[(8, Kind::Status), (1, Kind::Slow)],
            ..RELAYED
        },
        ..RELAY
    },
    Scenario {
        name: "relay-is-cut",
        about: "a proxy between facade and Queen may die at any time",
        rules: Rules {
            servers: &[Server::Relay],
            links: &[Link::FacadeRelay, Link::RelayQueen],
            kinds: &[
                (2, Kind::Crash),
                (5, Kind::Bounce),
                (2, Kind::Pause),
                (2, Kind::Partition),
                (3, Kind::Repair),
                (2, Kind::Cut),
            ],
            ..RELAYED
        },
        ..RELAY
    },
    Scenario {
        name: "clocks-jump",
        about: "wall clocks that jump cost nothing, as long as Queen remembers by hers what she stored",
        rules: Rules {
            // Queen forgets the names of records after an hour by her clock. A jump beyond it and
            // the loss of the facade's memory together leave nobody who knows a batch sent again.
            max_wall_jump_ms: 3_000_000,
            kinds: &[
                (8, Kind::WallJump),
                (2, Kind::Bounce),
                (1, Kind::Pause),
                (1, Kind::Cut),
            ],
            ..RELAYED
        },
        ..RELAY
    },
    Scenario {
        name: "requests-are-late",
        about: "a batch that arrives after its client gave the connection up, and sent it again, is stored once",
        rules: Rules {
            kinds: &[
                (8, Kind::DelayApi),
                (1, Kind::Bounce),
                (1, Kind::Cut),
                (1, Kind::Latency),
            ],
            apis: &["Produce", "InitProducerId", "Metadata"],
            max_lasting_ms: 6_000,
            ..RELAYED
        },
        ..RELAY
    },
    Scenario {
        name: "librdkafka-writes",
        about: "producers with the habits of librdkafka keep their promises under every kind of fault",
        play: |stage| writes(&[&LIBRDKAFKA], stage).boxed(),
        ..RELAY
    },
    Scenario {
        name: "java-writes",
        about: "the same with the habits of the Java client",
        play: |stage| writes(&[&JAVA], stage).boxed(),
        ..RELAY
    },
    Scenario {
        name: "franz-go-writes",
        about: "the same with the habits of franz-go",
        play: |stage| writes(&[&FRANZ_GO], stage).boxed(),
        ..RELAY
    },
    Scenario {
        name: "deliveries-run-out-of-time",
        about: "a batch that its producer gave up in doubt is stored once or never, and what comes behind it in order",
        rules: Rules {
            kinds: &[
                (3, Kind::Crash),
                (2, Kind::Bounce),
                (3, Kind::Pause),
                (3, Kind::Partition),
                (2, Kind::Repair),
                (2, Kind::Hold),
                (1, Kind::Release),
                (2, Kind::Slow),
                (1, Kind::Cut),
            ],
            max_steps: 5,
            ..RELAYED
        },
        play: |stage| {
            let orders = Orders {
                profiles: &[&IMPATIENT_JAVA, &IMPATIENT],
                // It may give a batch up without having sent it, which is a refusal of its own.
                promises: &[Promise::Once, Promise::Ordered],
                // What is written after the heal is acknowledged.
                batches: 120,
                ..Orders::USUAL
            };
            orders.play(stage).boxed()
        },
        ..RELAY
    },
    Scenario {
        name: "fetch-sessions-run-out",
        about: "consumers beyond the sessions that a facade keeps, and those whose session is given to a wider one, read everything",
        rules: Rules {
            max_steps: 4,
            kinds: &[
                (2, Kind::Bounce),
                (1, Kind::Restart),
                (2, Kind::Hold),
                (2, Kind::Release),
                (2, Kind::Latency),
                (1, Kind::Cut),
                (1, Kind::Pause),
            ],
            ..RULES
        },
        setting: Setting {
            configure: fetch_sessions::few,
            ..Setting::PLAIN
        },
        play: |stage| fetch_sessions::crowd(stage).boxed(),
        ..RELAY
    },
    Scenario {
        name: "acknowledged-is-there-once-over-tls",
        about: "clients that come over TLS and authenticate keep the same promises under every kind of fault",
        rules: RULES,
        setting: Setting {
            secure: true,
            ..Setting::PLAIN
        },
        play: |stage| writes(&[&LIBRDKAFKA, &JAVA, &FRANZ_GO], stage).boxed(),
        ..RELAY
    },
    Scenario {
        name: "two-doors",
        about: "two facades before one Queen, each for itself, keep the same promises",
        rules: Rules {
            servers: &[
                Server::Facade,
                Server::Facade2,
                Server::Relay,
                Server::Queen,
            ],
            links: &[
                Link::ClientsFacade,
                Link::ClientsFacade2,
                Link::FacadeRelay,
                Link::Facade2Relay,
                Link::RelayQueen,
            ],
            ..RELAYED
        },
        setting: Setting {
            facades: 2,
            relay: true,
            ..Setting::PLAIN
        },
        play: |stage| {
            let orders = Orders {
                doors: &[Node::Facade, Node::Facade2],
                ..Orders::USUAL
            };
            orders.play(stage).boxed()
        },
        ..RELAY
    },
];
