//! Administration: topics, partitions, settings, records, groups.

use std::collections::BTreeMap;
use std::time::Duration;

use kafka_wire::{ApiKey, ErrorCode};
use tokio::time::Instant;

use super::client::{Client, all_done, config, from_start};
use super::{Env, Scenario};
use crate::drivers::protocol::{NewTopic, Op, Place, Setting};
use crate::spec::{Stop, Verdict, ensure, expect_eq};

pub(super) fn scenarios() -> Vec<Scenario> {
    vec![
        Scenario::new(
            "admin-create-and-delete-topic",
            "A topic is there after its creation, with its width, and gone after its deletion",
            &[
                ApiKey::CREATE_TOPICS,
                ApiKey::DELETE_TOPICS,
                ApiKey::METADATA,
            ],
            create_and_delete,
        ),
        Scenario::new(
            "admin-create-topic-refusals",
            "Existing, illegal and impossible topics are refused, each with its code",
            &[ApiKey::CREATE_TOPICS],
            create_refusals,
        ),
        Scenario::new(
            "admin-validate-only",
            "A validation creates nothing",
            &[ApiKey::CREATE_TOPICS, ApiKey::METADATA],
            validate_only,
        ),
        Scenario::new(
            "admin-recreate-topic",
            "A topic that is deleted and created again starts at offset 0, without old commits",
            &[
                ApiKey::CREATE_TOPICS,
                ApiKey::DELETE_TOPICS,
                ApiKey::OFFSET_FETCH,
            ],
            recreate,
        )
        .kips(&[516])
        .within(40),
        Scenario::new(
            "admin-create-partitions",
            "Partitions can be added and not taken away",
            &[ApiKey::CREATE_PARTITIONS, ApiKey::METADATA],
            create_partitions,
        )
        .kips(&[195]),
        Scenario::new(
            "admin-topic-config",
            "A setting is kept, described and given back; an unknown one is refused",
            &[ApiKey::DESCRIBE_CONFIGS, ApiKey::ALTER_CONFIGS],
            topic_config,
        )
        .kips(&[133]),
        Scenario::new(
            "admin-delete-records",
            "Deleted records are gone for every reader, and the rest keeps its offsets",
            &[ApiKey::DELETE_RECORDS, ApiKey::LIST_OFFSETS, ApiKey::FETCH],
            delete_records,
        )
        .kips(&[107]),
        Scenario::new(
            "admin-list-and-describe-groups",
            "A group is listed and described with its state, assignor and members",
            &[ApiKey::LIST_GROUPS, ApiKey::DESCRIBE_GROUPS],
            list_and_describe_groups,
        ),
        Scenario::new(
            "admin-delete-groups",
            "A group can be deleted once it is empty, and its offsets go with it",
            &[ApiKey::DELETE_GROUPS, ApiKey::OFFSET_FETCH],
            delete_groups,
        )
        .kips(&[229])
        .within(40),
        Scenario::new(
            "admin-unknown-topic",
            "A topic that does not exist is not created by who wants to read it",
            &[ApiKey::METADATA],
            unknown_topic,
        ),
    ]
}

fn new_topic(name: &str, partitions: i32) -> NewTopic {
    NewTopic {
        name: name.to_owned(),
        partitions,
        config: BTreeMap::new(),
    }
}

async fn delete_topic(client: &mut Client, topic: &str) -> Verdict {
    let op = Op::DeleteTopics {
        topics: vec![topic.to_owned()],
    };
    all_done(&client.outcomes(&op).await?)
}

/// Waits until a listing no longer shows the topic; a real cluster deletes in the background.
async fn await_absence(client: &mut Client, topic: &str) -> Verdict {
    let deadline = Instant::now() + Duration::from_secs(10);
    while client.metadata(None).await?.topics.contains_key(topic) {
        ensure(Instant::now() < deadline, || {
            format!("{topic} is still listed")
        })?;
        tokio::time::sleep(Duration::from_millis(50)).await;
    }
    Ok(())
}

