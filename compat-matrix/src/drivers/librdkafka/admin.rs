//! Administration and descriptions.

use rdkafka::Offset;
use rdkafka::admin::{
    AdminClient, AdminOptions, AlterConfig, ConfigSource, NewPartitions, NewTopic,
    ResourceSpecifier, TopicReplication,
};
use rdkafka::client::Client;
use rdkafka::types::RDKafkaErrorCode;
use serde_json::Value;
use tokio::runtime::Handle;

use super::context::Callbacks;
use super::worker::{CALL, code_name, json, list, local, places, refusal};
use crate::drivers::Refusal;
use crate::drivers::protocol::{
    Configs, Group, Groups, NewTopic as Wanted, Op, Outcomes, Places, Topics,
};

pub(super) fn perform(
    runtime: &Handle,
    admin: &AdminClient<Callbacks>,
    op: Op,
) -> Result<Value, Refusal> {
    let options = AdminOptions::new()
        .request_timeout(Some(CALL))
        .operation_timeout(Some(CALL));
    match op {
        Op::CreateTopics {
            topics,
            validate_only,
        } => {
            let wanted: Vec<NewTopic<'_>> = topics.iter().map(new_topic).collect();
            let done = runtime
                .block_on(admin.create_topics(&wanted, &options.validate_only(validate_only)));
            outcomes(done.map_err(refusal)?)
        }
        Op::DeleteTopics { topics } => {
            let names: Vec<&str> = topics.iter().map(String::as_str).collect();
            outcomes(
                runtime
                    .block_on(admin.delete_topics(&names, &options))
                    .map_err(refusal)?,
            )
        }
        Op::CreatePartitions { topic, count } => {
            let wanted = [NewPartitions::new(&topic, count)];
            outcomes(
                runtime
                    .block_on(admin.create_partitions(&wanted, &options))
                    .map_err(refusal)?,
            )
        }
        Op::DeleteRecords { partitions } => {
            let asked = list(&partitions, |offset| match offset {
                -1 => Offset::End,
                offset => Offset::Offset(offset),
            })?;
            let done = runtime
                .block_on(admin.delete_records(&asked, &options))
                .map_err(refusal)?;
            for element in done.elements() {
                element.error().map_err(refusal)?;
            }
            json(&Places {
                places: places(&done),
            })
        }
        Op::DescribeTopicConfig { topic } => describe(runtime, admin, &topic, &options),
        Op::AlterTopicConfig { topic, config } => {
            let mut wanted = AlterConfig::new(ResourceSpecifier::Topic(&topic));
            for (name, value) in &config {
                wanted = wanted.set(name, value);
            }
            let done = runtime
                .block_on(admin.alter_configs([&wanted], &options))
                .map_err(refusal)?;
            let outcomes = done
                .into_iter()
                .map(|result| match result {
                    Ok(_) => (topic.clone(), None),
                    Err((_, code)) => (topic.clone(), Some(name_of(code))),
                })
                .collect();
            json(&Outcomes { outcomes })
        }
        Op::DeleteGroups { groups } => {
            let ids: Vec<&str> = groups.iter().map(String::as_str).collect();
            outcomes(
                runtime
                    .block_on(admin.delete_groups(&ids, &options))
                    .map_err(refusal)?,
            )
        }
        other => Err(local(format!("not an operation of an admin: {other:?}"))),
    }
}

fn new_topic(wanted: &Wanted) -> NewTopic<'_> {
    let mut topic = NewTopic::new(&wanted.name, wanted.partitions, TopicReplication::Fixed(1));
    for (name, value) in &wanted.config {
        topic = topic.set(name, value);
    }
    topic
}

fn name_of(code: RDKafkaErrorCode) -> String {
    code_name(code).unwrap_or_else(|| format!("{code:?}"))
}

fn outcomes(
    results: impl IntoIterator<Item = Result<String, (String, RDKafkaErrorCode)>>,
) -> Result<Value, Refusal> {
    let outcomes = results
        .into_iter()
        .map(|result| match result {
            Ok(name) => (name, None),
            Err((name, code)) => (name, Some(name_of(code))),
        })
        .collect();
    json(&Outcomes { outcomes })
}

fn describe(
    runtime: &Handle,
    admin: &AdminClient<Callbacks>,
    topic: &str,
    options: &AdminOptions,
) -> Result<Value, Refusal> {
    let asked = [ResourceSpecifier::Topic(topic)];
    let mut described = runtime
        .block_on(admin.describe_configs(&asked, options))
        .map_err(refusal)?;
    let resource = described
        .pop()
        .ok_or_else(|| local("no resource came back"))?
        .map_err(|code| Refusal {
            code: code_name(code),
            ..Refusal::failed(format!("{code:?}"))
        })?;
    let mut configs = Configs::default();
    for entry in resource.entries {
        if entry.source == ConfigSource::DynamicTopic {
            configs.dynamic.push(entry.name.clone());
        }
        configs.entries.insert(entry.name, entry.value);
    }
    configs.dynamic.sort();
    json(&configs)
}

/// Topics and brokers; a topic's error is not the call's.
pub(super) fn metadata(client: &Client<Callbacks>, topic: Option<&str>) -> Result<Topics, Refusal> {
    let metadata = client.fetch_metadata(topic, CALL).map_err(refusal)?;
    let mut topics = Topics::default();
    for topic in metadata.topics() {
        topics
            .topics
            .insert(topic.name().to_owned(), topic.partitions().len());
        if let Some(error) = topic.error() {
            topics
                .errors
                .insert(topic.name().to_owned(), name_of(error.into()));
        }
    }
    for broker in metadata.brokers() {
        topics
            .brokers
            .insert(broker.id(), format!("{}:{}", broker.host(), broker.port()));
    }
    Ok(topics)
}

/// Groups with the client ids of their members.
pub(super) fn groups(client: &Client<Callbacks>, group: Option<&str>) -> Result<Groups, Refusal> {
    let found = client.fetch_group_list(group, CALL).map_err(refusal)?;
    let mut groups: Vec<Group> = found
        .groups()
        .iter()
        .map(|group| {
            let mut client_ids: Vec<String> = group
                .members()
                .iter()
                .map(|member| member.client_id().to_owned())
                .collect();
            client_ids.sort();
            Group {
                id: group.name().to_owned(),
                state: group.state().to_owned(),
                protocol: group.protocol().to_owned(),
                client_ids,
            }
        })
        .collect();
    groups.sort_by(|a, b| a.id.cmp(&b.id));
    Ok(Groups { groups })
}
