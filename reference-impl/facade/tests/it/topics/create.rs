//! CreateTopics, and the creation that every path shares.

use fake_queen::faults::Rule;
use fake_queen::{Options, Version};
use kafka_protocol::messages::create_topics_request::CreatableReplicaAssignment;
use kafka_protocol::messages::{BrokerId, CreateTopicsResponse};
use rstest::rstest;

use super::*;

fn request(topics: Vec<CreatableTopic>) -> CreateTopicsRequest {
    CreateTopicsRequest::default().with_topics(topics)
}

async fn code(rig: &Rig, version: i16, topic: CreatableTopic) -> i16 {
    create_topics(rig, version, request(vec![topic])).await[0].error_code
}

#[tokio::test(start_paused = true)]
async fn every_version_creates_and_carries_the_answer() {
    let rig = Rig::start().await;
    for version in 2..=7 {
        let name = format!("t{version}");
        let topic = creatable(&name, 3, &[("retention.ms", "60000")]);
        let results = create_topics(&rig, version, request(vec![topic])).await;
        let result = &results[0];
        assert_eq!(
            (result.error_code, result.error_message.as_ref()),
            (0, None)
        );
        assert_eq!((result.num_partitions, result.replication_factor), (3, 1));
        assert_eq!(result.topic_id, described(&rig, &name).await.topic_id);
        let retention = result
            .configs
            .iter()
            .flatten()
            .find(|row| row.name.as_str() == "retention.ms");
        assert_eq!(retention.is_some(), version >= 5);
        if let Some(row) = retention {
            assert_eq!(
                (row.value.as_deref(), row.config_source),
                (Some("60000"), 1)
            );
        }
    }
}

#[tokio::test(start_paused = true)]
async fn the_queue_and_its_record_say_what_was_asked_for() {
    let rig = Rig::start().await;
    create(
        &rig,
        "t",
        12,
        &[("retention.ms", "60999"), ("compression.type", "zstd")],
    )
    .await;
    let options = rig.options("t").await;
    assert_eq!(options["retentionEnabled"], json!(true));
    assert_eq!(options["retentionSeconds"], json!(60));
    assert_eq!(options["dedupWindowSeconds"], json!(3600));
    let rows = rig.rows("qk:topiccfg:").await;
    let (key, row) = &rows[0];
    assert_eq!(key, "qk:topiccfg:t");
    assert!(row["at"].as_i64().is_some_and(|at| at > 0));
    let mut row = row.clone();
    row.as_object_mut().expect("an object").remove("at");
    let id = described(&rig, "t").await.topic_id.to_string();
    assert_eq!(
        row,
        json!({"qid": id, "partitions": 12,
               "set": {"dedupWindowSeconds": 3600, "retentionEnabled": true, "retentionSeconds": 60},
               "kafka": {"compression.type": "zstd", "retention.ms": "60999"}})
    );
    assert_eq!(described(&rig.beside(), "t").await.partitions.len(), 12);
}

#[rstest]
#[case::empty_name(creatable("", 1, &[]), 17)]
#[case::illegal_name(creatable("a b", 1, &[]), 17)]
#[case::internal_name(creatable("__x", 1, &[]), 17)]
#[case::no_partitions(creatable("t", 0, &[]), 37)]
#[case::negative_partitions(creatable("t", -2, &[]), 37)]
#[case::too_many_partitions(creatable("t", 100_001, &[]), 37)]
#[case::no_replica(creatable("t", 1, &[]).with_replication_factor(0), 38)]
#[case::unknown_config(creatable("t", 1, &[("no.such", "1")]), 40)]
#[case::bad_config(creatable("t", 1, &[("retention.ms", "5")]), 40)]
#[case::append_time(creatable("t", 1, &[("message.timestamp.type", "LogAppendTime")]), 40)]
#[case::widest(creatable("t", 100_000, &[]), 0)]
#[case::default_width(creatable("t", -1, &[]), 0)]
#[case::replicated(creatable("t", 1, &[]).with_replication_factor(3), 0)]
#[case::compacted(creatable("t", 1, &[("cleanup.policy", "compact")]), 0)]
#[tokio::test(start_paused = true)]
async fn a_topic_is_judged(
    #[case] topic: CreatableTopic,
    #[case] expected: i16,
    #[values(true, false)] validate_only: bool,
) {
    let rig = Rig::start().await;
    let request = request(vec![topic]).with_validate_only(validate_only);
    let results = create_topics(&rig, 7, request).await;
    assert_eq!(results[0].error_code, expected);
    assert_eq!(results[0].error_message.is_some(), expected != 0);
    let created = metadata(&rig, 12, MetadataRequest::default().with_topics(None)).await;
    assert_eq!(
        created.topics.len(),
        usize::from(expected == 0 && !validate_only)
    );
}