async fn create_and_delete(env: Env) -> Verdict {
    let (mut client, topic) = env.topic(7).await?;
    expect_eq(
        "width in the listing",
        &Some(&7),
        &client.metadata(None).await?.topics.get(&topic),
    )?;
    delete_topic(&mut client, &topic).await?;
    await_absence(&mut client, &topic).await?;
    let again = client
        .outcomes(&Op::DeleteTopics {
            topics: vec![topic.clone()],
        })
        .await?;
    expect_eq(
        "outcome of a second deletion",
        &Some("UNKNOWN_TOPIC_OR_PARTITION".to_owned()),
        &again[&topic],
    )
}

async fn create_refusals(env: Env) -> Verdict {
    let (mut client, existing) = env.topic(1).await?;
    for (name, partitions, code) in [
        (existing.as_str(), 1, "TOPIC_ALREADY_EXISTS"),
        ("no spaces please", 1, "INVALID_TOPIC_EXCEPTION"),
        (&"x".repeat(250), 1, "INVALID_TOPIC_EXCEPTION"),
    ] {
        let op = Op::CreateTopics {
            topics: vec![new_topic(name, partitions)],
            validate_only: false,
        };
        let outcomes = client.outcomes(&op).await?;
        expect_eq(name, &Some(code.to_owned()), &outcomes[name])?;
    }
    let fresh = env.cx.unique("bad-config");
    let op = Op::CreateTopics {
        topics: vec![NewTopic {
            config: config(&[("no.such.setting", "1")]),
            ..new_topic(&fresh, 1)
        }],
        validate_only: false,
    };
    let outcomes = client.outcomes(&op).await?;
    expect_eq(
        "unknown setting",
        &Some("INVALID_CONFIG".to_owned()),
        &outcomes[&fresh],
    )
}

async fn validate_only(env: Env) -> Verdict {
    let mut client = env.client().await?;
    let name = env.cx.unique("only-validated");
    let op = Op::CreateTopics {
        topics: vec![new_topic(&name, 3)],
        validate_only: true,
    };
    all_done(&client.outcomes(&op).await?)?;
    ensure(
        !client.metadata(None).await?.topics.contains_key(&name),
        || format!("{name} was created by a validation"),
    )
}

async fn recreate(env: Env) -> Verdict {
    let (mut client, topic) = env.topic(1).await?;
    client.producer(&[]).await?;
    client.produce_numbers(&topic, Some(0), 0, 20).await?;
    let group = env.cx.unique("group");
    client.consumer(&[Setting::GroupId(group.clone())]).await?;
    client.commit(Some(vec![Place::new(&topic, 0, 15)])).await?;
    delete_topic(&mut client, &topic).await?;
    await_absence(&mut client, &topic).await?;
    let mut fresh = env.client().await?;
    fresh.create_topic(&topic, 1, &[]).await?;
    fresh.producer(&[]).await?;
    let places = fresh.produce_numbers(&topic, Some(0), 0, 3).await?;
    expect_eq("first place", &(0, 0), &places[0])?;
    fresh.consumer(&[Setting::GroupId(group.clone())]).await?;
    let deadline = Instant::now() + Duration::from_secs(10);
    loop {
        // Kafka clears the commits in the background.
        let found = fresh.committed(vec![Place::new(&topic, 0, 0)]).await?;
        if found[0].offset == -1 {
            return Ok(());
        }
        ensure(Instant::now() < deadline, || {
            format!("the commit outlived its topic: {found:?}")
        })?;
        tokio::time::sleep(Duration::from_millis(100)).await;
    }
}

