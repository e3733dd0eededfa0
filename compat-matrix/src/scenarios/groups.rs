//! Consumer groups of the classic protocol: sharing, leaving, assignors, static members. Behaviours that
//! the consumer protocol has too take the protocol.

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use kafka_wire::ApiKey;
use tokio::time::Instant;

use super::client::{Client, all_done};
use super::{Env, Scenario};
use crate::drivers::protocol::GroupProtocol::{self, Classic, Consumer};
use crate::drivers::protocol::{Assignor, Event, OffsetReset, Op, Place, Setting};
use crate::spec::{Stop, Verdict, ensure, expect_eq};

const APIS: &[ApiKey] = &[
    ApiKey::FIND_COORDINATOR,
    ApiKey::JOIN_GROUP,
    ApiKey::SYNC_GROUP,
    ApiKey::HEARTBEAT,
    ApiKey::LEAVE_GROUP,
];

pub(super) fn scenarios() -> Vec<Scenario> {
    let mut scenarios: Vec<Scenario> = vec![
        Scenario::new(
            "group-of-one",
            "One member gets everything, and its successor resumes where it committed",
            APIS,
            |env| of_one(env, Classic),
        ),
        Scenario::new(
            "group-of-five",
            "Members join and leave one by one; each partition always has one owner",
            APIS,
            |env| of_five(env, Classic),
        )
        .within(60),
        Scenario::new(
            "group-member-vanishes",
            "Partitions of a member that leaves are read by the others from its commits",
            APIS,
            member_leaves_midway,
        )
        .within(40),
        Scenario::new(
            "group-regex",
            "A pattern picks up a topic that is created later",
            APIS,
            regex,
        )
        .within(40),
        Scenario::new(
            "group-two-topics",
            "Members with different subscriptions get only what they asked for",
            APIS,
            |env| two_topics(env, Classic),
        )
        .within(40),
        Scenario::new(
            "group-more-partitions",
            "Partitions that are added are given to the running group",
            APIS,
            |env| more_partitions(env, Classic),
        )
        .within(40),
        Scenario::new(
            "group-unsubscribe",
            "A member that unsubscribes gives everything up and may come back",
            APIS,
            unsubscribe,
        )
        .within(40),
        Scenario::new(
            "group-cooperative",
            "With the cooperative assignor a newcomer takes its share and the rest is not revoked",
            APIS,
            cooperative,
        )
        .kips(&[429])
        .within(40),
        Scenario::new(
            "group-static-member-returns",
            "A static member that comes back in time gets its partitions without a rebalance",
            APIS,
            |env| static_member_returns(env, Classic),
        )
        .kips(&[345])
        .within(40),
        Scenario::new(
            "group-static-member-fenced",
            "The older of two members with one instance id is fenced",
            APIS,
            static_member_fenced,
        )
        .kips(&[345])
        .within(40),
        Scenario::new(
            "group-two-groups",
            "Two groups read one topic without meeting",
            APIS,
            two_groups,
        ),
    ];
    scenarios.extend(
        [
            ("group-assignor-range", Assignor::Range),
            ("group-assignor-roundrobin", Assignor::RoundRobin),
        ]
        .map(|(name, assignor)| {
            Scenario::new(
                name,
                "Three members share nine partitions evenly by an eager assignor",
                APIS,
                move |env| eager(env, assignor),
            )
            .within(40)
        }),
    );
    scenarios
}

/// Makes a client a member, by either protocol. Of the consumer protocol it knows no session and no
/// heartbeat of its own.
pub(super) async fn join(
    client: &mut Client,
    protocol: GroupProtocol,
    group: &str,
    topics: &[&str],
    settings: &[Setting],
) -> Verdict {
    if protocol == Classic {
        return client.member(group, topics, settings).await;
    }
    let mut all = vec![
        Setting::GroupId(group.to_owned()),
        Setting::GroupProtocol(Consumer),
        Setting::AutoCommit(false),
        Setting::OffsetReset(OffsetReset::Earliest),
    ];
    all.extend_from_slice(settings);
    client.consumer(&all).await?;
    client.subscribe(topics).await
}

