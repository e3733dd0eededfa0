//! Width: many partitions, many topics, many records.

use kafka_wire::ApiKey;

use super::client::{all_done, from_start, number};
use super::{Env, Scenario};
use crate::drivers::protocol::{Codec, NewTopic, Op, Setting};
use crate::spec::{Verdict, ensure, expect_eq};

/// Topics in the largest listing.
const TOPICS: usize = 10_000;
/// Topics in one request; a facade takes no more.
const AT_ONCE: usize = 100;

pub(super) fn scenarios() -> Vec<Scenario> {
    vec![
        Scenario::new(
            "scale-1000-partitions",
            "One reader of 1,000 partitions sees a record of each",
            &[ApiKey::FETCH, ApiKey::LIST_OFFSETS, ApiKey::METADATA],
            thousand_partitions,
        )
        .kips(&[227])
        .within(60),
        Scenario::new(
            "scale-10000-topics",
            "A listing of 10,000 topics is complete",
            &[ApiKey::METADATA, ApiKey::CREATE_TOPICS],
            ten_thousand_topics,
        )
        .on_its_own_node()
        .within(120),
        Scenario::new(
            "scale-100000-records",
            "A hundred thousand records come back once each, in order",
            &[ApiKey::PRODUCE, ApiKey::FETCH],
            hundred_thousand_records,
        )
        .within(60),
    ]
}

async fn thousand_partitions(env: Env) -> Verdict {
    const WIDTH: i32 = 1_000;
    let (mut client, topic) = env.topic(WIDTH).await?;
    client.producer(&[Setting::LingerMs(100)]).await?;
    // A real broker opens a thousand logs before it leads them all.
    client.delivery_ms = 45_000;
    let records = (0..WIDTH)
        .map(|partition| super::client::record(&topic, partition, partition.to_string()))
        .collect();
    client.produce(records).await?;
    let mut reader = env.client().await?;
    reader.reader(from_start(&topic, WIDTH)).await?;
    for record in reader.read_exactly(1_000).await? {
        expect_eq(
            "number",
            &u64::try_from(record.partition).unwrap_or(u64::MAX),
            &number(&record)?,
        )?;
    }
    Ok(())
}

async fn ten_thousand_topics(env: Env) -> Verdict {
    let node = env.cx.own_node(&[]).await?;
    let mut client = env.client_of(&node).await?;
    for chunk in (0..TOPICS).collect::<Vec<_>>().chunks(AT_ONCE) {
        let op = Op::CreateTopics {
            topics: chunk
                .iter()
                .map(|n| NewTopic {
                    name: format!("topic-{n:05}"),
                    partitions: 1,
                    config: std::collections::BTreeMap::new(),
                })
                .collect(),
            validate_only: false,
        };
        all_done(&client.outcomes(&op).await?)?;
    }
    let began = tokio::time::Instant::now();
    let listing = client.metadata(None).await?;
    env.cx.record.fact(
        "listing_ms",
        u64::try_from(began.elapsed().as_millis()).unwrap_or(u64::MAX),
    );
    expect_eq("topics", &TOPICS, &listing.topics.len())?;
    ensure(listing.errors.is_empty(), || {
        format!("{:?}", listing.errors)
    })
}

async fn hundred_thousand_records(env: Env) -> Verdict {
    const COUNT: u64 = 100_000;
    let (mut client, topic) = env.topic(1).await?;
    client
        .producer(&[
            Setting::Idempotence(true),
            Setting::LingerMs(5),
            Setting::Compression(Codec::Lz4),
        ])
        .await?;
    let delivered = client.try_numbers(&topic, Some(0), 0, COUNT, 100).await?;
    expect_eq("failed deliveries", &Vec::new(), &delivered.failed)?;
    let mut reader = env.eyes(env.cx.bootstrap()).await?;
    reader.reader(from_start(&topic, 1)).await?;
    let read = reader.read_exactly(100_000).await?;
    for (at, record) in read.iter().enumerate() {
        expect_eq(&format!("records[{at}]"), &(at as u64), &number(record)?)?;
    }
    Ok(())
}
