//! Topics as clients and administrators see them, over a Queen in this process.

mod configs;
mod create;
mod delete;
mod describe;
mod metadata;
mod widen;

use facade::context::{Answer, Context, Reply};
use facade::handlers;
use kafka_protocol::messages::create_topics_request::{CreatableTopic, CreatableTopicConfig};
use kafka_protocol::messages::create_topics_response::CreatableTopicResult;
use kafka_protocol::messages::metadata_request::MetadataRequestTopic;
use kafka_protocol::messages::metadata_response::MetadataResponseTopic;
use kafka_protocol::messages::{CreateTopicsRequest, MetadataRequest, MetadataResponse, TopicName};
use kafka_protocol::protocol::StrBytes;
use serde_json::json;

use crate::rig::{Rig, encodable, refusal};

fn text(text: &str) -> StrBytes {
    StrBytes::from_string(text.to_owned())
}

fn topic_name(name: &str) -> TopicName {
    TopicName(text(name))
}

/// A topic to create: name, width (−1 for none), configs.
fn creatable(name: &str, partitions: i32, configs: &[(&str, &str)]) -> CreatableTopic {
    let configs = configs.iter().map(|(name, value)| {
        CreatableTopicConfig::default()
            .with_name(text(name))
            .with_value(Some(text(value)))
    });
    CreatableTopic::default()
        .with_name(topic_name(name))
        .with_num_partitions(partitions)
        .with_replication_factor(-1)
        .with_configs(configs.collect())
}

async fn create_topics(
    rig: &Rig,
    version: i16,
    request: CreateTopicsRequest,
) -> Vec<CreatableTopicResult> {
    let response = handlers::create_topics::handle(&rig.cx(version), request).await;
    encodable(response, version).topics
}

/// Creates one topic; panics when that fails.
async fn create(rig: &Rig, name: &str, partitions: i32, configs: &[(&str, &str)]) {
    let request =
        CreateTopicsRequest::default().with_topics(vec![creatable(name, partitions, configs)]);
    let results = create_topics(rig, 7, request).await;
    assert_eq!(results[0].error_code, 0, "{:?}", results[0].error_message);
}

fn by_name(names: &[&str]) -> MetadataRequest {
    let topics = names
        .iter()
        .map(|name| MetadataRequestTopic::default().with_name(Some(topic_name(name))));
    MetadataRequest::default()
        .with_topics(Some(topics.collect()))
        .with_allow_auto_topic_creation(false)
}

async fn metadata(rig: &Rig, version: i16, request: MetadataRequest) -> MetadataResponse {
    encodable(ask(&rig.cx(version), request).await, version)
}

async fn ask(cx: &Context, request: MetadataRequest) -> MetadataResponse {
    match handlers::metadata::handle(cx, request).await {
        Reply::Now(Answer::Send(response)) => response,
        _ => panic!("there is room"),
    }
}

/// One topic's entry, asked for without creating it.
async fn described(rig: &Rig, name: &str) -> MetadataResponseTopic {
    let mut topics = metadata(rig, 12, by_name(&[name])).await.topics;
    topics.pop().expect("one entry per name")
}

fn names_of(response: &MetadataResponse) -> Vec<String> {
    response
        .topics
        .iter()
        .map(|topic| {
            topic
                .name
                .as_ref()
                .map_or("", |name| name.as_str())
                .to_owned()
        })
        .collect()
}
