//! Corners: bytes at the borders of every length, names at their limits, batches of one and of
//! thousands, topics that change under those who use them.

use std::collections::BTreeSet;
use std::time::Duration;

use kafka_wire::ApiKey;
use tokio::time::Instant;

use super::client::{all_done, number, record};
use super::produce::read_back;
use super::{Env, Scenario};
use crate::drivers::protocol::{
    Blob, Event, Incoming, NewTopic, Op, Outgoing, Place, Setting, TopicConfig,
};
use crate::spec::{Verdict, ensure, expect_eq};

const APIS: &[ApiKey] = &[ApiKey::PRODUCE, ApiKey::FETCH];

pub(super) fn scenarios() -> Vec<Scenario> {
    vec![
        Scenario::new(
            "corner-lengths",
            "Keys, values and headers at every border of a length come back byte for byte",
            APIS,
            lengths,
        ),
        Scenario::new(
            "corner-many-headers",
            "A record with a thousand headers keeps all of them in order",
            APIS,
            many_headers,
        ),
        Scenario::new(
            "corner-names",
            "Topics of one and of 249 letters, with every legal sign, work like any other",
            &[
                ApiKey::CREATE_TOPICS,
                ApiKey::METADATA,
                ApiKey::PRODUCE,
                ApiKey::FETCH,
                ApiKey::DELETE_TOPICS,
            ],
            names,
        )
        .within(40),
        Scenario::new(
            "corner-group-ids",
            "A group may have any name",
            &[
                ApiKey::FIND_COORDINATOR,
                ApiKey::OFFSET_COMMIT,
                ApiKey::OFFSET_FETCH,
            ],
            group_ids,
        ),
        Scenario::new(
            "corner-batches",
            "Two thousand batches of one record and one batch of thousands read as one log",
            APIS,
            batches,
        )
        .within(60),
        Scenario::new(
            "corner-recreated-under-a-group",
            "A topic that is deleted and created again under a running group is read from its new beginning",
            &[
                ApiKey::DELETE_TOPICS,
                ApiKey::CREATE_TOPICS,
                ApiKey::METADATA,
                ApiKey::FETCH,
            ],
            recreated_under_a_group,
        )
        .kips(&[516])
        .within(60),
        Scenario::new(
            "corner-widened-under-load",
            "Partitions that are added under a producer and a group lose and double nothing",
            &[
                ApiKey::CREATE_PARTITIONS,
                ApiKey::PRODUCE,
                ApiKey::FETCH,
                ApiKey::JOIN_GROUP,
            ],
            widened_under_load,
        )
        .kips(&[195])
        .within(60),
    ]
}

/// `length` bytes that no codec makes much smaller, and no two lengths share.
fn noise(length: usize) -> Vec<u8> {
    let mut state = u32::try_from(length).unwrap_or(u32::MAX) ^ 0x9e37_79b9;
    (0..length)
        .map(|_| {
            state = state.wrapping_mul(1_664_525).wrapping_add(1_013_904_223);
            (state >> 24) as u8
        })
        .collect()
}

/// Records whose lengths stand on both sides of every border of the varints they are written with,
/// as far as `can` says that the client can send them.
pub(super) fn corner_records(topic: &str, can: impl Fn(&str) -> bool) -> Vec<Outgoing> {
    let header = |name: &str, value: Blob| (name.to_owned(), value);
    let mut records: Vec<Outgoing> = [0, 1, 63, 64, 127, 128, 8_191, 8_192, 16_383, 16_384]
        .into_iter()
        .map(|length| Outgoing {
            key: Blob(Some(noise(length))),
            ..record(topic, 0, noise(length + 1))
        })
        .collect();
    records.push(record(topic, 0, "no key"));
    records.push(record(topic, 0, ""));
    if can("record.tombstone") {
        records.push(Outgoing {
            key: Blob::of("gone"),
            value: Blob(None),
            ..record(topic, 0, "")
        });
    }
    if can("record.headers") {
        let mut headers = vec![
            header("twice", Blob::of("a")),
            header("every byte", Blob(Some((0..=255).collect()))),
            header("twice", Blob::of("b")),
            header("empty", Blob::of("")),
            header("größe ☃ 𝄞", Blob::of("not ASCII")),
            header(&"n".repeat(200), Blob(Some(noise(20_000)))),
        ];
        if can("record.header_null") {
            headers.push(header("null", Blob(None)));
        }
        records.push(Outgoing {
            headers,
            ..record(topic, 0, "with headers")
        });
    }
    records
}

