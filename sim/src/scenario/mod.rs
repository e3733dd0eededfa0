//! What clients do in a run, by name. A scenario holds no schedule: any may strike it.

use std::time::Duration;

use futures::FutureExt;
use tokio::sync::watch;
use tokio::task::JoinSet;

use crate::client::producer::{Plan, Writer};
use crate::client::reader::Reader;
use crate::client::{Client, Profile, profile};
use crate::history::{Anomaly, Promise, Recorder};
use crate::schedule::{ANY, Hop, Kind, Link, Rules, Server};
use crate::seed::Numbers;
use crate::trace::Node;
use crate::world::{Clients, Description, KAFKA_PORT, Workload};

/// Producers, and a reader that follows them.
#[derive(Debug)]
pub struct Scenario {
    /// Its name: the behaviour it proves, or the fault that is planted in it.
    pub name: &'static str,
    /// What it proves, in a sentence.
    pub about: &'static str,
    /// What generated schedules may hold.
    pub rules: Rules,
    /// The violation that a planted fault leads to; `None` for the shipped code.
    pub planted: Option<Anomaly>,
    /// What may be demanded of what its producers write.
    promises: &'static [Promise],
    profile: &'static Profile,
    lying_syncs: usize,
    producers: u32,
    partitions: i32,
    batches: u64,
    records: u32,
    every: Duration,
    /// How long the clients may take to finish once everything has healed: three call timeouts of
    /// the facade, for a call may begin just before the heal, and be answered behind another.
    pub patience: Duration,
}

/// The client that reads the whole log at the end.
pub const AUDITOR: &str = "auditor";

const TOPIC: &str = "orders";

const RULES: Rules = Rules {
    heal_at_ms: 8_000,
    max_steps: 8,
    max_wall_jump_ms: 600_000,
    max_lasting_ms: 4_000,
    kinds: ANY,
    servers: &[Server::Facade, Server::Queen],
    links: &[Link::ClientsFacade, Link::FacadeQueen],
    hops: &[Hop::Queen],
    clients: &[],
    apis: &[],
};

const EXACTLY_ONCE: Scenario = Scenario {
    name: "acknowledged-is-there-once",
    about: "what an idempotent producer was told is stored is in the log once, where it was told, in order",
    rules: RULES,
    planted: None,
    promises: &[Promise::Once, Promise::Ordered, Promise::NeverRefused],
    profile: &profile::IDEMPOTENT,
    lying_syncs: 0,
    producers: 3,
    partitions: 2,
    batches: 60,
    records: 3,
    every: Duration::from_millis(100),
    patience: Duration::from_secs(30),
};

/// A planted fault shows soon, and many runs are spent on shrinking it.
const PLANTED: Scenario = Scenario {
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
    batches: 30,
    ..EXACTLY_ONCE
};

/// Every scenario.
pub const ALL: &[Scenario] = &[
    EXACTLY_ONCE,
    Scenario {
        name: "planted-disk-forgets",
        about: "Queen's disk loses its last confirmed syncs at a power cut: the checker sees lost writes",
        planted: Some(Anomaly::LostWrite),
        lying_syncs: 4,
        ..PLANTED
    },
    Scenario {
        name: "planted-plain-producer",
        about: "a producer without idempotence sends again what was stored: the checker sees duplicates",
        planted: Some(Anomaly::Duplicate),
        profile: &profile::PLAIN,
        ..PLANTED
    },
];

/// The scenario called `name`.
pub fn named(name: &str) -> Option<&'static Scenario> {
    ALL.iter().find(|scenario| scenario.name == name)
}

impl Scenario {
    /// The world it plays in.
    pub fn world(&self, seed: u64) -> Description {
        Description {
            seed,
            partitions: self.partitions,
            lying_syncs: self.lying_syncs,
            ..Description::default()
        }
    }

    /// What its clients do.
    pub fn workload(&'static self, seed: u64, recorder: Recorder) -> Workload {
        Box::new(move |clients, healed| self.clients(seed, clients, recorder, healed).boxed())
    }

    fn client(&self, id: String, clients: &Clients, recorder: &Recorder) -> Client {
        Client {
            host: clients.host(&id),
            profile: self.profile,
            id: id.into(),
            bootstrap: (Node::Facade.name().to_owned(), KAFKA_PORT),
            recorder: recorder.clone(),
        }
    }

    async fn clients(
        &self,
        seed: u64,
        clients: Clients,
        recorder: Recorder,
        mut healed: watch::Receiver<bool>,
    ) {
        let mut producers = JoinSet::new();
        for producer in 0..self.producers {
            let id = format!("producer-{producer}");
            let pace = Numbers::new(seed, &id);
            let partition = i32::try_from(producer).unwrap_or_default() % self.partitions;
            let plan = Plan {
                producer,
                topic: TOPIC.into(),
                partition: Some(partition),
                batches: self.batches,
                records: self.records,
                every: self.every,
                promises: self.promises,
            };
            let client = self.client(id, &clients, &recorder);
            producers.spawn(Writer::new(client, plan, pace).run());
        }
        let reader = |id: &str| {
            let client = self.client(id.to_owned(), &clients, &recorder);
            Reader::new(client, TOPIC, self.partitions)
        };
        let following = tokio::spawn(reader("follower").follow());
        // An error says that the world is gone, and this with it.
        let _ = healed.wait_for(|healed| *healed).await;
        while producers.join_next().await.is_some() {}
        reader(AUDITOR).read_all().await;
        following.abort();
    }
}
