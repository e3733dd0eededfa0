//! What real clients must be able to do, written once and run with every driver.
//!
//! [`specs`] is the only way in: it crosses each scenario with each driver.

mod admin;
mod client;
mod consume;
mod consumer_groups;
mod corners;
mod faults;
mod frameworks;
mod groups;
mod network;
mod offsets;
mod pairs;
mod produce;
mod queen;
mod scale;
mod security;
mod streams;
mod tenants;
mod transactions;

use std::sync::Arc;
use std::time::Duration;

use futures::FutureExt;
use futures::future::BoxFuture;
use kafka_wire::ApiKey;

use self::client::Client;
use crate::cx::Cx;
use crate::drivers::librdkafka::Librdkafka;
use crate::drivers::{self, Driver};
use crate::spec::{DEFAULT_TIME_OUT, Lane, Spec, Stop, Verdict};
use crate::target::{Kind, Node};
use crate::wire::Access;

/// Every scenario with every one of `clients`, and the clients with one another. Those about
/// credentials are for targets that authenticate, and those about tenants for cells.
pub fn specs(clients: &[drivers::Client], kind: &Kind) -> Vec<Spec> {
    let mut scenarios = all();
    if kind.authenticates() {
        scenarios.extend(security::scenarios(kind.is_ours()));
    }
    if matches!(kind, Kind::FacadeCloud) {
        scenarios.extend(tenants::scenarios());
    }
    let scenarios = &scenarios;
    clients
        .iter()
        .flat_map(|client| {
            scenarios
                .iter()
                .map(|scenario| scenario.clone().with(client))
        })
        .chain(pairs::specs(clients))
        .collect()
}

/// The scenarios that show whether a client and a target get along at all.
const SMOKE: [&str; 12] = [
    "admin-create-and-delete-topic",
    "admin-topic-config",
    "commit-sync-with-metadata",
    "consume-from-beginning",
    "consume-from-time",
    "consumer-group-of-one",
    "group-of-five",
    "group-of-one",
    "produce-idempotent",
    "produce-keys-and-headers",
    "transaction-commit-and-abort",
    "transaction-fenced-zombie",
];

/// Whether a check is one of the smoke set.
pub fn is_smoke(id: &str) -> bool {
    let name = id.rsplit('/').next();
    id.starts_with("scenario/") && name.is_some_and(|name| SMOKE.contains(&name))
}

fn all() -> Vec<Scenario> {
    [
        produce::scenarios(),
        consume::scenarios(),
        groups::scenarios(),
        consumer_groups::scenarios(),
        offsets::scenarios(),
        admin::scenarios(),
        scale::scenarios(),
        faults::scenarios(),
        network::scenarios(),
        corners::scenarios(),
        transactions::scenarios(),
        streams::scenarios(),
        frameworks::scenarios(),
        queen::scenarios(),
    ]
    .concat()
}

/// One behaviour, whatever the client.
#[derive(Clone)]
struct Scenario {
    /// The last part of the check's id.
    name: &'static str,
    title: &'static str,
    apis: &'static [ApiKey],
    kips: &'static [u16],
    lane: Lane,
    within: Duration,
    run: Arc<dyn Fn(Env) -> BoxFuture<'static, Verdict> + Send + Sync>,
}

impl Scenario {
    fn new<F, R>(name: &'static str, title: &'static str, apis: &'static [ApiKey], run: F) -> Self
    where
        F: Fn(Env) -> R + Send + Sync + 'static,
        R: Future<Output = Verdict> + Send + 'static,
    {
        Self {
            name,
            title,
            apis,
            kips: &[],
            lane: Lane::Shared,
            within: DEFAULT_TIME_OUT,
            run: Arc::new(move |env| run(env).boxed()),
        }
    }

    const fn kips(mut self, kips: &'static [u16]) -> Self {
        self.kips = kips;
        self
    }

    const fn on_its_own_node(mut self) -> Self {
        self.lane = Lane::OwnNode;
        self
    }

    const fn within(mut self, seconds: u64) -> Self {
        self.within = Duration::from_secs(seconds);
        self
    }

    fn with(self, client: &drivers::Client) -> Spec {
        let driver = client.driver.clone();
        let within = self.within + client.starts_within();
        let run = self.run;
        Spec::new(
            format!("scenario/{}/{}", client.id, self.name),
            self.title,
            client.label.clone(),
            move |cx| match &driver {
                Ok(driver) => run(Env {
                    cx,
                    driver: Arc::clone(driver),
                }),
                Err(why) => std::future::ready(Err(Stop::Unable(why.clone()))).boxed(),
            },
        )
        .apis(self.apis.iter().copied())
        .kips(self.kips.iter().copied())
        .lane(self.lane)
        .within(within)
    }
}

/// What a scenario works with.
#[derive(Clone, Debug)]
struct Env {
    cx: Cx,
    driver: Arc<dyn Driver>,
}

impl Env {
    /// A client of the shared node.
    async fn client(&self) -> Result<Client, Stop> {
        Client::open(&self.cx, self.driver.as_ref(), self.cx.bootstrap()).await
    }

    /// A client of another node.
    async fn client_of(&self, node: &Node) -> Result<Client, Stop> {
        Client::open(&self.cx, self.driver.as_ref(), node.bootstrap()).await
    }

    /// A client of a server with other credentials than the target's.
    async fn client_as(&self, server: &Access) -> Result<Client, Stop> {
        Client::open(&self.cx, self.driver.as_ref(), server).await
    }

    /// A client for what the driver's own cannot do, as who only makes and looks; the check is not
    /// counted for it.
    async fn helper(&self, server: &Access) -> Result<Client, Stop> {
        let cx = self.cx.for_another_client();
        Client::open(&cx, &Librdkafka::new(), server).await
    }

    /// A client that looks at what was written, where reading is not what the scenario is about: the
    /// driver's own if it can read without a group.
    async fn eyes(&self, server: &Access) -> Result<Client, Stop> {
        if self.driver.can().has("assign") {
            self.client_as(server).await
        } else {
            self.helper(server).await
        }
    }

    /// A new topic that only this scenario knows, and the client that made it.
    async fn topic(&self, partitions: i32) -> Result<(Client, String), Stop> {
        let mut client = self.client().await?;
        let topic = self.cx.unique("topic");
        client.create_topic(&topic, partitions, &[]).await?;
        Ok((client, topic))
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use super::{SMOKE, all, specs};
    use crate::drivers::Client;
    use crate::target::Kind;

    #[test]
    fn there_are_at_least_forty_scenarios_and_each_is_named_once_and_names_its_apis() {
        let client = |id: &str| Client {
            id: id.into(),
            label: id.into(),
            driver: Err("only named here".into()),
        };
        let specs = specs(&[client("one"), client("two")], &Kind::FacadeCloud);
        assert!(specs.len() >= 80, "{}", specs.len());
        let ids: BTreeSet<_> = specs.iter().map(|spec| &spec.id).collect();
        assert_eq!(ids.len(), specs.len());
        for spec in &specs {
            assert!(!spec.apis.is_empty(), "{}", spec.id);
        }
    }

    #[test]
    fn every_smoke_scenario_is_there() {
        for name in SMOKE {
            assert!(all().iter().any(|one| one.name == name), "{name}");
        }
    }
}
