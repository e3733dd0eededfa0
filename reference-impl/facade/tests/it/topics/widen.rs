//! CreatePartitions, and the widening of dedup windows.

use std::time::Duration;

use facade::catalogue::Dedup;
use facade::queen::Credential;
use fake_queen::Options;
use kafka_protocol::messages::create_partitions_request::{
    CreatePartitionsAssignment, CreatePartitionsTopic,
};
use kafka_protocol::messages::{BrokerId, CreatePartitionsRequest};
use rstest::rstest;

use super::*;

fn to(name: &str, count: i32) -> CreatePartitionsTopic {
    CreatePartitionsTopic::default()
        .with_name(topic_name(name))
        .with_count(count)
        .with_assignments(None)
}

async fn widen(rig: &Rig, version: i16, topics: Vec<CreatePartitionsTopic>) -> Vec<i16> {
    let request = CreatePartitionsRequest::default().with_topics(topics);
    let response = handlers::create_partitions::handle(&rig.cx(version), request).await;
    encodable(response, version)
        .results
        .iter()
        .map(|result| {
            assert_eq!(result.error_message.is_some(), result.error_code != 0);
            result.error_code
        })
        .collect()
}

#[tokio::test(start_paused = true)]
async fn a_topic_gets_wider_and_every_facade_sees_it() {
    let rig = Rig::start().await;
    create(&rig, "t", 3, &[]).await;
    let other = rig.beside();
    assert_eq!(described(&other, "t").await.partitions.len(), 3);
    for (version, count) in [(0, 4), (1, 5), (2, 6), (3, 7)] {
        assert_eq!(widen(&rig, version, vec![to("t", count)]).await, [0]);
        let width = described(&rig, "t").await.partitions.len();
        assert_eq!(i32::try_from(width).expect("narrow"), count);
    }
    tokio::time::sleep(Duration::from_secs(31)).await;
    assert_eq!(described(&other, "t").await.partitions.len(), 7);
    let row = &rig.rows("qk:topiccfg:t").await[0].1;
    assert_eq!(row["partitions"], json!(7));
}

#[rstest]
#[case::same(to("t", 3), 37)]
#[case::fewer(to("t", 2), 37)]
#[case::none(to("t", 0), 37)]
#[case::too_many(to("t", 100_001), 37)]
#[case::native(to("native", 2000), 37)]
#[case::absent(to("absent", 5), 3)]
#[case::internal(to("__x", 5), 3)]
#[case::assigned_here(to("t", 4).with_assignments(Some(vec![assigned(&[0])])), 0)]
#[case::assigned_elsewhere(to("t", 4).with_assignments(Some(vec![assigned(&[1])])), 39)]
#[case::too_few_assigned(to("t", 5).with_assignments(Some(vec![assigned(&[0])])), 39)]
#[tokio::test(start_paused = true)]
async fn a_widening_is_judged(#[case] topic: CreatePartitionsTopic, #[case] expected: i16) {
    let rig = Rig::start().await;
    create(&rig, "t", 3, &[]).await;
    rig.native_queue("native", json!({})).await;
    assert_eq!(widen(&rig, 3, vec![topic]).await, [expected]);
}

fn assigned(brokers: &[i32]) -> CreatePartitionsAssignment {
    let brokers = brokers.iter().copied().map(BrokerId).collect();
    CreatePartitionsAssignment::default().with_broker_ids(brokers)
}

#[tokio::test(start_paused = true)]
async fn a_topic_named_twice_stays_as_it_is() {
    let rig = Rig::start().await;
    create(&rig, "t", 3, &[]).await;
    assert_eq!(widen(&rig, 3, vec![to("t", 4), to("t", 5)]).await, [42, 42]);
    assert_eq!(described(&rig, "t").await.partitions.len(), 3);
}

#[tokio::test(start_paused = true)]
async fn validation_changes_nothing() {
    let rig = Rig::start().await;
    create(&rig, "t", 3, &[]).await;
    let request = CreatePartitionsRequest::default()
        .with_topics(vec![to("t", 9)])
        .with_validate_only(true);
    let response = handlers::create_partitions::handle(&rig.cx(3), request).await;
    assert_eq!(response.results[0].error_code, 0);
    assert_eq!(described(&rig, "t").await.partitions.len(), 3);
}