/// Serves all members until each holds `partitions`: a group of the consumer protocol may be covered
/// before it is balanced.
pub(super) async fn share_evenly(members: &mut [Client], partitions: usize) -> Verdict {
    let deadline = Instant::now() + Duration::from_secs(20);
    loop {
        let mut held = Vec::new();
        for client in members.iter_mut() {
            client.pump(60, 1).await?;
            held.push(client.assignment().await?.len());
        }
        if held.iter().all(|held| *held == partitions) {
            return Ok(());
        }
        ensure(Instant::now() < deadline, || {
            format!("members hold {held:?} partitions, not {partitions} each")
        })?;
    }
}

/// Serves all members until together they hold exactly the partitions of `topics`, each once, and
/// each member holds something.
pub(super) async fn settle(members: &mut [Client], topics: &[(&str, i32)]) -> Result<(), Stop> {
    let all: BTreeSet<(String, i32)> = topics
        .iter()
        .flat_map(|(topic, count)| (0..*count).map(|partition| ((*topic).to_owned(), partition)))
        .collect();
    let deadline = Instant::now() + Duration::from_secs(20);
    loop {
        let mut held: Vec<Vec<(String, i32)>> = Vec::new();
        for member in members.iter_mut() {
            member.pump(60, 1).await?;
            held.push(member.assignment().await?);
        }
        let flat: Vec<&(String, i32)> = held.iter().flatten().collect();
        let distinct: BTreeSet<(String, i32)> = flat.iter().map(|one| (*one).clone()).collect();
        if flat.len() == all.len() && distinct == all && held.iter().all(|held| !held.is_empty()) {
            return Ok(());
        }
        ensure(Instant::now() < deadline, || {
            format!("the group did not settle; its members hold {held:?}")
        })?;
    }
}

pub(super) async fn of_one(env: Env, protocol: GroupProtocol) -> Verdict {
    let (mut producer, topic) = env.topic(4).await?;
    producer.producer(&[]).await?;
    producer.produce_numbers(&topic, None, 0, 400).await?;
    let group = env.cx.unique("group");
    let mut first = env.client().await?;
    join(&mut first, protocol, &group, &[&topic], &[]).await?;
    let mut records = Vec::new();
    let deadline = Instant::now() + Duration::from_secs(15);
    while records.len() < 250 && Instant::now() < deadline {
        first.pump(500, 250 - records.len()).await?;
        records.extend(first.take_records());
    }
    expect_eq("records of the first member", &250, &records.len())?;
    let mut next: BTreeMap<i32, i64> = BTreeMap::new();
    for record in &records {
        next.insert(record.partition, record.offset + 1);
    }
    let commits = next
        .iter()
        .map(|(partition, offset)| Place::new(&topic, *partition, *offset))
        .collect();
    first.commit(Some(commits)).await?;
    first.close_consumer().await?;
    let mut second = env.client().await?;
    join(&mut second, protocol, &group, &[&topic], &[]).await?;
    for record in second.read_exactly(150).await? {
        let from = next.get(&record.partition).copied().unwrap_or(0);
        ensure(record.offset >= from, || {
            format!("{record:?} was committed before ({from})")
        })?;
    }
    Ok(())
}

pub(super) async fn of_five(env: Env, protocol: GroupProtocol) -> Verdict {
    let (_creator, topic) = env.topic(10).await?;
    let group = env.cx.unique("group");
    let mut members = Vec::new();
    for _ in 0..5 {
        let mut member = env.client().await?;
        join(&mut member, protocol, &group, &[&topic], &[]).await?;
        members.push(member);
        settle(&mut members, &[(&topic, 10)]).await?;
    }
    if protocol == Consumer {
        share_evenly(&mut members, 2).await?;
    }
    while members.len() > 1 {
        let mut leaving = members.remove(0);
        leaving.close_consumer().await?;
        settle(&mut members, &[(&topic, 10)]).await?;
    }
    Ok(())
}

