//! Tenants of one cell on one listener, and keys that may do only a part.

use kafka_wire::ApiKey;

use super::client::{Client, from_start, number};
use super::{Env, Scenario};
use crate::drivers::Refusal;
use crate::drivers::protocol::{Deliveries, Op, Place, Setting};
use crate::spec::{Stop, Verdict, ensure, expect_eq};
use crate::target::Key;

/// An offset that was never committed.
const NONE: i64 = -1;

pub(super) fn scenarios() -> Vec<Scenario> {
    vec![
        Scenario::new(
            "tenants-apart",
            "Two tenants on one listener have topics and groups of the same names, and see nothing of each other",
            &[
                ApiKey::METADATA,
                ApiKey::CREATE_TOPICS,
                ApiKey::PRODUCE,
                ApiKey::FETCH,
                ApiKey::OFFSET_COMMIT,
                ApiKey::OFFSET_FETCH,
                ApiKey::DELETE_TOPICS,
            ],
            apart,
        )
        .within(40),
        Scenario::new(
            "tenant-key-of-a-consumer",
            "With a key that may only consume, a client reads and commits, and what it sends is refused",
            &[ApiKey::PRODUCE, ApiKey::FETCH, ApiKey::OFFSET_COMMIT],
            key_of_a_consumer,
        )
        .within(40),
        Scenario::new(
            "tenant-key-of-a-producer",
            "With a key that may only produce, a client sends; it neither reads nor commits",
            &[ApiKey::PRODUCE, ApiKey::FETCH, ApiKey::OFFSET_COMMIT],
            key_of_a_producer,
        )
        .within(40),
    ]
}

async fn with_key(env: &Env, key: Key) -> Result<Client, Stop> {
    let who = env.cx.target.tenants()?.credentials(key);
    let server = env.cx.bootstrap().with_credentials(Some(who));
    env.client_as(&server).await
}

/// Reads everything of partition 0 and demands `first`, `first + 1`, … and no more.
async fn reads(client: &mut Client, topic: &str, first: u64, count: usize) -> Verdict {
    client.reader(from_start(topic, 1)).await?;
    for (at, record) in client.read_exactly(count).await?.iter().enumerate() {
        let expected = first + at as u64;
        expect_eq(&format!("records[{at}]"), &expected, &number(record)?)?;
    }
    client.close_consumer().await
}

async fn committed(client: &mut Client, group: &str, place: &Place) -> Result<i64, Stop> {
    client
        .consumer(&[Setting::GroupId(group.to_owned())])
        .await?;
    let found = client.committed(vec![place.clone()]).await?;
    client.close_consumer().await?;
    match found.as_slice() {
        [one] => Ok(one.offset),
        _ => Err(Stop::fail(format!("one place was asked for: {found:?}"))),
    }
}

async fn commit(client: &mut Client, group: &str, place: Place) -> Verdict {
    client
        .consumer(&[
            Setting::GroupId(group.to_owned()),
            Setting::AutoCommit(false),
        ])
        .await?;
    let done = client.commit(Some(vec![place])).await;
    let closed = client.close_consumer().await;
    done.and(closed)
}

async fn apart(env: Env) -> Verdict {
    let mut mine = with_key(&env, Key::Owner).await?;
    let mut theirs = with_key(&env, Key::Neighbour).await?;
    let (topic, group) = (env.cx.unique("topic"), env.cx.unique("group"));
    mine.create_topic(&topic, 2, &[]).await?;
    let all = theirs.metadata(None).await?;
    ensure(!all.topics.contains_key(&topic), || {
        format!("{topic} of another tenant is listed")
    })?;
    theirs.create_topic(&topic, 1, &[]).await?;
    mine.await_width(&topic, 2).await?;

    for (client, first, count) in [(&mut mine, 0, 10), (&mut theirs, 100, 5)] {
        client.producer(&[]).await?;
        client
            .produce_numbers(&topic, Some(0), first, count)
            .await?;
    }
    let place = Place::new(&topic, 0, 7);
    commit(&mut mine, &group, place.clone()).await?;
    expect_eq(
        "the offset of the other tenant's group",
        &NONE,
        &committed(&mut theirs, &group, &place).await?,
    )?;
    reads(&mut mine, &topic, 0, 10).await?;
    reads(&mut theirs, &topic, 100, 5).await?;

    let delete = Op::DeleteTopics {
        topics: vec![topic.clone()],
    };
    super::client::all_done(&theirs.outcomes(&delete).await?)?;
    reads(&mut mine, &topic, 0, 10).await?;
    expect_eq(
        "the offset of the own group",
        &7,
        &committed(&mut mine, &group, &place).await?,
    )
}

async fn key_of_a_consumer(env: Env) -> Verdict {
    let (mut owner, topic) = env.topic(1).await?;
    owner.producer(&[]).await?;
    owner.produce_numbers(&topic, Some(0), 0, 10).await?;
    let mut client = with_key(&env, Key::Consumer).await?;
    reads(&mut client, &topic, 0, 10).await?;
    let (group, place) = (env.cx.unique("group"), Place::new(&topic, 0, 3));
    commit(&mut client, &group, place.clone()).await?;
    expect_eq(
        "committed",
        &3,
        &committed(&mut owner, &group, &place).await?,
    )?;

    client
        .producer(&[Setting::DeliveryTimeoutMs(6_000)])
        .await?;
    let sent: Result<Deliveries, Refusal> = client.try_numbers(&topic, Some(0), 10, 1, 16).await;
    let words = match sent {
        Ok(Deliveries { failed, .. }) if !failed.is_empty() => failed[0].1.clone(),
        Ok(_) => return Err(Stop::fail("a record is delivered with a consumer's key")),
        Err(refusal) if refusal.unable => return Err(refusal.into()),
        Err(refusal) => refusal.message,
    };
    env.cx.record.fact("the client says", words);
    reads(&mut owner, &topic, 0, 10).await
}

async fn key_of_a_producer(env: Env) -> Verdict {
    let (mut owner, topic) = env.topic(1).await?;
    let mut client = with_key(&env, Key::Producer).await?;
    client.producer(&[]).await?;
    client.produce_numbers(&topic, Some(0), 0, 10).await?;
    reads(&mut owner, &topic, 0, 10).await?;

    let group = env.cx.unique("group");
    match commit(&mut client, &group, Place::new(&topic, 0, 3)).await {
        Ok(()) => return Err(Stop::fail("a commit lands with a producer's key")),
        Err(Stop::Fail(failure)) => env.cx.record.fact("the client says", failure.reason),
        Err(stop) => return Err(stop),
    }
    expect_eq(
        "committed",
        &NONE,
        &committed(&mut owner, &group, &Place::new(&topic, 0, 0)).await?,
    )?;
    // Whether a client says so, when it opens or when it polls, or is silent, is its own affair.
    let read = match client.reader(from_start(&topic, 1)).await {
        Ok(()) => client.pump(3_000, 1).await,
        Err(stop) => Err(stop),
    };
    match read {
        Ok(()) | Err(Stop::Fail(_)) => expect_eq("records read", &0, &client.held()),
        Err(stop) => Err(stop),
    }
}
