//! Revocation: an API key ends, loses a scope or gets another secret while its client is idle, in
//! mid-produce, in a rebalance, inside a transaction. One client holds the key that is struck; beside it
//! others of its tenant work with a key of their own, and so does another tenant, who also looks
//! around.
//!
//! A key that has ended moves nothing; nobody else notices. When the world heals the key is good
//! again, so that whoever was refused finishes.

use std::time::Duration;

use futures::FutureExt;
use kafka_protocol::messages::MetadataRequest;
use tokio::time::sleep;

use super::family::Family;
use super::members::Habits;
use super::orders::{EXACTLY_ONCE, Orders, TOPIC};
use super::quota::WRITERS;
use super::rebalance;
use super::stage::{OTHER, Stage};
use super::transaction::eos::{self, Loop};
use super::transaction::ledger::Ledger;
use super::{PATIENCE, Scenario, Setting};
use crate::client::producer::{Plan, Writer};
use crate::client::profile::{self, HURRIED};
use crate::client::reader::Reader;
use crate::client::{CallError, Connection};
use crate::history::{Event, Mark};
use crate::schedule::{Key, Kind, Link, Rules, Server};
use crate::world::{Tenancy, tenant};

/// What the other tenant writes.
const LETTERS: &str = "letters";
/// Number of its writer, the first part of every value.
const STRANGER: u32 = 50;
/// Between two looks of the other tenant's at what there is.
const LOOKS: Duration = Duration::from_millis(700);

const KEYS: Rules = Rules {
    heal_at_ms: 7_000,
    max_steps: 4,
    max_wall_jump_ms: 1,
    max_lasting_ms: 2_000,
    max_delay_ms: u64::MAX,
    kinds: &[
        (3, Kind::Revoke),
        (3, Kind::Expire),
        (3, Kind::Narrow),
        (4, Kind::Rotate),
    ],
    servers: &[Server::Facade, Server::Proxy],
    links: &[Link::ClientsFacade, Link::FacadeProxy, Link::ProxyQueen],
    hops: &[],
    clients: &[],
    apis: &[],
    keys: &[Key::Victim],
};

const SETTING: Setting = Setting {
    tenancy: Tenancy::Enforced,
    struck: "producer-0",
    ..Setting::PLAIN
};

const REVOCATION: Scenario = Scenario {
    name: "",
    about: "",
    family: Family::Revocation,
    rules: KEYS,
    planted: None,
    setting: SETTING,
    patience: PATIENCE,
    play: |stage| beside_others(stage.clone(), WRITERS.play(stage)).boxed(),
    strangers: None,
};

/// The same writers as [`WRITERS`] in another order: the first one's key is struck.
const JAVA_FIRST: Orders = Orders {
    profiles: &[
        &profile::JAVA.hurried(),
        &profile::FRANZ_GO.hurried(),
        &profile::LIBRDKAFKA.hurried().idempotent(),
    ],
    ..WRITERS
};

const FRANZ_GO_FIRST: Orders = Orders {
    profiles: &[
        &profile::FRANZ_GO.hurried(),
        &profile::LIBRDKAFKA.hurried().idempotent(),
        &profile::JAVA.hurried(),
    ],
    ..WRITERS
};

/// Silence between two batches, far longer than anything takes.
const IDLERS: Orders = Orders {
    batches: 4,
    every: Duration::from_millis(1_800),
    ..WRITERS
};

/// Keys end, and now and then a machine with them.
const AND_MACHINES: Rules = Rules {
    max_steps: 6,
    kinds: &[
        (3, Kind::Revoke),
        (2, Kind::Expire),
        (2, Kind::Narrow),
        (4, Kind::Rotate),
        (2, Kind::Bounce),
        (1, Kind::Pause),
        (1, Kind::Partition),
        (2, Kind::Repair),
    ],
    ..KEYS
};