async fn member_leaves_midway(env: Env) -> Verdict {
    let (mut producer, topic) = env.topic(4).await?;
    producer.producer(&[]).await?;
    let group = env.cx.unique("group");
    let mut members = Vec::new();
    for _ in 0..2 {
        let mut member = env.client().await?;
        member.member(&group, &[&topic], &[]).await?;
        members.push(member);
    }
    settle(&mut members, &[(&topic, 4)]).await?;
    producer.produce_numbers(&topic, None, 0, 200).await?;
    let mut seen = BTreeSet::new();
    let deadline = Instant::now() + Duration::from_secs(15);
    while seen.len() < 200 && Instant::now() < deadline {
        for member in &mut members {
            member.pump(100, 200).await?;
            for record in member.take_records() {
                seen.insert((record.partition, record.offset));
            }
        }
    }
    expect_eq("records before", &200, &seen.len())?;
    for member in &mut members {
        member.commit(None).await?;
    }
    let mut leaving = members.remove(0);
    leaving.close_consumer().await?;
    producer.produce_numbers(&topic, None, 200, 200).await?;
    let mut after = BTreeSet::new();
    let deadline = Instant::now() + Duration::from_secs(15);
    while after.len() < 200 && Instant::now() < deadline {
        members[0].pump(200, 400).await?;
        for record in members[0].take_records() {
            let place = (record.partition, record.offset);
            ensure(!seen.contains(&place), || {
                format!("{place:?} was committed and came again")
            })?;
            after.insert(place);
        }
    }
    expect_eq("records after", &200, &after.len())
}

async fn regex(env: Env) -> Verdict {
    let stem = env.cx.unique("pattern");
    let (one, two) = (format!("{stem}-one"), format!("{stem}-two"));
    let mut admin = env.client().await?;
    admin.create_topic(&one, 2, &[]).await?;
    let group = env.cx.unique("group");
    let mut member = env.client().await?;
    member
        .member(
            &group,
            &[&format!("^{stem}-.*")],
            &[Setting::MetadataRefreshMs(400)],
        )
        .await?;
    let mut members = [member];
    settle(&mut members, &[(&one, 2)]).await?;
    admin.create_topic(&two, 3, &[]).await?;
    settle(&mut members, &[(&one, 2), (&two, 3)]).await
}

pub(super) async fn two_topics(env: Env, protocol: GroupProtocol) -> Verdict {
    let (mut admin, one) = env.topic(2).await?;
    let two = env.cx.unique("topic");
    admin.create_topic(&two, 2, &[]).await?;
    let group = env.cx.unique("group");
    let mut first = env.client().await?;
    join(&mut first, protocol, &group, &[&one], &[]).await?;
    let mut second = env.client().await?;
    join(&mut second, protocol, &group, &[&two], &[]).await?;
    let mut members = [first, second];
    settle(&mut members, &[(&one, 2), (&two, 2)]).await?;
    for (member, topic) in members.iter_mut().zip([&one, &two]) {
        let held = member.assignment().await?;
        ensure(held.iter().all(|(held, _)| held == topic), || {
            format!("a member that subscribed to {topic} holds {held:?}")
        })?;
    }
    Ok(())
}

pub(super) async fn more_partitions(env: Env, protocol: GroupProtocol) -> Verdict {
    let (mut admin, topic) = env.topic(2).await?;
    let group = env.cx.unique("group");
    let mut member = env.client().await?;
    // A classic member looks for them itself.
    let looks = [Setting::MetadataRefreshMs(400)];
    let settings: &[Setting] = if protocol == Classic { &looks } else { &[] };
    join(&mut member, protocol, &group, &[&topic], settings).await?;
    let mut members = [member];
    settle(&mut members, &[(&topic, 2)]).await?;
    let op = Op::CreatePartitions {
        topic: topic.clone(),
        count: 5,
    };
    all_done(&admin.outcomes(&op).await?)?;
    settle(&mut members, &[(&topic, 5)]).await
}

async fn unsubscribe(env: Env) -> Verdict {
    let (_creator, topic) = env.topic(4).await?;
    let group = env.cx.unique("group");
    let mut members = Vec::new();
    for _ in 0..2 {
        let mut member = env.client().await?;
        member.member(&group, &[&topic], &[]).await?;
        members.push(member);
    }
    settle(&mut members, &[(&topic, 4)]).await?;
    members[0].unsubscribe().await?;
    let (away, rest) = members.split_at_mut(1);
    settle(rest, &[(&topic, 4)]).await?;
    away[0].pump(100, 1).await?;
    expect_eq(
        "held after unsubscribing",
        &Vec::new(),
        &away[0].assignment().await?,
    )?;
    away[0].subscribe(&[&topic]).await?;
    settle(&mut members, &[(&topic, 4)]).await
}

