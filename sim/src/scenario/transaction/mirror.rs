//! Two clients whose transactions write to one partition each and read the other's: neither may
//! see what the other has not committed, so neither depends on the other in a circle.

use std::time::Duration;

use tokio::task::JoinSet;
use tokio::time::sleep;

use crate::client::consumer::{Consumer, Settings, Start};
use crate::client::transactional::{self, TransactionalProducer, Trouble};
use crate::history::{Isolation, Promise, TopicPartition, Value};
use crate::scenario::orders::TOPIC;
use crate::scenario::stage::Stage;

/// Transactions of each.
const TRANSACTIONS: u64 = 25;
/// How long each looks for records of the other.
const LOOK: Duration = Duration::from_millis(120);
const RESTART: Duration = Duration::from_millis(300);

/// Plays it, and the audit.
pub async fn play(stage: Stage) {
    let mut clients = JoinSet::new();
    for number in 0..2 {
        clients.spawn(mirror(stage.clone(), number));
    }
    stage.healed().await;
    while clients.join_next().await.is_some() {}
    stage.audit(&TOPIC.into(), 2, super::PROFILES[0]).await;
}

async fn mirror(stage: Stage, number: u32) {
    let id = format!("mirror-{number}");
    let own = i32::try_from(number).unwrap_or_default();
    let (own, other) = (
        TopicPartition::new(TOPIC, own),
        TopicPartition::new(TOPIC, 1 - own),
    );
    let profile = super::PROFILES[number as usize % super::PROFILES.len()];
    let client = stage.client(&id, profile);
    let settings = Settings {
        isolation: Isolation::ReadCommitted,
        create_topics: true,
        ..Settings::default()
    };
    let reading = Consumer::assigned(client.clone(), settings, [other], Start::At(0));
    let mut running: Option<TransactionalProducer> = None;
    let (mut committed, mut transaction) = (0, 0);
    while committed < TRANSACTIONS {
        let mut producer = match running.take() {
            Some(producer) => producer,
            None => {
                let settings = transactional::Settings {
                    id: id.as_str().into(),
                    timeout: Duration::from_secs(10),
                    promises: vec![Promise::Once, Promise::Ordered],
                };
                let mut fresh = TransactionalProducer::new(client.clone(), settings);
                if fresh.init().await.is_err() {
                    sleep(RESTART).await;
                    continue;
                }
                fresh
            }
        };
        transaction += 1;
        producer.begin_as(transaction);
        producer.send(
            &own,
            None,
            Value {
                producer: number,
                number: transaction,
            },
        );
        let written = async {
            producer.flush().await?;
            // An error is one of reading: the next poll says it again.
            let _ = reading.poll_in(LOOK, Some(transaction)).await;
            producer.commit().await
        };
        match written.await {
            Ok(()) => committed += 1,
            Err(Trouble::Abortable { .. }) if producer.abort().await.is_ok() => {}
            Err(_) => {
                sleep(RESTART).await;
                continue;
            }
        }
        running = Some(producer);
    }
}
