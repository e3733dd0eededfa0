//! Consumer groups of the consumer protocol (KIP-848), alone and among members of the classic one.

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use kafka_wire::ApiKey;
use tokio::time::Instant;

use super::client::{Client, number};
use super::faults::goes_on_after;
use super::groups::{self, join, settle, share_evenly};
use super::{Env, Scenario};
use crate::drivers::protocol::GroupProtocol::Consumer;
use crate::drivers::protocol::{Event, Setting};
use crate::spec::{Stop, Verdict, ensure, expect_eq};

const APIS: &[ApiKey] = &[
    ApiKey::FIND_COORDINATOR,
    ApiKey::CONSUMER_GROUP_HEARTBEAT,
    ApiKey::OFFSET_COMMIT,
    ApiKey::OFFSET_FETCH,
];

/// Both protocols in one group.
const BOTH: &[ApiKey] = &[
    ApiKey::CONSUMER_GROUP_HEARTBEAT,
    ApiKey::JOIN_GROUP,
    ApiKey::SYNC_GROUP,
    ApiKey::HEARTBEAT,
];

pub(super) fn scenarios() -> Vec<Scenario> {
    [
        Scenario::new(
            "consumer-group-of-one",
            "One member of the consumer protocol gets everything, and its successor resumes where it committed",
            APIS,
            |env| groups::of_one(env, Consumer),
        ),
        Scenario::new(
            "consumer-group-of-five",
            "Members of the consumer protocol join and leave one by one; each partition always has one owner",
            APIS,
            |env| groups::of_five(env, Consumer),
        )
        .within(90),
        Scenario::new(
            "consumer-group-regex",
            "A pattern that the coordinator resolves picks up a topic that is created later",
            APIS,
            regex,
        )
        .within(60),
        Scenario::new(
            "consumer-group-two-topics",
            "Members of the consumer protocol with different subscriptions get only what they asked for",
            APIS,
            |env| groups::two_topics(env, Consumer),
        )
        .within(40),
        Scenario::new(
            "consumer-group-more-partitions",
            "Partitions that are added are given to the running group of the consumer protocol",
            APIS,
            |env| groups::more_partitions(env, Consumer),
        )
        .within(40),
        Scenario::new(
            "consumer-group-keeps",
            "A newcomer of the consumer protocol takes its share and the rest is not revoked",
            APIS,
            keeps,
        )
        .within(40),
        Scenario::new(
            "consumer-group-static-member-returns",
            "A static member of the consumer protocol that comes back gets its partitions without a rebalance",
            APIS,
            |env| groups::static_member_returns(env, Consumer),
        )
        .kips(&[345])
        .within(60),
        Scenario::new(
            "consumer-group-upgrade",
            "A running group goes over to the consumer protocol member by member, and loses and repeats nothing",
            BOTH,
            upgrade,
        )
        .within(120),
        Scenario::new(
            "consumer-group-downgrade",
            "A running group goes back to the classic protocol with its last member of the new one",
            BOTH,
            downgrade,
        )
        .within(90),
        Scenario::new(
            "consumer-group-over-restart",
            "A group of the consumer protocol goes on after its server was stopped and started again",
            APIS,
            over_restart,
        )
        .on_its_own_node()
        .within(90),
    ]
    .into_iter()
    .map(|scenario| {
        let kips = scenario.kips;
        scenario.kips(if kips.is_empty() { &[848] } else { &[345, 848] })
    })
    .collect()
}

async fn regex(env: Env) -> Verdict {
    let stem = env.cx.unique("pattern");
    let (one, two) = (format!("{stem}-one"), format!("{stem}-two"));
    let mut admin = env.client().await?;
    admin.create_topic(&one, 2, &[]).await?;
    admin.create_topic(&format!("not-{stem}"), 1, &[]).await?;
    let group = env.cx.unique("group");
    let mut client = env.client().await?;
    // Some clients send a pattern of their own kind as names, and look for topics themselves.
    let settings = [Setting::MetadataRefreshMs(400)];
    let pattern = format!("^{stem}-.*");
    join(&mut client, Consumer, &group, &[&pattern], &settings).await?;
    let mut members = [client];
    settle(&mut members, &[(&one, 2)]).await?;
    admin.create_topic(&two, 3, &[]).await?;
    settle(&mut members, &[(&one, 2), (&two, 3)]).await
}

async fn keeps(env: Env) -> Verdict {
    let (_creator, topic) = env.topic(6).await?;
    let group = env.cx.unique("group");
    let mut first = env.client().await?;
    join(&mut first, Consumer, &group, &[&topic], &[]).await?;
    let mut members = vec![first];
    settle(&mut members, &[(&topic, 6)]).await?;
    members[0].events.clear();
    let mut second = env.client().await?;
    join(&mut second, Consumer, &group, &[&topic], &[]).await?;
    members.push(second);
    settle(&mut members, &[(&topic, 6)]).await?;
    share_evenly(&mut members, 3).await?;
    let kept: BTreeSet<_> = members[0].assignment().await?.into_iter().collect();
    expect_eq("partitions the first member keeps", &3, &kept.len())?;
    for event in &members[0].events {
        if let Event::Revoked { partitions } = event {
            for place in partitions {
                ensure(
                    !kept.contains(&(place.topic.clone(), place.partition)),
                    || format!("{place:?} was revoked although it was kept"),
                )?;
            }
        }
    }
    Ok(())
}

