//! Servers that die, stop and stall while clients work.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use kafka_wire::ApiKey;
use tokio::time::Instant;

use super::client::{Client, from_start, number};
use super::{Env, Scenario};
use crate::drivers::protocol::{Incoming, Place, Setting};
use crate::probes::{Probe, Topic};
use crate::spec::{Stop, Verdict, ensure, expect_eq};
use crate::wire::advertised;

pub(super) fn scenarios() -> Vec<Scenario> {
    vec![
        Scenario::new(
            "fault-killed-under-load",
            "Killed and restarted under an idempotent producer: what was acknowledged is there once",
            &[
                ApiKey::INIT_PRODUCER_ID,
                ApiKey::PRODUCE,
                ApiKey::FETCH,
                ApiKey::METADATA,
            ],
            killed_under_load,
        )
        .on_its_own_node()
        .within(90),
        Scenario::new(
            "fault-durable-restart",
            "Records, commits and settings outlive a kill",
            &[
                ApiKey::PRODUCE,
                ApiKey::FETCH,
                ApiKey::OFFSET_COMMIT,
                ApiKey::OFFSET_FETCH,
                ApiKey::DESCRIBE_CONFIGS,
            ],
            durable_restart,
        )
        .on_its_own_node()
        .within(60),
        Scenario::new(
            "fault-group-over-restart",
            "A group goes on after its server was stopped and started again",
            &[
                ApiKey::JOIN_GROUP,
                ApiKey::HEARTBEAT,
                ApiKey::OFFSET_FETCH,
                ApiKey::FETCH,
            ],
            group_over_restart,
        )
        .on_its_own_node()
        .within(90),
        Scenario::new(
            "fault-stalled-server",
            "A server that stands still for two seconds loses and repeats nothing",
            &[ApiKey::PRODUCE, ApiKey::FETCH],
            stalled_server,
        )
        .on_its_own_node()
        .within(60),
    ]
}

/// Reads `topic` from its start until `sent` different numbers came and then nothing for a while, and
/// says how often each number is there.
async fn count(
    reader: &mut Client,
    topic: &str,
    partitions: i32,
    sent: u64,
) -> Result<BTreeMap<u64, usize>, Stop> {
    reader.reader(from_start(topic, partitions)).await?;
    let mut times = BTreeMap::new();
    let deadline = Instant::now() + Duration::from_secs(20);
    loop {
        reader.pump(1_500, 50_000).await?;
        let records = reader.take_records();
        // A client that has just been started is silent, too.
        let complete = times.len() as u64 >= sent || Instant::now() > deadline;
        if records.is_empty() && complete {
            return Ok(times);
        }
        for record in &records {
            *times.entry(number(record)?).or_default() += 1;
        }
    }
}

/// Demands that each of `0..sent` is there exactly once.
fn each_once(times: &BTreeMap<u64, usize>, sent: u64) -> Verdict {
    for n in 0..sent {
        expect_eq(
            &format!("how often {n} is stored"),
            &1,
            &times.get(&n).copied().unwrap_or_default(),
        )?;
    }
    expect_eq("distinct numbers", &sent, &(times.len() as u64))
}

const PATIENT: &[Setting] = &[
    Setting::Idempotence(true),
    Setting::LingerMs(1),
    Setting::RetryBackoffMs(50),
    Setting::ReconnectBackoffMs(50),
    Setting::ReconnectBackoffMaxMs(200),
];

async fn killed_under_load(env: Env) -> Verdict {
    const PER_ROUND: u64 = 8_000;
    const VALUE_BYTES: usize = 500;
    const ROUNDS: u64 = 5;
    /// A kill that comes when all was delivered proves nothing; some may.
    const MUST_MEET: u64 = 3;
    let node = env.cx.own_node(&[]).await?;
    let windows = advertised(node.bootstrap()).await.map_err(Stop::fail)?;
    // Each round looks over a connection of its own: the last one died with the node.
    let look = || {
        let windows = windows.clone().into();
        Probe::at(
            env.cx.clone(),
            node.bootstrap(),
            ApiKey::LIST_OFFSETS,
            1,
            windows,
        )
    };
    let topic = Topic {
        name: "load".into(),
        id: String::new(),
    };
    let mut client = env.client_of(&node).await?;
    client.create_topic(&topic.name, 2, &[]).await?;
    client.producer(PATIENT).await?;
    let mut met = 0;
    for round in 0..ROUNDS {
        let partition = i32::try_from(round % 2).unwrap_or_default();
        let probe = look();
        let stored = probe.end_offset(&topic, partition).await?;
        let first = round * PER_ROUND;
        let delivered = AtomicBool::new(false);
        let sending = async {
            let sent = client
                .deliver_numbers(&topic.name, Some(partition), first, PER_ROUND, VALUE_BYTES)
                .await;
            delivered.store(true, Ordering::Relaxed);
            sent
        };
        let killing = async {
            // Some of the round are stored, and the client still waits for others.
            while !delivered.load(Ordering::Relaxed)
                && probe.end_offset(&topic, partition).await? == stored
            {
                tokio::task::yield_now().await;
            }
            node.kill().await?;
            let in_flight = !delivered.load(Ordering::Relaxed);
            node.start().await.map(|()| in_flight)
        };
        let (sent, killed) = tokio::join!(sending, killing);
        met += u64::from(killed?);
        sent?;
    }
    env.cx.record.fact("kills that met records in flight", met);
    ensure(met >= MUST_MEET, || {
        format!("{met} of {ROUNDS} kills met records in flight, fewer than {MUST_MEET}")
    })?;
    let mut reader = env.eyes(node.bootstrap()).await?;
    let times = count(&mut reader, &topic.name, 2, PER_ROUND * ROUNDS).await?;
    each_once(&times, PER_ROUND * ROUNDS)
}

