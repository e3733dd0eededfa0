//! The client called librdkafka sends what the real librdkafka sends.
//!
//! `fixtures/sequences/librdkafka.json` says what that was, and how to record it again. Compared are
//! the APIs in the order of their first requests, their versions, and which of them share a
//! connection. Left out is what a timer repeats: when a heartbeat, another look at Metadata or
//! another FindCoordinator comes depends on the machine.

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use fixtures::sequences::Sequences;
use futures::FutureExt;
use kafka_wire::ApiKey;
use sim::client::admin::Admin;
use sim::client::consumer::{Consumer, Settings, Start};
use sim::client::producer::{Producer, Record};
use sim::client::profile::LIBRDKAFKA;
use sim::client::{Client, Profile};
use sim::history::{Entry, Event, Name, TopicPartition, Value};

use crate::clients::{Stage, run};

const TOPIC: &str = "sequences";
const RECORDS: u64 = 3;

/// What is compared of a flow.
#[derive(Debug, PartialEq, Eq)]
struct Shape {
    /// APIs and their versions in the order of their first requests.
    order: Vec<(String, i16)>,
    /// The APIs on each connection that has some of its own.
    connections: BTreeSet<BTreeSet<String>>,
}

/// Sent by timers, on whichever connection there is.
const TIMED: [&str; 2] = ["Metadata", "FindCoordinator"];
/// Its first one comes at any time after joining.
const HEARTBEAT: &str = "Heartbeat";

impl Shape {
    fn of(requests: impl IntoIterator<Item = (u64, String, i16)>) -> Self {
        let mut order = Vec::new();
        let mut connections: BTreeMap<u64, BTreeSet<String>> = BTreeMap::new();
        for (connection, api, version) in requests {
            let known = (api.clone(), version);
            if api != HEARTBEAT && !order.contains(&known) {
                order.push(known);
            }
            if api != "ApiVersions" && api != HEARTBEAT && !TIMED.contains(&api.as_str()) {
                connections.entry(connection).or_default().insert(api);
            }
        }
        Self {
            order,
            connections: connections.into_values().collect(),
        }
    }

    fn recorded(lines: &[String]) -> Self {
        Self::of(lines.iter().map(|line| {
            let mut words = line.split(' ');
            let mut word = || words.next().expect("three words");
            let (connection, api, version) = (word(), word(), word());
            let version = version.strip_prefix('v').expect("a version");
            (
                connection.parse().expect("a number"),
                api.to_owned(),
                version.parse().expect("a number"),
            )
        }))
    }
}

/// What `who` asked, as if the server offered no more than it did when the flow was recorded.
fn asked(history: &[Entry], who: &str, offered: &BTreeMap<String, i16>) -> Shape {
    Shape::of(history.iter().filter_map(|entry| match entry.event {
        Event::Asked {
            connection,
            api,
            version,
            ..
        } if entry.who.as_str() == who => {
            let api = ApiKey(api).to_string();
            let offered = offered.get(&api).copied().unwrap_or(version);
            Some((connection, api, version.min(offered)))
        }
        _ => None,
    }))
}

const IDEMPOTENT: Profile = LIBRDKAFKA.idempotent();

async fn produce(client: Client, number: u32) {
    client.introduce(Vec::new());
    let producer = Producer::start(client);
    for record in 0..RECORDS {
        // Its fate is known after the flush.
        drop(producer.send(Record {
            topic: TOPIC.into(),
            partition: Some(0),
            key: None,
            value: Value {
                producer: number,
                number: record,
            },
        }));
    }
    producer.flush().await;
}

async fn read(consumer: &Consumer) {
    let mut seen = 0;
    while seen < 2 * RECORDS {
        let polled = consumer.poll(Duration::from_millis(100)).await;
        let polled = polled.expect("a consumer that is of use");
        seen += polled
            .iter()
            .map(|one| one.records.len() as u64)
            .sum::<u64>();
    }
}

/// Every flow, each by a client that is called like it.
async fn flows(stage: Stage) {
    let admin = Admin::new(stage.client("1 create a topic"), Duration::from_secs(20));
    let topic = Name::from(TOPIC);
    admin.create_topic(&topic, 1, &[]).await.expect("created");
    admin.close().await;
    produce(stage.client("2 produce"), 2).await;
    let mut client = stage.client("3 produce idempotently");
    client.profile = &IDEMPOTENT;
    produce(client, 3).await;
    let settings = Settings {
        group: Some("nobody".into()),
        ..Settings::default()
    };
    let at = TopicPartition::new(TOPIC, 0);
    let client = stage.client("4 consume assigned");
    let consumer = Consumer::assigned(client, settings, [at], Start::Reset);
    read(&consumer).await;
    consumer.close().await;
    let settings = Settings {
        group: Some("somebody".into()),
        ..Settings::default()
    };
    let client = stage.client("5 join a group and commit");
    let consumer = Consumer::subscribed(client, settings, [topic]);
    read(&consumer).await;
    consumer.commit().await.expect("committed");
    consumer.close().await;
}

#[test]
fn librdkafkas_profile_asks_what_librdkafka_asks() {
    let recorded: Sequences = fixtures::json("sequences/librdkafka.json").expect("the recording");
    let version = recorded.client.strip_prefix("librdkafka ");
    assert_eq!(
        version,
        Some(LIBRDKAFKA.software.1),
        "the profile's version"
    );
    let history = run(&LIBRDKAFKA, |stage| flows(stage).boxed());
    assert_eq!(recorded.flows.len(), 5);
    for (flow, lines) in &recorded.flows {
        let simulated = asked(&history, flow, &recorded.offered);
        assert_eq!(simulated, Shape::recorded(lines), "{flow}");
    }
}

#[test]
fn another_order_version_or_connection_is_noticed() {
    let lines =
        |lines: &[&str]| -> Vec<String> { lines.iter().map(|line| (*line).to_owned()).collect() };
    let shape = |some: &[&str]| Shape::recorded(&lines(some));
    let right = shape(&["1 ApiVersions v3", "1 JoinGroup v5", "2 Fetch v16"]);
    for wrong in [
        shape(&["1 ApiVersions v3", "1 JoinGroup v6", "2 Fetch v16"]),
        shape(&["1 ApiVersions v3", "2 Fetch v16", "1 JoinGroup v5"]),
        shape(&["1 ApiVersions v3", "1 JoinGroup v5", "1 Fetch v16"]),
        shape(&["1 ApiVersions v3", "1 JoinGroup v5"]),
    ] {
        assert_ne!(wrong, right);
    }
    let again = shape(&[
        "1 ApiVersions v3",
        "1 JoinGroup v5",
        "1 Heartbeat v3",
        "2 ApiVersions v3",
        "2 Fetch v16",
    ]);
    assert_eq!(again, right);
}