async fn create_partitions(env: Env) -> Verdict {
    let (mut client, topic) = env.topic(2).await?;
    let to = |count| Op::CreatePartitions {
        topic: topic.clone(),
        count,
    };
    all_done(&client.outcomes(&to(6)).await?)?;
    client.await_width(&topic, 6).await?;
    for count in [6, 3] {
        let outcomes = client.outcomes(&to(count)).await?;
        expect_eq(
            &format!("outcome of {count}"),
            &Some("INVALID_PARTITIONS".to_owned()),
            &outcomes[&topic],
        )?;
    }
    client.producer(&[]).await?;
    let places = client.produce_numbers(&topic, Some(5), 0, 1).await?;
    expect_eq("place on an added partition", &vec![(5, 0)], &places)
}

async fn topic_config(env: Env) -> Verdict {
    let mut client = env.client().await?;
    let topic = env.cx.unique("topic");
    client
        .create_topic(&topic, 1, &[("retention.ms", "7200000")])
        .await?;
    let described = client.topic_config(&topic).await?;
    expect_eq(
        "retention.ms after the creation",
        &Some(&Some("7200000".to_owned())),
        &described.entries.get("retention.ms"),
    )?;
    ensure(
        described.dynamic.contains(&"retention.ms".to_owned()),
        || {
            format!(
                "retention.ms is not the topic's own: {:?}",
                described.dynamic
            )
        },
    )?;
    let replaces = client.can("alter_topic_config");
    let alter = |settings: &[(&str, &str)]| {
        let topic = topic.clone();
        if replaces {
            Op::AlterTopicConfig {
                topic,
                config: config(settings),
            }
        } else {
            Op::ChangeTopicConfig {
                topic,
                set: config(settings),
                delete: Vec::new(),
            }
        }
    };
    all_done(
        &client
            .outcomes(&alter(&[("retention.ms", "3600000")]))
            .await?,
    )?;
    let described = client.topic_config(&topic).await?;
    expect_eq(
        "retention.ms after the change",
        &Some(&Some("3600000".to_owned())),
        &described.entries.get("retention.ms"),
    )?;
    // Not every client tells which resource was refused; what counts is that nothing changed.
    let outcomes = client.outcomes(&alter(&[("no.such.setting", "1")])).await?;
    if let Some(code) = &outcomes[&topic] {
        expect_eq("unknown setting", &"INVALID_CONFIG", &code.as_str())?;
    }
    let described = client.topic_config(&topic).await?;
    expect_eq(
        "retention.ms after a refused change",
        &Some(&Some("3600000".to_owned())),
        &described.entries.get("retention.ms"),
    )?;
    ensure(!described.entries.contains_key("no.such.setting"), || {
        "an unknown setting was kept".into()
    })?;
    match client
        .call::<crate::drivers::protocol::Configs>(&Op::DescribeTopicConfig {
            topic: env.cx.unique("absent"),
        })
        .await
    {
        Err(refusal) => expect_eq(
            "an absent topic",
            &Some("UNKNOWN_TOPIC_OR_PARTITION".to_owned()),
            &refusal.code,
        ),
        // Not every client tells; no settings are as good a no.
        Ok(found) => ensure(found.entries.is_empty(), || {
            format!("an absent topic has settings: {found:?}")
        }),
    }
}

async fn delete_records(env: Env) -> Verdict {
    let (mut client, topic) = env.topic(1).await?;
    client.producer(&[]).await?;
    client.produce_numbers(&topic, Some(0), 0, 50).await?;
    let to = |offset| Op::DeleteRecords {
        partitions: vec![Place::new(&topic, 0, offset)],
    };
    let _: serde_json::Value = client.call(&to(20)).await?;
    client.reader(from_start(&topic, 1)).await?;
    expect_eq(
        "watermarks",
        &(20, 50),
        &client.watermarks(&topic, 0).await?,
    )?;
    let read = client.read_exactly(30).await?;
    expect_eq("first readable", &20, &read[0].offset)?;
    let refused = client.call::<serde_json::Value>(&to(51)).await;
    ensure(
        refused
            .as_ref()
            .is_err_and(|refusal| refusal.code.as_deref() == Some("OFFSET_OUT_OF_RANGE")),
        || format!("past the end: {refused:?}"),
    )?;
    let _: serde_json::Value = client.call(&to(-1)).await?;
    expect_eq(
        "watermarks of nothing",
        &(50, 50),
        &client.watermarks(&topic, 0).await?,
    )?;
    client.produce_numbers(&topic, Some(0), 50, 1).await?;
    expect_eq(
        "watermarks after",
        &(50, 51),
        &client.watermarks(&topic, 0).await?,
    )
}