/// Reads with all members, committing as it goes, until each number below `count` came.
async fn read_all(
    members: &mut [Client],
    seen: &mut BTreeMap<u64, usize>,
    count: usize,
) -> Verdict {
    let deadline = Instant::now() + Duration::from_secs(20);
    while seen.len() < count {
        for client in members.iter_mut() {
            client.pump(60, 500).await?;
            let records = client.take_records();
            for record in &records {
                *seen.entry(number(record)?).or_default() += 1;
            }
            if !records.is_empty() {
                client.commit(None).await?;
            }
        }
        ensure(Instant::now() < deadline, || {
            format!("{} of {count} records came", seen.len())
        })?;
    }
    Ok(())
}

fn each_once(seen: &BTreeMap<u64, usize>) -> Verdict {
    match seen.iter().find(|(_, times)| **times != 1) {
        Some((number, times)) => Err(Stop::fail(format!("number {number} came {times} times"))),
        None => Ok(()),
    }
}

async fn upgrade(env: Env) -> Verdict {
    let (mut producer, topic) = env.topic(6).await?;
    producer.producer(&[]).await?;
    let group = env.cx.unique("group");
    let mut members = Vec::new();
    for _ in 0..2 {
        let mut classic = env.client().await?;
        classic.member(&group, &[&topic], &[]).await?;
        members.push(classic);
    }
    settle(&mut members, &[(&topic, 6)]).await?;
    let mut seen = BTreeMap::new();
    let mut sent = 0;
    // Each classic member is replaced by one of the new protocol while records flow.
    for _ in 0..2 {
        producer.produce_numbers(&topic, None, sent, 200).await?;
        sent += 200;
        read_all(&mut members, &mut seen, usize::try_from(sent).unwrap_or(0)).await?;
        let mut new = env.client().await?;
        join(&mut new, Consumer, &group, &[&topic], &[]).await?;
        members.push(new);
        settle(&mut members, &[(&topic, 6)]).await?;
        let mut old = members.remove(0);
        old.close_consumer().await?;
        settle(&mut members, &[(&topic, 6)]).await?;
    }
    producer.produce_numbers(&topic, None, sent, 200).await?;
    sent += 200;
    read_all(&mut members, &mut seen, usize::try_from(sent).unwrap_or(0)).await?;
    each_once(&seen)
}

async fn downgrade(env: Env) -> Verdict {
    let (mut producer, topic) = env.topic(4).await?;
    producer.producer(&[]).await?;
    let group = env.cx.unique("group");
    let mut new = env.client().await?;
    join(&mut new, Consumer, &group, &[&topic], &[]).await?;
    let mut members = vec![new];
    settle(&mut members, &[(&topic, 4)]).await?;
    let mut seen = BTreeMap::new();
    producer.produce_numbers(&topic, None, 0, 200).await?;
    read_all(&mut members, &mut seen, 200).await?;
    let mut classic = env.client().await?;
    classic.member(&group, &[&topic], &[]).await?;
    members.push(classic);
    settle(&mut members, &[(&topic, 4)]).await?;
    let mut last = members.remove(0);
    last.close_consumer().await?;
    settle(&mut members, &[(&topic, 4)]).await?;
    producer.produce_numbers(&topic, None, 200, 200).await?;
    read_all(&mut members, &mut seen, 400).await?;
    each_once(&seen)?;
    let described = members[0].groups(Some(&group)).await?;
    ensure(
        described.groups.iter().any(|one| !one.protocol.is_empty()),
        || format!("the group is not a classic one: {:?}", described.groups),
    )
}

async fn over_restart(env: Env) -> Verdict {
    let node = env.cx.own_node(&[]).await?;
    let mut producer = env.client_of(&node).await?;
    producer.create_topic("work", 2, &[]).await?;
    let patient = [
        Setting::ReconnectBackoffMs(50),
        Setting::ReconnectBackoffMaxMs(200),
    ];
    producer.producer(&patient).await?;
    let mut client = env.client_of(&node).await?;
    join(&mut client, Consumer, "workers", &["work"], &patient).await?;
    producer.produce_numbers("work", None, 0, 500).await?;
    let before = client.read_exactly(500).await?;
    client.commit(None).await?;
    let status = node.terminate().await?;
    ensure(status.is_some_and(|status| status.success()), || {
        format!("a stop ended with {status:?}")
    })?;
    node.start().await?;
    producer.produce_numbers("work", None, 500, 500).await?;
    goes_on_after(&mut client, &before, 500).await
}