#[rstest]
#[case::here(&[(1, vec![0]), (0, vec![0])], 0)]
#[case::elsewhere(&[(0, vec![1])], 39)]
#[case::twice(&[(0, vec![0, 1])], 39)]
#[case::gap(&[(0, vec![0]), (2, vec![0])], 39)]
#[case::not_from_zero(&[(1, vec![0])], 39)]
#[tokio::test(start_paused = true)]
async fn manual_assignments_may_only_name_this_node(
    #[case] assignments: &[(i32, Vec<i32>)],
    #[case] expected: i16,
) {
    let rig = Rig::start().await;
    let assignments = assignments.iter().map(|(partition, brokers)| {
        CreatableReplicaAssignment::default()
            .with_partition_index(*partition)
            .with_broker_ids(brokers.iter().copied().map(BrokerId).collect())
    });
    let topic = creatable("t", -1, &[]).with_assignments(assignments.collect());
    assert_eq!(code(&rig, 7, topic.clone()).await, expected);
    if expected == 0 {
        assert_eq!(described(&rig, "t").await.partitions.len(), 2);
        assert_eq!(code(&rig, 7, topic.with_num_partitions(2)).await, 42);
    }
}

#[tokio::test(start_paused = true)]
async fn an_existing_topic_is_left_alone() {
    let rig = Rig::start().await;
    rig.native_queue(
        "native",
        json!({"retentionEnabled": true, "retentionSeconds": 9}),
    )
    .await;
    create(&rig, "ours", 3, &[]).await;
    for name in ["native", "ours"] {
        let topic = creatable(name, 7, &[("retention.ms", "60000")]);
        assert_eq!(code(&rig, 7, topic).await, 36);
    }
    assert_eq!(rig.options("native").await["retentionSeconds"], json!(9));
    assert_eq!(described(&rig, "ours").await.partitions.len(), 3);
}

#[tokio::test(start_paused = true)]
async fn a_name_given_twice_is_created_neither_time() {
    let rig = Rig::start().await;
    let topics = vec![
        creatable("a", 1, &[]),
        creatable("b", 1, &[]),
        creatable("a", 2, &[]),
    ];
    let codes: Vec<i16> = create_topics(&rig, 7, request(topics))
        .await
        .iter()
        .map(|result| result.error_code)
        .collect();
    assert_eq!(codes, [42, 0], "one answer for each name");
    assert_eq!(described(&rig, "a").await.error_code, 3);
}

#[rstest]
#[case(7, 89)]
#[case(5, 7)]
#[tokio::test(start_paused = true)]
async fn one_request_creates_a_hundred(#[case] version: i16, #[case] beyond: i16) {
    let rig = Rig::start().await;
    let topics: Vec<CreatableTopic> = (0..102)
        .map(|n| creatable(&format!("t{n}"), 1, &[]))
        .collect();
    let results = create_topics(&rig, version, request(topics.clone())).await;
    let codes: Vec<i16> = results.iter().map(|result| result.error_code).collect();
    assert_eq!(codes[..100], [0; 100]);
    assert_eq!(codes[100..], [beyond; 2]);
    let again = create_topics(&rig, version, request(topics[100..].to_vec())).await;
    assert!(again.iter().all(|result| result.error_code == 0));
}

