//! A network that loses, cuts, delays and stops, in front of a server that is well. The client's own
//! relay does it to the client's own requests.

use std::time::Duration;

use kafka_wire::ApiKey;

use super::client::{Client, from_start, number};
use super::groups::settle;
use super::{Env, Scenario};
use crate::drivers::protocol::{Place, Setting};
use crate::relay::{Act, Rule, Side};
use crate::spec::{Stop, Verdict, ensure, expect_eq};

const PRODUCE: &[ApiKey] = &[ApiKey::INIT_PRODUCER_ID, ApiKey::PRODUCE, ApiKey::FETCH];

/// How long a client waits for an answer, where the scenario is about waiting.
const PATIENCE_MS: u32 = 1_000;

/// Time for delivery: some clients ask for metadata after each failure, and do it every five seconds.
const DELIVERY_MS: u64 = 45_000;

pub(super) fn scenarios() -> Vec<Scenario> {
    vec![
        Scenario::new(
            "network-produce-answers-lost",
            "When answers of Produce are lost, an idempotent producer's retries store nothing twice",
            PRODUCE,
            |env| {
                let lost = Rule::new(Side::Answer, ApiKey::PRODUCE, Act::Cut { after_bytes: 0 });
                produced(env, vec![lost.after(2).times(4)], &[])
            },
        )
        .kips(&[98, 360])
        .within(80),
        Scenario::new(
            "network-produce-requests-cut",
            "A Produce that breaks off in its middle stores nothing, and its retry stores it once",
            PRODUCE,
            |env| {
                let cut = |after_bytes| {
                    Rule::new(Side::Request, ApiKey::PRODUCE, Act::Cut { after_bytes }).after(1)
                };
                // In the length, in the header, in the topic's name, in the batch.
                produced(env, vec![cut(2), cut(20), cut(60), cut(400)], &[])
            },
        )
        .kips(&[98])
        .within(80),
        Scenario::new(
            "network-produce-answers-late",
            "Answers that come after the client gave up make it repeat what is stored, and it stays once",
            PRODUCE,
            |env| {
                let late = Act::Delay(Duration::from_millis(u64::from(PATIENCE_MS) + 700));
                produced(
                    env,
                    vec![Rule::new(Side::Answer, ApiKey::PRODUCE, late).after(2).times(2)],
                    &[Setting::RequestTimeoutMs(PATIENCE_MS)],
                )
            },
        )
        .kips(&[98])
        .within(80),
        Scenario::new(
            "network-produce-half-open",
            "A connection that goes dead without a word is given up, and nothing is lost or doubled",
            PRODUCE,
            |env| {
                produced(
                    env,
                    vec![Rule::new(Side::Request, ApiKey::PRODUCE, Act::HalfOpen).after(3)],
                    &[Setting::RequestTimeoutMs(PATIENCE_MS)],
                )
            },
        )
        .kips(&[98])
        .within(80),
        Scenario::new(
            "network-fetch-answers-cut",
            "Answers of Fetch that break off anywhere cost a reader nothing but time",
            &[ApiKey::FETCH],
            fetch_answers_cut,
        )
        .within(40),
        Scenario::new(
            "network-first-answers-lost",
            "A client gets over the loss of its first answers",
            &[ApiKey::API_VERSIONS, ApiKey::METADATA, ApiKey::PRODUCE],
            first_answers_lost,
        )
        .within(40),
        Scenario::new(
            "network-group-answers-lost",
            "A group settles although answers of each of its requests are lost",
            &[
                ApiKey::FIND_COORDINATOR,
                ApiKey::JOIN_GROUP,
                ApiKey::SYNC_GROUP,
                ApiKey::HEARTBEAT,
                ApiKey::OFFSET_FETCH,
            ],
            group_answers_lost,
        )
        .within(60),
        Scenario::new(
            "network-commit-answer-lost",
            "A commit whose answer is lost has landed or is repeated, and is told truly",
            &[ApiKey::OFFSET_COMMIT, ApiKey::OFFSET_FETCH],
            commit_answer_lost,
        )
        .within(60),
    ]
}

/// An idempotent producer under these rules: each number is stored once, in order.
async fn produced(env: Env, rules: Vec<Rule>, settings: &[Setting]) -> Verdict {
    const ROUNDS: u64 = 20;
    const EACH: u64 = 50;
    let (mut client, topic) = env.topic(1).await?;
    for setting in settings {
        // As a hint it would be left out, and the scenario would be about nothing.
        client.require(&format!("setting.{}", setting.to_pair().0))?;
    }
    let mut all = vec![
        Setting::Idempotence(true),
        Setting::LingerMs(0),
        Setting::RetryBackoffMs(50),
        Setting::ReconnectBackoffMs(20),
        Setting::ReconnectBackoffMaxMs(200),
    ];
    all.extend_from_slice(settings);
    client.producer(&all).await?;
    client.delivery_ms = DELIVERY_MS;
    for rule in rules {
        client.relay().add(rule);
    }
    for round in 0..ROUNDS {
        let places = client
            .produce_numbers(&topic, Some(0), round * EACH, EACH)
            .await?;
        expect_eq(
            "first place of a round",
            &Some((0, i64::try_from(round * EACH).unwrap_or(i64::MAX))),
            &places.first().copied(),
        )?;
    }
    hurt(&client)?;
    let total = ROUNDS * EACH;
    let mut reader = env.eyes(env.cx.bootstrap()).await?;
    reader.reader(from_start(&topic, 1)).await?;
    let read = reader
        .read_exactly(usize::try_from(total).unwrap_or(usize::MAX))
        .await?;
    in_order(&read)
}