/// All of them.
pub const ALL: &[Scenario] = &[
    Scenario {
        name: "key-ends-in-mid-produce",
        about: "a key that ends while librdkafka writes stores nothing more, and its neighbours write on",
        ..REVOCATION
    },
    Scenario {
        name: "key-ends-under-a-java-writer",
        about: "the same while Java writes",
        play: |stage| beside_others(stage.clone(), JAVA_FIRST.play(stage)).boxed(),
        ..REVOCATION
    },
    Scenario {
        name: "key-ends-under-a-franz-go-writer",
        about: "the same while franz-go writes",
        play: |stage| beside_others(stage.clone(), FRANZ_GO_FIRST.play(stage)).boxed(),
        ..REVOCATION
    },
    Scenario {
        name: "key-ends-while-idle",
        about: "a key that ends while nobody uses it stores nothing when its client comes back",
        play: |stage| beside_others(stage.clone(), IDLERS.play(stage)).boxed(),
        ..REVOCATION
    },
    Scenario {
        name: "sessions-end",
        about: "clients authenticate again before their sessions end, with the secret they hold by then",
        setting: Setting {
            variables: &[("QUEEN_KAFKA_REAUTH_MS", "1500")],
            ..SETTING
        },
        ..REVOCATION
    },
    Scenario {
        name: "key-ends-in-a-rebalance",
        about: "a member whose key ends reads and commits nothing more, and its group reads on",
        rules: Rules {
            heal_at_ms: 10_000,
            ..KEYS
        },
        setting: Setting {
            tenancy: Tenancy::Enforced,
            struck: "member-0",
            ..rebalance::SETTING
        },
        patience: rebalance::PATIENCE,
        play: |stage| {
            let group = rebalance::usual(stage.clone(), Habits::default());
            beside_others(stage, group).boxed()
        },
        ..REVOCATION
    },
    Scenario {
        name: "key-ends-inside-a-transaction",
        about: "a transaction whose key ends commits nothing, and tears nothing",
        setting: Setting {
            struck: "teller-0",
            ..SETTING
        },
        play: |stage| beside_others(stage.clone(), Ledger::USUAL.play(stage)).boxed(),
        ..REVOCATION
    },
    Scenario {
        name: "key-ends-inside-a-loop",
        about: "a loop that reads, transforms and writes makes one record of each when a member's key ends",
        setting: Setting {
            struck: "loop-0",
            ..SETTING
        },
        patience: super::transaction::LOOP_PATIENCE,
        play: |stage| beside_others(stage.clone(), Loop::USUAL.play(stage)).boxed(),
        ..REVOCATION
    },
    Scenario {
        name: "key-ends-while-machines-fail",
        about: "a key that ends stores nothing more, whichever machine starts again meanwhile",
        rules: AND_MACHINES,
        ..REVOCATION
    },
];

/// Plays `play` while another tenant writes, reads and looks around.
pub async fn beside_others(stage: Stage, play: impl Future<Output = ()>) {
    for (topic, key) in [
        (TOPIC, Key::Victim),
        (eos::MADE, Key::Victim),
        (LETTERS, Key::Other),
    ] {
        let owns = Mark::Owns {
            tenant: tenant(key).into(),
            resource: topic.into(),
        };
        stage.recorder.record(&"world".into(), Event::Mark(owns));
    }
    let drawn = stage.numbers("other tenant").below(HURRIED.len() as u64);
    let profile = HURRIED[usize::try_from(drawn).unwrap_or_default()];
    let id = format!("{OTHER}writer");
    let plan = Plan {
        producer: STRANGER,
        topic: LETTERS.into(),
        partition: Some(0),
        batches: 40,
        records: 2,
        every: Duration::from_millis(150),
        promises: EXACTLY_ONCE,
    };
    let numbers = stage.numbers(&id);
    let writing = tokio::spawn(Writer::new(stage.client(&id, profile), plan, numbers).run());
    let reader = stage.client(&format!("{OTHER}reader"), profile);
    let reading = tokio::spawn(Reader::new(reader, LETTERS, 1).follow());
    let looking = tokio::spawn(look_around(stage.clone()));
    play.await;
    // A task that panicked is seen by the world.
    let _ = writing.await;
    let auditor = format!("{OTHER}auditor");
    stage.audit_as(&auditor, &LETTERS.into(), 1, profile).await;
    reading.abort();
    looking.abort();
}

/// Asks again and again for all there is: the history tells what was shown.
async fn look_around(stage: Stage) {
    let client = stage.client(&format!("{OTHER}guest"), HURRIED[0]);
    client.introduce(Vec::new());
    loop {
        let looked: Result<(), CallError> = async {
            let connection = Connection::open(&client, &client.bootstrap).await?;
            loop {
                let all = MetadataRequest::default().with_topics(None);
                connection.call(&all).await?;
                sleep(LOOKS).await;
            }
        }
        .await;
        if let Err(error) = looked {
            client.lament(&error);
        }
        sleep(LOOKS).await;
    }
}