async fn eager(env: Env, assignor: Assignor) -> Verdict {
    let (_creator, topic) = env.topic(9).await?;
    let group = env.cx.unique("group");
    let mut members = Vec::new();
    for _ in 0..3 {
        let mut member = env.client().await?;
        member
            .member(&group, &[&topic], &[Setting::Assignors(vec![assignor])])
            .await?;
        members.push(member);
    }
    settle(&mut members, &[(&topic, 9)]).await?;
    for member in &mut members {
        expect_eq(
            "partitions of a member",
            &3,
            &member.assignment().await?.len(),
        )?;
    }
    let described = members[0].groups(Some(&group)).await?;
    expect_eq(
        "assignor in force",
        &assignor.word(),
        &described.groups[0].protocol.as_str(),
    )
}

async fn cooperative(env: Env) -> Verdict {
    let (_creator, topic) = env.topic(6).await?;
    let group = env.cx.unique("group");
    let strategy = [Setting::Assignors(vec![Assignor::CooperativeSticky])];
    let mut first = env.client().await?;
    first.member(&group, &[&topic], &strategy).await?;
    let mut members = vec![first];
    settle(&mut members, &[(&topic, 6)]).await?;
    let before: BTreeSet<_> = members[0].assignment().await?.into_iter().collect();
    members[0].events.clear();
    let mut second = env.client().await?;
    second.member(&group, &[&topic], &strategy).await?;
    members.push(second);
    settle(&mut members, &[(&topic, 6)]).await?;
    let kept: BTreeSet<_> = members[0].assignment().await?.into_iter().collect();
    expect_eq("partitions the first member keeps", &3, &kept.len())?;
    ensure(kept.is_subset(&before), || {
        format!("kept {kept:?} of {before:?}")
    })?;
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

pub(super) async fn static_member_returns(env: Env, protocol: GroupProtocol) -> Verdict {
    let (_creator, topic) = env.topic(4).await?;
    let group = env.cx.unique("group");
    let mut members = Vec::new();
    for instance in ["one", "two"] {
        let mut member = env.client().await?;
        let instance = [Setting::GroupInstanceId(instance.into())];
        join(&mut member, protocol, &group, &[&topic], &instance).await?;
        members.push(member);
    }
    settle(&mut members, &[(&topic, 4)]).await?;
    let before = members[1].assignment().await?;
    members[0].events.clear();
    // A classic static member does not leave when it is closed, and one of the consumer protocol leaves
    // for a while: its place stays its own.
    let mut gone = members.remove(1);
    gone.close_consumer().await?;
    let mut back = env.client().await?;
    let instance = [Setting::GroupInstanceId("two".into())];
    join(&mut back, protocol, &group, &[&topic], &instance).await?;
    members.push(back);
    settle(&mut members, &[(&topic, 4)]).await?;
    expect_eq(
        "partitions after the return",
        &before,
        &members[1].assignment().await?,
    )?;
    ensure(
        !members[0]
            .events
            .iter()
            .any(|event| matches!(event, Event::Assigned { .. } | Event::Revoked { .. })),
        || format!("the other member was rebalanced: {:?}", members[0].events),
    )
}

async fn static_member_fenced(env: Env) -> Verdict {
    let (_creator, topic) = env.topic(2).await?;
    let group = env.cx.unique("group");
    let instance = [Setting::GroupInstanceId("the-one".into())];
    let mut older = env.client().await?;
    older.member(&group, &[&topic], &instance).await?;
    let mut members = [older];
    settle(&mut members, &[(&topic, 2)]).await?;
    let [mut older] = members;
    older.events.clear();
    let mut newer = env.client().await?;
    newer.member(&group, &[&topic], &instance).await?;
    let mut members = [newer];
    let deadline = Instant::now() + Duration::from_secs(15);
    loop {
        members[0].pump(60, 1).await?;
        older.pump(60, 1).await?;
        let fenced = older.events.iter().any(|event| {
            matches!(event, Event::Error { message } if message.to_lowercase().contains("fenced"))
        });
        if fenced {
            break;
        }
        ensure(Instant::now() < deadline, || {
            format!("the older member was not fenced: {:?}", older.events)
        })?;
    }
    settle(&mut members, &[(&topic, 2)]).await
}

async fn two_groups(env: Env) -> Verdict {
    let (mut producer, topic) = env.topic(2).await?;
    producer.producer(&[]).await?;
    producer.produce_numbers(&topic, None, 0, 100).await?;
    for _ in 0..2 {
        let group = env.cx.unique("group");
        let mut member = env.client().await?;
        member.member(&group, &[&topic], &[]).await?;
        member.read_exactly(100).await?;
        member.commit(None).await?;
        member.close_consumer().await?;
    }
    Ok(())
}
