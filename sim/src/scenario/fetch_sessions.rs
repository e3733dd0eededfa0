//! More consumers with fetch sessions than a facade keeps: the wide ones put the narrow ones out.

use std::time::Duration;

use facade::config::Config;
use tokio::task::JoinSet;
use tokio::time::sleep;

use super::orders::{Orders, TOPIC};
use super::stage::Stage;
use crate::client::consumer::{Consumer, Settings, Start};
use crate::client::{Profile, profile};
use crate::history::{Promise, TopicPartition};

/// Sessions that the facade keeps.
const SLOTS: usize = 2;
/// For how long a session is safe from a wider one.
const SAFE: Duration = Duration::from_millis(1_500);
/// Consumers that come first and take all sessions, each of one partition.
const NARROW: u32 = 2;
/// Consumers of every partition that come later.
const WIDE: u32 = 3;
const WIDE_COME: Duration = Duration::from_secs(3);

/// Both libraries ask for sessions.
const PROFILES: [&Profile; 2] = [&profile::JAVA.hurried(), &profile::FRANZ_GO.hurried()];

/// A facade with few sessions.
pub(super) fn few(config: &mut Config) {
    config.fetch_sessions.slots = SLOTS;
    config.fetch_sessions.eviction = SAFE;
}

/// Writers, and more consumers than there are sessions; each reads everything that it is assigned.
pub(super) async fn crowd(stage: Stage) {
    let orders = Orders::USUAL;
    let mut writers = orders.write(&stage);
    let mut readers = JoinSet::new();
    for (number, profile) in (0..NARROW + WIDE).zip(PROFILES.into_iter().cycle()) {
        let partitions = if number < NARROW {
            1
        } else {
            orders.partitions
        };
        readers.spawn(read(stage.clone(), number, profile, partitions, orders));
    }
    stage.healed().await;
    while writers.join_next().await.is_some() {}
    while readers.join_next().await.is_some() {}
    stage
        .audit(&TOPIC.into(), orders.partitions, orders.profiles[0])
        .await;
}

async fn read(
    stage: Stage,
    number: u32,
    profile: &'static Profile,
    partitions: i32,
    orders: Orders,
) {
    if number >= NARROW {
        sleep(WIDE_COME + Duration::from_millis(200) * number).await;
    }
    let settings = Settings {
        create_topics: true,
        promises: vec![Promise::NeverRefused, Promise::ReadsAll],
        ..Settings::default()
    };
    let assigned = (0..partitions).map(|partition| TopicPartition::new(TOPIC, partition));
    let client = stage.client(&format!("reader-{number}"), profile);
    let consumer = Consumer::assigned(client, settings, assigned, Start::Reset);
    let mut missing = orders.total_of(partitions);
    // Its refusal is a verdict of its own.
    while missing > 0
        && let Ok(polled) = consumer.poll(Duration::from_millis(500)).await
    {
        let given: usize = polled.iter().map(|one| one.records.len()).sum();
        missing = missing.saturating_sub(given);
    }
    consumer.close().await;
}
