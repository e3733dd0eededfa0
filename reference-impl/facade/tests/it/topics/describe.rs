//! DescribeCluster, DescribeLogDirs, DescribeTopicPartitions.

use kafka_protocol::messages::describe_log_dirs_request::DescribableLogDirTopic;
use kafka_protocol::messages::describe_topic_partitions_request::{Cursor, TopicRequest};
use kafka_protocol::messages::{
    DescribeClusterRequest, DescribeLogDirsRequest, DescribeTopicPartitionsRequest,
    DescribeTopicPartitionsResponse,
};
use rstest::rstest;

use super::*;

#[tokio::test(start_paused = true)]
async fn the_cluster_is_this_node() {
    let rig = Rig::start().await;
    for version in 0..=2 {
        let request = DescribeClusterRequest::default();
        let response = handlers::describe_cluster::handle(&rig.cx(version), request).await;
        let response = encodable(response, version);
        assert_eq!((response.error_code, response.controller_id.0), (0, 0));
        assert_eq!(response.cluster_id.as_str(), "queen");
        assert_eq!(response.brokers.len(), 1);
        assert_eq!(
            (response.brokers[0].host.as_str(), response.brokers[0].port),
            ("kafka.example", 9092)
        );
    }
}

#[rstest]
#[case::controllers(2, 114)]
#[case::nonsense(7, 115)]
#[tokio::test(start_paused = true)]
async fn only_brokers_are_here(#[case] endpoint_type: i8, #[case] code: i16) {
    let rig = Rig::start().await;
    let request = DescribeClusterRequest::default().with_endpoint_type(endpoint_type);
    let response = handlers::describe_cluster::handle(&rig.cx(1), request).await;
    assert_eq!(encodable(response, 1).error_code, code);
}

#[tokio::test(start_paused = true)]
async fn log_dirs_add_up_to_the_topic() {
    let rig = Rig::start().await;
    create(&rig, "a", 4, &[]).await;
    create(&rig, "b", 2, &[]).await;
    for partition in [0, 1, 1] {
        rig.push("a", partition).await;
    }
    tokio::time::sleep(std::time::Duration::from_secs(4)).await;
    let retained = rig
        .node
        .queen
        .list_queues(&facade::queen::Credential::default())
        .await
        .expect("listed")
        .iter()
        .find(|queue| queue.name == "a")
        .expect("there")
        .retained_bytes;
    for version in 1..=4 {
        let request = DescribeLogDirsRequest::default().with_topics(None);
        let response = handlers::describe_log_dirs::handle(&rig.cx(version), request).await;
        let dirs = encodable(response, version).results;
        assert_eq!(dirs.len(), 1);
        let widths: Vec<(&str, usize)> = dirs[0]
            .topics
            .iter()
            .map(|topic| (topic.name.as_str(), topic.partitions.len()))
            .collect();
        assert_eq!(widths, [("a", 4), ("b", 2)]);
        let sizes = dirs[0].topics[0].partitions.iter();
        let sum: i64 = sizes.map(|partition| partition.partition_size).sum();
        assert_eq!(u64::try_from(sum).expect("not negative"), retained);
        assert!(retained > 0);
    }
    let topic = DescribableLogDirTopic::default()
        .with_topic(topic_name("a"))
        .with_partitions(vec![3, 1, 9, 1, -1]);
    let request = DescribeLogDirsRequest::default().with_topics(Some(vec![topic]));
    let response = handlers::describe_log_dirs::handle(&rig.cx(4), request).await;
    let topics = &response.results[0].topics;
    let partitions: Vec<i32> = topics[0]
        .partitions
        .iter()
        .map(|partition| partition.partition_index)
        .collect();
    assert_eq!((topics.len(), partitions), (1, vec![1, 3]));
}

#[tokio::test(start_paused = true)]
async fn log_dirs_of_a_refused_credential_are_an_error() {
    let rig = Rig::start().await;
    rig.refuse("queue_list", 403);
    let request = DescribeLogDirsRequest::default().with_topics(None);
    let response = handlers::describe_log_dirs::handle(&rig.cx(4), request).await;
    assert_eq!(encodable(response, 4).error_code, 31);
}

async fn page(
    rig: &Rig,
    topics: &[&str],
    limit: i32,
    cursor: Option<(&str, i32)>,
) -> DescribeTopicPartitionsResponse {
    let topics = topics
        .iter()
        .map(|name| TopicRequest::default().with_name(topic_name(name)));
    let request = DescribeTopicPartitionsRequest::default()
        .with_topics(topics.collect())
        .with_response_partition_limit(limit)
        .with_cursor(cursor.map(|(topic, partition)| {
            Cursor::default()
                .with_topic_name(topic_name(topic))
                .with_partition_index(partition)
        }));
    let response = handlers::describe_topic_partitions::handle(&rig.cx(0), request).await;
    encodable(response, 0)
}

fn shape(response: &DescribeTopicPartitionsResponse) -> Vec<(String, i16, Vec<i32>)> {
    response
        .topics
        .iter()
        .map(|topic| {
            let name = topic
                .name
                .as_ref()
                .map_or("", |name| name.as_str())
                .to_owned();
            let partitions = topic
                .partitions
                .iter()
                .map(|partition| partition.partition_index);
            (name, topic.error_code, partitions.collect())
        })
        .collect()
}

#[tokio::test(start_paused = true)]
async fn partitions_come_in_pages() {
    let rig = Rig::start().await;
    create(&rig, "a", 3, &[]).await;
    create(&rig, "b", 2, &[]).await;
    let mut cursor = None;
    let mut seen = Vec::new();
    for _ in 0..10 {
        let from = cursor
            .as_ref()
            .map(|(topic, partition): &(String, i32)| (topic.as_str(), *partition));
        let response = page(&rig, &["b", "absent", "a"], 2, from).await;
        seen.push(shape(&response));
        match response.next_cursor {
            Some(next) => {
                cursor = Some((next.topic_name.as_str().to_owned(), next.partition_index))
            }
            None => break,
        }
    }
    let part =
        |name: &str, code: i16, partitions: &[i32]| (name.to_owned(), code, partitions.to_vec());
    assert_eq!(
        seen,
        [
            vec![part("a", 0, &[0, 1])],
            vec![
                part("a", 0, &[2]),
                part("absent", 3, &[]),
                part("b", 0, &[0])
            ],
            vec![part("b", 0, &[1])],
        ]
    );
}

#[tokio::test(start_paused = true)]
async fn no_name_means_all_and_a_cursor_on_a_gone_topic_goes_on() {
    let rig = Rig::start().await;
    create(&rig, "a", 1, &[]).await;
    create(&rig, "c", 1, &[]).await;
    let all = page(&rig, &[], 2000, None).await;
    assert_eq!(shape(&all).len(), 2);
    assert!(all.next_cursor.is_none());
    let rest = page(&rig, &[], 2000, Some(("b", 7))).await;
    assert_eq!(shape(&rest), [("c".to_owned(), 0, vec![0])]);
}

#[tokio::test(start_paused = true)]
async fn a_page_never_holds_more_than_2000() {
    let rig = Rig::start().await;
    create(&rig, "wide", 5000, &[]).await;
    let response = page(&rig, &["wide"], i32::MAX, None).await;
    assert_eq!(response.topics[0].partitions.len(), 2000);
    let next = response.next_cursor.expect("more");
    assert_eq!(next.partition_index, 2000);
    let least = page(&rig, &["wide"], -5, None).await;
    assert_eq!(least.topics[0].partitions.len(), 1);
}
