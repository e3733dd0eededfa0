//! DescribeProducers (61).

use kafka_wire::{ApiKey, ErrorCode};
use serde_json::{Value as Json, json};

use super::case::{Api, Case};

pub(super) fn api() -> Api {
    Api {
        key: ApiKey::DESCRIBE_PRODUCERS,
        sample: || request("sample", &[0]),
        legal: &[
            ErrorCode::UnknownTopicOrPartition,
            ErrorCode::InvalidTopicException,
            ErrorCode::NotLeaderOrFollower,
            ErrorCode::TopicAuthorizationFailed,
        ],
        cases: vec![
            Case::new(
                "active",
                "names the producers of a partition",
                |p| async move {
                    let topic = p.topic(1).await?;
                    let leader = p.route().await;
                    let mine = p.transactional().await?;
                    p.begin(&topic, &mine).await?;
                    p.route_to(leader).await;
                    p.append_in_transaction(&topic, &mine, 3, 0).await?;
                    p.ask(request(&topic.name, &[0])).await?.is(json!({
                        "Topics": [{"Name": topic.name, "Partitions": [{
                            "PartitionIndex": 0,
                            "ErrorCode": "NONE",
                            "ActiveProducers": [{
                                "ProducerId": mine.producer,
                                "ProducerEpoch": mine.epoch,
                                "LastSequence": 2,
                            }],
                        }]}],
                    }))
                },
            )
            .kips(&[664]),
            Case::new(
                "unknown-partition",
                "refuses a partition that is not there",
                |p| async move {
                    let topic = p.topic(1).await?;
                    p.ask(request(&topic.name, &[1_000_000])).await?.is(json!({
                        "Topics": [{"Partitions": [{"ErrorCode": "UNKNOWN_TOPIC_OR_PARTITION"}]}],
                    }))
                },
            ),
        ],
    }
}

fn request(topic: &str, partitions: &[i32]) -> Json {
    json!({"Topics": [{"Name": topic, "PartitionIndexes": partitions}]})
}
