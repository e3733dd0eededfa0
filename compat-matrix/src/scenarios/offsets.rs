//! Committed offsets: by hand, synchronous, asynchronous, automatic, many at once.

use std::time::Duration;

use kafka_wire::ApiKey;
use tokio::time::Instant;

use super::{Env, Scenario};
use crate::drivers::protocol::{Event, Place, Setting};
use crate::spec::{Verdict, ensure, expect_eq};

const APIS: &[ApiKey] = &[ApiKey::OFFSET_COMMIT, ApiKey::OFFSET_FETCH];

/// An offset that was never committed.
const NONE: i64 = -1;

pub(super) fn scenarios() -> Vec<Scenario> {
    vec![
        Scenario::new(
            "commit-sync-with-metadata",
            "A committed offset comes back with its metadata, to any client of the group",
            APIS,
            sync_with_metadata,
        ),
        Scenario::new(
            "commit-async",
            "An asynchronous commit lands",
            APIS,
            asynchronous,
        ),
        Scenario::new(
            "commit-automatic",
            "Automatic commits land while the consumer runs and when it closes",
            APIS,
            automatic,
        ),
        Scenario::new(
            "commit-backwards",
            "A commit by hand may move back",
            APIS,
            backwards,
        ),
        Scenario::new(
            "commit-nothing-yet",
            "A partition that was never committed says so",
            APIS,
            nothing_yet,
        ),
        Scenario::new(
            "commit-many-partitions",
            "One commit of 300 partitions lands whole",
            APIS,
            many_partitions,
        )
        .within(40),
        Scenario::new(
            "commit-past-2-31",
            "Offsets beyond 2^31 are kept to the digit",
            APIS,
            past_2_31,
        ),
    ]
}

async fn sync_with_metadata(env: Env) -> Verdict {
    let (mut client, topic) = env.topic(2).await?;
    let group = env.cx.unique("group");
    client.consumer(&[Setting::GroupId(group.clone())]).await?;
    let place = Place {
        metadata: "where I was: Zürich".into(),
        ..Place::new(&topic, 1, 42)
    };
    client.commit(Some(vec![place.clone()])).await?;
    let mut other = env.client().await?;
    other.consumer(&[Setting::GroupId(group.clone())]).await?;
    let found = other
        .committed(vec![Place::new(&topic, 0, 0), Place::new(&topic, 1, 0)])
        .await?;
    expect_eq("never committed", &NONE, &found[0].offset)?;
    expect_eq("committed", &place, &found[1])
}

async fn asynchronous(env: Env) -> Verdict {
    let (mut client, topic) = env.topic(1).await?;
    let group = env.cx.unique("group");
    client.consumer(&[Setting::GroupId(group.clone())]).await?;
    client
        .commit_async(Some(vec![Place::new(&topic, 0, 7)]))
        .await?;
    // Not every client tells when the answer came, so the group is asked.
    let deadline = Instant::now() + Duration::from_secs(8);
    loop {
        client.pump(50, 1).await?;
        let found = client.committed(vec![Place::new(&topic, 0, 0)]).await?;
        if found[0].offset == 7 {
            break;
        }
        ensure(Instant::now() < deadline, || {
            format!("the commit did not land: {found:?}")
        })?;
    }
    for event in &client.events {
        if let Event::Committed { error } = event {
            expect_eq("the commit's error", &None, error)?;
        }
    }
    Ok(())
}

async fn automatic(env: Env) -> Verdict {
    let (mut producer, topic) = env.topic(1).await?;
    producer.producer(&[]).await?;
    producer.produce_numbers(&topic, Some(0), 0, 30).await?;
    let group = env.cx.unique("group");
    let mut member = env.client().await?;
    member
        .member(
            &group,
            &[&topic],
            &[
                Setting::AutoCommit(true),
                Setting::AutoCommitIntervalMs(200),
            ],
        )
        .await?;
    member.read_exactly(30).await?;
    member.pump(600, 1).await?;
    let mut other = env.client().await?;
    other.consumer(&[Setting::GroupId(group.clone())]).await?;
    let found = other.committed(vec![Place::new(&topic, 0, 0)]).await?;
    expect_eq("committed while running", &30, &found[0].offset)?;
    producer.produce_numbers(&topic, Some(0), 30, 5).await?;
    member.read_exactly(5).await?;
    member.close_consumer().await?;
    let found = other.committed(vec![Place::new(&topic, 0, 0)]).await?;
    expect_eq("committed at the close", &35, &found[0].offset)
}

async fn backwards(env: Env) -> Verdict {
    let (mut client, topic) = env.topic(1).await?;
    let group = env.cx.unique("group");
    client.consumer(&[Setting::GroupId(group.clone())]).await?;
    for offset in [10, 100, 3] {
        client
            .commit(Some(vec![Place::new(&topic, 0, offset)]))
            .await?;
        let found = client.committed(vec![Place::new(&topic, 0, 0)]).await?;
        expect_eq("committed", &offset, &found[0].offset)?;
    }
    Ok(())
}

async fn nothing_yet(env: Env) -> Verdict {
    let (mut client, topic) = env.topic(3).await?;
    let group = env.cx.unique("group");
    client.consumer(&[Setting::GroupId(group.clone())]).await?;
    let asked = (0..3).map(|p| Place::new(&topic, p, 0)).collect();
    for place in client.committed(asked).await? {
        expect_eq("offset", &NONE, &place.offset)?;
    }
    Ok(())
}

async fn many_partitions(env: Env) -> Verdict {
    let (mut client, topic) = env.topic(300).await?;
    let group = env.cx.unique("group");
    client.consumer(&[Setting::GroupId(group.clone())]).await?;
    let places: Vec<Place> = (0..300)
        .map(|p| Place::new(&topic, p, i64::from(p) * 3))
        .collect();
    client.commit(Some(places.clone())).await?;
    let found = client.committed(places.clone()).await?;
    expect_eq("committed", &places, &found)
}

async fn past_2_31(env: Env) -> Verdict {
    let (mut client, topic) = env.topic(1).await?;
    let group = env.cx.unique("group");
    client.consumer(&[Setting::GroupId(group.clone())]).await?;
    for offset in [i64::from(i32::MAX) + 1, (1 << 53) + 1, i64::MAX - 1] {
        client
            .commit(Some(vec![Place::new(&topic, 0, offset)]))
            .await?;
        let found = client.committed(vec![Place::new(&topic, 0, 0)]).await?;
        expect_eq("committed", &offset, &found[0].offset)?;
    }
    Ok(())
}