async fn durable_restart(env: Env) -> Verdict {
    let node = env.cx.own_node(&[]).await?;
    {
        let mut client = env.client_of(&node).await?;
        client
            .create_topic("kept", 1, &[("retention.ms", "7200000")])
            .await?;
        client.producer(&[]).await?;
        client.produce_numbers("kept", Some(0), 0, 1_000).await?;
        client
            .consumer(&[Setting::GroupId("kept-group".into())])
            .await?;
        client
            .commit(Some(vec![Place::new("kept", 0, 321)]))
            .await?;
    }
    node.kill().await?;
    node.start().await?;
    let mut client = env.client_of(&node).await?;
    let times = count(&mut client, "kept", 1, 1_000).await?;
    each_once(&times, 1_000)?;
    let mut group = env.client_of(&node).await?;
    group
        .consumer(&[Setting::GroupId("kept-group".into())])
        .await?;
    let found = group.committed(vec![Place::new("kept", 0, 0)]).await?;
    expect_eq("committed", &321, &found[0].offset)?;
    let config = group.topic_config("kept").await?;
    expect_eq(
        "retention.ms",
        &Some(&Some("7200000".to_owned())),
        &config.entries.get("retention.ms"),
    )
}

async fn group_over_restart(env: Env) -> Verdict {
    let node = env.cx.own_node(&[]).await?;
    let mut producer = env.client_of(&node).await?;
    producer.create_topic("work", 2, &[]).await?;
    producer.producer(PATIENT).await?;
    let mut member = env.client_of(&node).await?;
    member
        .member(
            "workers",
            &["work"],
            &[
                Setting::ReconnectBackoffMs(50),
                Setting::ReconnectBackoffMaxMs(200),
            ],
        )
        .await?;
    producer.produce_numbers("work", None, 0, 500).await?;
    let before = member.read_exactly(500).await?;
    member.commit(None).await?;
    let status = node.terminate().await?;
    ensure(status.is_some_and(|status| status.success()), || {
        format!("a stop ended with {status:?}")
    })?;
    node.start().await?;
    producer.produce_numbers("work", None, 500, 500).await?;
    goes_on_after(&mut member, &before, 500).await
}

/// Demands that a member of a group reads `count` more records, and none of `committed`. Who reads on
/// before it hears that its membership is gone reads that again, as a new member.
pub(super) async fn goes_on_after(
    member: &mut Client,
    committed: &[Incoming],
    count: usize,
) -> Verdict {
    let committed: BTreeSet<_> = committed.iter().map(place).collect();
    let mut after = BTreeSet::new();
    let deadline = Instant::now() + Duration::from_secs(15);
    while after.len() < count && Instant::now() < deadline {
        member.pump(500, count).await?;
        for record in member.take_records() {
            ensure(!committed.contains(&place(&record)), || {
                format!("{record:?} was committed and came again")
            })?;
            after.insert(place(&record));
        }
    }
    expect_eq("records that follow", &count, &after.len())
}

const fn place(record: &Incoming) -> (i32, i64) {
    (record.partition, record.offset)
}

async fn stalled_server(env: Env) -> Verdict {
    let node = env.cx.own_node(&[]).await?;
    let mut client = env.client_of(&node).await?;
    client.create_topic("stalled", 1, &[]).await?;
    client.producer(PATIENT).await?;
    client.produce_numbers("stalled", Some(0), 0, 100).await?;
    let stall = async {
        tokio::time::sleep(Duration::from_millis(20)).await;
        node.pause().await?;
        tokio::time::sleep(Duration::from_secs(2)).await;
        node.resume().await
    };
    let sending = client.produce_numbers("stalled", Some(0), 100, 5_000);
    let (sent, stalled) = tokio::join!(sending, stall);
    stalled?;
    sent?;
    let mut reader = env.eyes(node.bootstrap()).await?;
    let times = count(&mut reader, "stalled", 1, 5_100).await?;
    each_once(&times, 5_100)
}