async fn list_and_describe_groups(env: Env) -> Verdict {
    let (_creator, topic) = env.topic(2).await?;
    let group = env.cx.unique("group");
    let mut member = env.client().await?;
    member.member(&group, &[&topic], &[]).await?;
    let deadline = Instant::now() + Duration::from_secs(15);
    while member.assignment().await?.is_empty() {
        member.pump(100, 1).await?;
        ensure(Instant::now() < deadline, || "no assignment".into())?;
    }
    let mut admin = env.client().await?;
    let described = admin.groups(Some(&group)).await?;
    expect_eq("groups", &1, &described.groups.len())?;
    let one = &described.groups[0];
    expect_eq("state", &"Stable", &one.state.as_str())?;
    expect_eq(
        "members",
        &vec![member.client_id().to_owned()],
        &one.client_ids,
    )?;
    let listed = admin.groups(None).await?;
    ensure(
        listed.groups.iter().any(|listed| listed.id == group),
        || format!("{group} is not listed"),
    )
}

async fn delete_groups(env: Env) -> Verdict {
    let (mut producer, topic) = env.topic(1).await?;
    producer.producer(&[]).await?;
    producer.produce_numbers(&topic, Some(0), 0, 5).await?;
    let group = env.cx.unique("group");
    let mut member = env.client().await?;
    member.member(&group, &[&topic], &[]).await?;
    member.read_exactly(5).await?;
    member.commit(None).await?;
    let mut admin = env.client().await?;
    let delete = Op::DeleteGroups {
        groups: vec![group.clone()],
    };
    let outcomes = admin.outcomes(&delete).await?;
    expect_eq(
        "with a member",
        &Some("NON_EMPTY_GROUP".to_owned()),
        &outcomes[&group],
    )?;
    member.close_consumer().await?;
    all_done(&admin.outcomes(&delete).await?)?;
    let outcomes = admin.outcomes(&delete).await?;
    expect_eq(
        "a second time",
        &Some("GROUP_ID_NOT_FOUND".to_owned()),
        &outcomes[&group],
    )?;
    admin.consumer(&[Setting::GroupId(group.clone())]).await?;
    let found = admin.committed(vec![Place::new(&topic, 0, 0)]).await?;
    expect_eq("committed", &-1, &found[0].offset)
}

async fn unknown_topic(env: Env) -> Verdict {
    let mut client = env.client().await?;
    let absent = env.cx.unique("absent");
    client
        .consumer(&[
            Setting::GroupId("x".into()),
            Setting::AutoCreateTopics(false),
            // How long the client itself hopes that the topic still spreads.
            Setting::TopicPropagationMs(200),
        ])
        .await?;
    // Some clients say it at once, and some go on hoping in silence.
    let at_once = match client.assign(vec![Place::new(&absent, 0, 0)]).await {
        Ok(()) => {
            client.pump(1_500, 1).await?;
            false
        }
        Err(Stop::Fail(failure))
            if failure.refusal.as_deref() == Some(ErrorCode::UnknownTopicOrPartition.name()) =>
        {
            true
        }
        Err(stop) => return Err(stop),
    };
    env.cx
        .record
        .fact("the client was told", at_once || !client.events.is_empty());
    ensure(
        !client.metadata(None).await?.topics.contains_key(&absent),
        || format!("{absent} was created by asking"),
    )
}