/// Demands that what was read is what was sent, byte for byte.
pub(super) fn same(sent: &[Outgoing], read: &[Incoming]) -> Verdict {
    expect_eq("records", &sent.len(), &read.len())?;
    for (at, (sent, read)) in sent.iter().zip(read).enumerate() {
        expect_eq(&format!("records[{at}].key"), &sent.key, &read.key)?;
        expect_eq(&format!("records[{at}].value"), &sent.value, &read.value)?;
        expect_eq(
            &format!("records[{at}].headers"),
            &sent.headers,
            &read.headers,
        )?;
    }
    Ok(())
}

async fn lengths(env: Env) -> Verdict {
    let (mut client, topic) = env.topic(1).await?;
    client.producer(&[]).await?;
    let sent = corner_records(&topic, |name| client.can(name));
    client.produce(sent.clone()).await?;
    let read = read_back(&env, &topic, 1, sent.len()).await?;
    same(&sent, &read)
}

async fn many_headers(env: Env) -> Verdict {
    let (mut client, topic) = env.topic(1).await?;
    client.producer(&[]).await?;
    let sent = vec![Outgoing {
        headers: (0..1_000)
            .map(|n| (format!("header-{}", n % 7), Blob::of(n.to_string())))
            .collect(),
        ..record(&topic, 0, "x")
    }];
    client.produce(sent.clone()).await?;
    let read = read_back(&env, &topic, 1, 1).await?;
    same(&sent, &read)
}

async fn names(env: Env) -> Verdict {
    let mut client = env.client().await?;
    client.producer(&[]).await?;
    let stem = env.cx.unique("n");
    let long = format!("{stem}{}", "x".repeat(249 - stem.len()));
    for topic in [
        long,
        format!("{stem}.with_every-SIGN.09"),
        format!("{stem}-"),
    ] {
        client.create_topic(&topic, 1, &[]).await?;
        let sent = vec![record(&topic, 0, &topic)];
        client.produce(sent.clone()).await?;
        same(&sent, &read_back(&env, &topic, 1, 1).await?)?;
        let op = Op::DeleteTopics {
            topics: vec![topic],
        };
        all_done(&client.outcomes(&op).await?)?;
    }
    Ok(())
}

async fn group_ids(env: Env) -> Verdict {
    let (_creator, topic) = env.topic(1).await?;
    let stem = env.cx.unique("group");
    for (at, group) in [
        format!("{stem} with spaces / and : signs"),
        format!("{stem} grüße ☃"),
        format!("{stem}{}", "g".repeat(255 - stem.len())),
    ]
    .into_iter()
    .enumerate()
    {
        let mut client = env.client().await?;
        client.consumer(&[Setting::GroupId(group.clone())]).await?;
        let offset = i64::try_from(at).unwrap_or_default() + 1;
        client
            .commit(Some(vec![Place::new(&topic, 0, offset)]))
            .await?;
        let found = client.committed(vec![Place::new(&topic, 0, 0)]).await?;
        expect_eq(&group, &offset, &found[0].offset)?;
    }
    Ok(())
}

async fn batches(env: Env) -> Verdict {
    const SMALL: u64 = 2_000;
    const LARGE: u64 = 8_000;
    let (mut client, topic) = env.topic(1).await?;
    client
        .producer(&[Setting::LingerMs(0), Setting::BatchRecords(1)])
        .await?;
    client.produce_numbers(&topic, Some(0), 0, SMALL).await?;
    client
        .producer(&[
            Setting::LingerMs(200),
            Setting::BatchRecords(10_000),
            Setting::BatchBytes(900_000),
        ])
        .await?;
    client
        .produce_numbers(&topic, Some(0), SMALL, LARGE)
        .await?;
    let read = read_back(&env, &topic, 1, 10_000).await?;
    for (at, record) in read.iter().enumerate() {
        expect_eq(&format!("records[{at}]"), &(at as u64), &number(record)?)?;
    }
    Ok(())
}