#[rstest]
#[case::denied(403, 7, 29, 0)]
#[case::throttled(429, 7, 89, 5000)]
#[case::throttled_old(429, 5, 7, 0)]
#[case::away(503, 7, 7, 0)]
#[case::broken(502, 7, 7, 0)]
#[case::rejected(400, 7, 40, 0)]
#[tokio::test(start_paused = true)]
async fn a_refusal_of_queen_reaches_the_client(
    #[case] status: u16,
    #[case] version: i16,
    #[case] expected: i16,
    #[case] throttle_ms: i32,
) {
    let rig = Rig::start().await;
    if status == 429 {
        rig.throttle("configure", 5);
    } else {
        rig.refuse("configure", status);
    }
    let topics = vec![creatable("t", 1, &[])];
    let response: CreateTopicsResponse =
        handlers::create_topics::handle(&rig.cx(version), request(topics)).await;
    assert_eq!(response.topics[0].error_code, expected);
    assert_eq!(response.throttle_time_ms, throttle_ms);
    let message = response.topics[0].error_message.as_deref();
    assert!(message.is_some_and(|message| !message.is_empty()));
}

#[tokio::test(start_paused = true)]
async fn an_unreadable_catalogue_creates_nothing() {
    let rig = Rig::start().await;
    rig.refuse("queue_list", 503);
    rig.count("configure");
    assert_eq!(code(&rig, 7, creatable("t", 1, &[])).await, 7);
    assert_eq!(rig.counted("configure"), 0);
}

#[tokio::test(start_paused = true)]
async fn a_record_that_is_not_written_at_once_is_written_after_all() {
    let rig = Rig::start().await;
    // The first write only: creation must not leave a topic without its width.
    rig.strike(Rule {
        body_contains: Some("\"put\"".into()),
        ..Rule::once("kv", refusal(503, None))
    });
    create(&rig, "t", 3, &[]).await;
    assert_eq!(described(&rig.beside(), "t").await.partitions.len(), 3);
}

#[tokio::test(start_paused = true)]
async fn a_record_that_cannot_be_written_is_told() {
    let rig = Rig::start().await;
    rig.strike(Rule {
        body_contains: Some("\"put\"".into()),
        ..Rule::always("kv", refusal(403, None))
    });
    let results = create_topics(&rig, 7, request(vec![creatable("t", 3, &[])])).await;
    assert_eq!(results[0].error_code, 29);
    let message = results[0].error_message.as_deref().expect("a message");
    assert!(message.contains("recorded"), "{message}");
    // A topic that is created by its first use holds nothing in its record, and works without.
    let first_use = metadata(
        &rig,
        12,
        by_name(&["u"]).with_allow_auto_topic_creation(true),
    )
    .await;
    assert_eq!(first_use.topics[0].error_code, 0);
}

#[tokio::test(start_paused = true)]
async fn a_client_that_goes_away_leaves_no_topic_half_made() {
    let rig = Rig::start().await;
    rig.strike(Rule::always(
        "configure",
        fake_queen::faults::Effect::DelayAfter { ms: 500 },
    ));
    let cx = rig.cx(7);
    let creating = tokio::spawn(async move {
        handlers::create_topics::handle(&cx, request(vec![creatable("t", 3, &[])])).await
    });
    tokio::time::sleep(std::time::Duration::from_millis(100)).await;
    creating.abort();
    tokio::time::sleep(std::time::Duration::from_secs(5)).await;
    assert_eq!(described(&rig.beside(), "t").await.partitions.len(), 3);
}

#[tokio::test(start_paused = true)]
async fn an_old_queen_creates_too() {
    for version in [Version::V1_4, Version::V1_5] {
        let options = Options {
            version,
            ..Options::default()
        };
        let rig = Rig::start_with(options, |_| {}).await;
        create(&rig, "t", 3, &[("retention.ms", "60000")]).await;
        assert_eq!(described(&rig, "t").await.partitions.len(), 3);
    }
}

#[tokio::test(start_paused = true)]
async fn a_name_that_stands_twice_is_refused_once() {
    let rig = Rig::start().await;
    for version in 2..=7 {
        let topics = ["twice", "once", "twice"].map(|name| creatable(name, 1, &[]));
        let results = create_topics(&rig, version, request(topics.into())).await;
        let told: Vec<(&str, i16)> = results
            .iter()
            .map(|result| (result.name.as_str(), result.error_code))
            .collect();
        let once = if version == 2 { 0 } else { 36 };
        assert_eq!(told, [("twice", 42), ("once", once)], "version {version}");
        // As Kafka: none, and not null.
        let configs = results[0].configs.as_ref().map(Vec::len);
        assert_eq!(configs, (version >= 5).then_some(0), "version {version}");
    }
    assert_eq!(described(&rig, "twice").await.error_code, 3);
}