/// Demands that the network did what it was to do: a rule that never acted proves nothing.
fn hurt(client: &Client) -> Verdict {
    let acted = client.relay().acted();
    ensure(acted > 0, || "no rule of the relay has acted".into())
}

fn in_order(records: &[crate::drivers::protocol::Incoming]) -> Verdict {
    for (at, record) in records.iter().enumerate() {
        expect_eq(&format!("records[{at}]"), &(at as u64), &number(record)?)?;
    }
    Ok(())
}

async fn fetch_answers_cut(env: Env) -> Verdict {
    const COUNT: u64 = 5_000;
    let (mut producer, topic) = env.topic(1).await?;
    producer.producer(&[]).await?;
    for first in (0..COUNT).step_by(500) {
        producer
            .produce_numbers(&topic, Some(0), first, 500)
            .await?;
    }
    let mut reader = env.client().await?;
    reader
        .reader_with(
            from_start(&topic, 1),
            &[
                Setting::FetchMaxBytes(20_000),
                Setting::ReconnectBackoffMs(20),
                Setting::ReconnectBackoffMaxMs(100),
            ],
        )
        .await?;
    for after_bytes in [0, 3, 11, 60, 700, 9_000] {
        reader
            .relay()
            .add(Rule::new(Side::Answer, ApiKey::FETCH, Act::Cut { after_bytes }).after(1));
    }
    let read = reader.read_exactly(5_000).await?;
    hurt(&reader)?;
    in_order(&read)
}

async fn first_answers_lost(env: Env) -> Verdict {
    let (_creator, topic) = env.topic(1).await?;
    let mut client = env.client().await?;
    for key in [ApiKey::API_VERSIONS, ApiKey::METADATA] {
        client
            .relay()
            .add(Rule::new(Side::Answer, key, Act::Cut { after_bytes: 0 }));
    }
    client
        .producer(&[
            Setting::ReconnectBackoffMs(20),
            Setting::ReconnectBackoffMaxMs(200),
        ])
        .await?;
    client.produce_numbers(&topic, Some(0), 0, 10).await?;
    hurt(&client)
}

async fn group_answers_lost(env: Env) -> Verdict {
    let (mut producer, topic) = env.topic(4).await?;
    producer.producer(&[]).await?;
    producer.produce_numbers(&topic, None, 0, 100).await?;
    let group = env.cx.unique("group");
    let mut members = Vec::new();
    for _ in 0..2 {
        let mut member = env.client().await?;
        for key in [
            ApiKey::FIND_COORDINATOR,
            ApiKey::JOIN_GROUP,
            ApiKey::SYNC_GROUP,
            ApiKey::OFFSET_FETCH,
        ] {
            member
                .relay()
                .add(Rule::new(Side::Answer, key, Act::Cut { after_bytes: 0 }));
        }
        member.relay().add(
            Rule::new(Side::Answer, ApiKey::HEARTBEAT, Act::Cut { after_bytes: 0 })
                .after(2)
                .times(2),
        );
        member
            .member(
                &group,
                &[&topic],
                &[
                    Setting::ReconnectBackoffMs(20),
                    Setting::ReconnectBackoffMaxMs(200),
                    Setting::RetryBackoffMs(50),
                ],
            )
            .await?;
        members.push(member);
    }
    settle(&mut members, &[(&topic, 4)]).await?;
    for member in &members {
        hurt(member)?;
    }
    let mut places = std::collections::BTreeSet::new();
    let mut producing = 100;
    // What was read before the group settled may come twice; everything must come once.
    let deadline = tokio::time::Instant::now() + Duration::from_secs(15);
    while places.len() < 200 {
        if producing < 200 {
            producer
                .produce_numbers(&topic, None, producing, 100)
                .await?;
            producing += 100;
        }
        for member in &mut members {
            member.pump(100, 200).await?;
            for record in member.take_records() {
                places.insert((record.partition, record.offset));
            }
        }
        ensure(tokio::time::Instant::now() < deadline, || {
            format!("{} of 200 records came", places.len())
        })?;
    }
    Ok(())
}

async fn commit_answer_lost(env: Env) -> Verdict {
    let (mut client, topic) = env.topic(1).await?;
    let group = env.cx.unique("group");
    client
        .consumer(&[
            Setting::GroupId(group.clone()),
            Setting::ReconnectBackoffMs(20),
            Setting::ReconnectBackoffMaxMs(200),
        ])
        .await?;
    client.relay().add(Rule::new(
        Side::Answer,
        ApiKey::OFFSET_COMMIT,
        Act::Cut { after_bytes: 0 },
    ));
    let first = client.commit(Some(vec![Place::new(&topic, 0, 7)])).await;
    hurt(&client)?;
    let mut other = env.client().await?;
    other.consumer(&[Setting::GroupId(group)]).await?;
    let found = other.committed(vec![Place::new(&topic, 0, 0)]).await?;
    // The server had it when its answer was lost. A client that says that it failed may; one that says
    // it worked must be right, too.
    expect_eq("committed", &7, &found[0].offset)?;
    env.cx.record.fact("told as done", first.is_ok());
    if let Err(stop @ Stop::Unable(_)) = first {
        return Err(stop);
    }
    client.commit(Some(vec![Place::new(&topic, 0, 9)])).await?;
    let found = other.committed(vec![Place::new(&topic, 0, 0)]).await?;
    expect_eq("committed afterwards", &9, &found[0].offset)
}