async fn recreated_under_a_group(env: Env) -> Verdict {
    let (mut admin, topic) = env.topic(1).await?;
    admin.producer(&[]).await?;
    admin.produce_numbers(&topic, Some(0), 0, 50).await?;
    let mut member = env.client().await?;
    member
        .member(
            &env.cx.unique("group"),
            &[&topic],
            &[
                // Else the one who reads is the one who creates it again.
                Setting::AutoCreateTopics(false),
                Setting::MetadataRefreshMs(400),
                Setting::TopicPropagationMs(200),
            ],
        )
        .await?;
    member.read_exactly(50).await?;
    let op = Op::DeleteTopics {
        topics: vec![topic.clone()],
    };
    all_done(&admin.outcomes(&op).await?)?;
    member.pump(1_000, 1).await?;
    // A real cluster deletes in the background.
    let deadline = Instant::now() + Duration::from_secs(15);
    loop {
        let op = Op::CreateTopics {
            topics: vec![NewTopic {
                name: topic.clone(),
                partitions: 1,
                config: TopicConfig::new(),
            }],
            validate_only: false,
        };
        let outcomes = admin.outcomes(&op).await?;
        if outcomes[&topic].is_none() {
            break;
        }
        ensure(Instant::now() < deadline, || format!("{outcomes:?}"))?;
        member.pump(200, 1).await?;
    }
    let mut fresh = env.client().await?;
    fresh.await_width(&topic, 1).await?;
    fresh.producer(&[]).await?;
    fresh.produce_numbers(&topic, Some(0), 1_000, 10).await?;
    let mut seen = BTreeSet::new();
    let deadline = Instant::now() + Duration::from_secs(25);
    while seen.len() < 10 {
        member.pump(300, 100).await?;
        for record in member.take_records() {
            seen.insert(number(&record)?);
        }
        // Some clients keep the id of the old topic for as long as they live. They must be told that
        // nothing is there, again and again, and never get the new topic's records under the old id.
        let told = member.events.iter().any(|event| {
            matches!(event, Event::Error { message } if message.contains("UNKNOWN_TOPIC_ID"))
        });
        if told && seen.is_empty() && Instant::now() > deadline {
            env.cx
                .record
                .fact("the client stays with the old topic", true);
            return Ok(());
        }
        ensure(Instant::now() < deadline, || {
            let last = member.events.iter().rev().take(5).collect::<Vec<_>>();
            format!("of the new topic's records only {seen:?} came; the last events: {last:?}")
        })?;
    }
    expect_eq("records", &(1_000..1_010).collect(), &seen)
}

async fn widened_under_load(env: Env) -> Verdict {
    const ROUNDS: u64 = 12;
    const EACH: u64 = 50;
    let (mut admin, topic) = env.topic(2).await?;
    let refresh = Setting::MetadataRefreshMs(400);
    let mut producer = env.client().await?;
    producer
        .producer(&[Setting::Idempotence(true), refresh.clone()])
        .await?;
    let mut member = env.client().await?;
    member
        .member(&env.cx.unique("group"), &[&topic], &[refresh])
        .await?;
    let mut seen: BTreeSet<u64> = BTreeSet::new();
    let mut wide = 0;
    for round in 0..ROUNDS {
        let places = producer
            .produce_numbers(&topic, None, round * EACH, EACH)
            .await?;
        wide += places
            .iter()
            .filter(|(partition, _)| *partition >= 2)
            .count();
        if round == 2 {
            let op = Op::CreatePartitions {
                topic: topic.clone(),
                count: 6,
            };
            all_done(&admin.outcomes(&op).await?)?;
        }
        member.pump(150, 200).await?;
    }
    // The group commits nothing, so a rebalance makes it read again: it must see everything, and the
    // log must have it once.
    let deadline = Instant::now() + Duration::from_secs(20);
    while (seen.len() as u64) < ROUNDS * EACH {
        member.pump(300, 500).await?;
        for record in member.take_records() {
            seen.insert(number(&record)?);
        }
        ensure(Instant::now() < deadline, || {
            format!("{} of {} came", seen.len(), ROUNDS * EACH)
        })?;
    }
    env.cx.record.fact("records on added partitions", wide);
    let stored = read_back(&env, &topic, 6, seen.len()).await?;
    let distinct: BTreeSet<u64> = stored.iter().map(number).collect::<Result<_, _>>()?;
    expect_eq("distinct records in the log", &seen, &distinct)
}
