//! What clients do before a liar: little, so that a fault shows soon.

use std::time::Duration;

use sim::client::consumer::{Consumer, Settings};
use sim::client::profile;
use sim::client::{Client, Profile};
use sim::history::{Event, Mark, Name, Promise, TopicPartition};
use sim::scenario::{Orders, Stage, TOPIC};
use tokio::task::JoinSet;
use tokio::time::sleep;

const FEW: Orders = Orders {
    writers: 2,
    batches: 20,
    ..Orders::USUAL
};

pub async fn orders(stage: Stage) {
    FEW.play(stage).await;
}

/// Writers that a throttling broker promised not to hear meanwhile.
pub async fn muted_orders(stage: Stage) {
    let orders = Orders {
        profiles: &[&HASTY],
        promises: &[Promise::MutedWhenThrottled],
        ..FEW
    };
    orders.play(stage).await;
}

/// Writers that promise to wait and don't.
pub async fn hasty_orders(stage: Stage) {
    let orders = Orders {
        profiles: &[&HASTY],
        promises: &[Promise::ObeysThrottle],
        ..FEW
    };
    orders.play(stage).await;
}

const HASTY: Profile = {
    let mut profile = profile::IDEMPOTENT;
    profile.obeys_throttle = false;
    profile
};

const GROUP: &str = "shop";
const MEMBERS: usize = 2;
/// The second member finds the first one settled, with something committed.
const JOINS_APART: Duration = Duration::from_secs(5);
/// Long enough for every timeout of a member in a hurry, several times over.
const SETTLES: Duration = Duration::from_secs(12);

/// Members of a group read what is written, commit what they read, and have time to settle.
pub async fn group(stage: Stage) {
    let few = Orders { batches: 15, ..FEW };
    let mut writers = few.write(&stage);
    let mut members = JoinSet::new();
    for number in 0..MEMBERS {
        let id = format!("consumer-{number}");
        let client = stage.client(&id, &profile::IDEMPOTENT);
        members.spawn_local(async move {
            sleep(JOINS_APART * u32::try_from(number).expect("few")).await;
            member(client).await;
        });
    }
    stage.healed().await;
    while writers.join_next().await.is_some() {}
    sleep(SETTLES).await;
    let settled = Mark::Settled {
        group: GROUP.into(),
        partitions: (0..few.partitions)
            .map(|partition| TopicPartition::new(TOPIC, partition))
            .collect(),
    };
    stage
        .recorder
        .record(&Name::from("world"), Event::Mark(settled));
    members.abort_all();
    stage
        .audit(&TOPIC.into(), few.partitions, &profile::IDEMPOTENT)
        .await;
}

async fn member(client: Client) {
    let settings = Settings {
        group: Some(GROUP.into()),
        create_topics: true,
        promises: vec![Promise::ReadsAll],
        ..Settings::default()
    };
    let consumer = Consumer::subscribed(client, settings, [Name::from(TOPIC)]);
    loop {
        match consumer.poll(Duration::from_millis(200)).await {
            // What fails will be committed with the next ones.
            Ok(polled) if !polled.is_empty() => drop(consumer.commit().await),
            Ok(_) => {}
            Err(_) => return,
        }
    }
}