#[tokio::test(start_paused = true)]
async fn another_facades_higher_floor_is_not_lowered() {
    let rig = Rig::start().await;
    create(&rig, "t", 3, &[]).await;
    let other = rig.beside();
    assert_eq!(described(&other, "t").await.partitions.len(), 3);
    assert_eq!(widen(&rig, 3, vec![to("t", 50)]).await, [0]);
    // This one's view is older than that.
    assert_eq!(widen(&other, 3, vec![to("t", 10)]).await, [37]);
    let row = &rig.rows("qk:topiccfg:t").await[0].1;
    assert_eq!(row["partitions"], json!(50));
}

async fn dedup(rig: &Rig, topic: &str) -> Dedup {
    let (scope, credential) = (rig.scope(), Credential::default());
    let view = rig.node.catalogue.view(&scope, &credential).await;
    let topic = view.topics.get(topic).expect("a topic").clone();
    rig.node
        .catalogue
        .ensure_dedup(&scope, &credential, &topic)
        .await
}

#[tokio::test(start_paused = true)]
async fn topics_made_here_are_covered_without_a_call() {
    let rig = Rig::start().await;
    create(&rig, "asked", 1, &[]).await;
    metadata(
        &rig,
        12,
        by_name(&["first-use"]).with_allow_auto_topic_creation(true),
    )
    .await;
    rig.count("configure");
    for topic in ["asked", "first-use"] {
        assert_eq!(dedup(&rig, topic).await, Dedup::Covered);
    }
    assert_eq!(rig.counted("configure"), 0);
}

#[tokio::test(start_paused = true)]
async fn a_topic_of_another_facade_is_widened_once_and_keeps_its_options() {
    let rig = Rig::start().await;
    let options =
        json!({"dedupWindowSeconds": 0, "retentionEnabled": true, "retentionSeconds": 60});
    rig.native_queue("t", options.clone()).await;
    let id = described(&rig, "t").await.topic_id.to_string();
    let row = json!({"qid": id, "set": options, "at": 1, "partitions": 3});
    rig.put_row("qk:topiccfg:t", &row).await;
    tokio::time::sleep(Duration::from_secs(31)).await;
    rig.count("configure");
    for _ in 0..3 {
        assert_eq!(dedup(&rig, "t").await, Dedup::Covered);
    }
    assert_eq!(rig.counted("configure"), 1);
    let options = rig.options("t").await;
    assert_eq!(options["dedupWindowSeconds"], json!(3600));
    assert_eq!(options["retentionSeconds"], json!(60));
    assert_eq!(described(&rig, "t").await.partitions.len(), 3);
}

#[tokio::test(start_paused = true)]
async fn a_native_queue_is_left_alone() {
    let rig = Rig::start().await;
    rig.native_queue("native", json!({"dedupWindowSeconds": 0}))
        .await;
    rig.count("configure");
    for _ in 0..3 {
        assert_eq!(dedup(&rig, "native").await, Dedup::Uncovered);
    }
    assert_eq!(rig.counted("configure"), 0);
    assert_eq!(rig.options("native").await["dedupWindowSeconds"], json!(0));
}

#[tokio::test(start_paused = true)]
async fn producers_that_begin_together_widen_once() {
    let rig = Rig::start_with(Options::default(), |_| {}).await;
    rig.native_queue("t", json!({"dedupWindowSeconds": 0}))
        .await;
    let id = described(&rig, "t").await.topic_id.to_string();
    rig.put_row("qk:topiccfg:t", &json!({"qid": id, "set": {}, "at": 1}))
        .await;
    tokio::time::sleep(Duration::from_secs(31)).await;
    rig.refuse("configure", 403);
    let producers = (0..50).map(|_| dedup(&rig, "t"));
    let verdicts = futures::future::join_all(producers).await;
    assert!(verdicts.iter().all(|verdict| *verdict == Dedup::Uncovered));
    assert_eq!(rig.counted("configure"), 1);
}

#[tokio::test(start_paused = true)]
async fn a_topic_that_cannot_be_widened_is_tried_again_later() {
    let rig = Rig::start_with(Options::default(), |_| {}).await;
    rig.native_queue("t", json!({"dedupWindowSeconds": 0}))
        .await;
    let id = described(&rig, "t").await.topic_id.to_string();
    rig.put_row("qk:topiccfg:t", &json!({"qid": id, "set": {}, "at": 1}))
        .await;
    tokio::time::sleep(Duration::from_secs(31)).await;
    rig.refuse("configure", 403);
    assert_eq!(dedup(&rig, "t").await, Dedup::Uncovered);
    rig.heal();
    assert_eq!(dedup(&rig, "t").await, Dedup::Uncovered, "not at once");
    tokio::time::sleep(Duration::from_secs(61)).await;
    assert_eq!(dedup(&rig, "t").await, Dedup::Covered);
}
