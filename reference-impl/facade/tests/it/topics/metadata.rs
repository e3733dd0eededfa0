//! Metadata: what is listed, created, refused and remembered.

use std::time::Duration;

use fake_queen::faults::{Effect, Rule};
use fake_queen::{Options, Version};
use rstest::rstest;
use uuid::Uuid;

use super::*;

const NONE: i16 = 0;
const UNKNOWN: i16 = 3;
const NOT_YET: i16 = 5;
const ILLEGAL: i16 = 17;
const DENIED: i16 = 29;
const INVALID_REQUEST: i16 = 42;
const UNKNOWN_ID: i16 = 100;

fn all() -> MetadataRequest {
    MetadataRequest::default().with_topics(None)
}

#[tokio::test(start_paused = true)]
async fn every_version_lists_and_carries_the_answer() {
    let rig = Rig::start().await;
    create(&rig, "a", 3, &[]).await;
    create(&rig, "b", 1, &[]).await;
    for version in 0..=13 {
        let request = if version == 0 {
            MetadataRequest::default()
        } else {
            all()
        };
        let response = metadata(&rig, version, request).await;
        assert_eq!(names_of(&response), ["a", "b"], "version {version}");
        let topic = &response.topics[0];
        assert_eq!((topic.error_code, topic.partitions.len()), (NONE, 3));
        assert!(!topic.topic_id.is_nil());
        let partition = &topic.partitions[2];
        assert_eq!((partition.partition_index, partition.leader_id.0), (2, 0));
        assert_eq!(partition.leader_epoch, -1);
        assert_eq!(response.brokers.len(), 1);
        assert_eq!(response.brokers[0].host.as_str(), "kafka.example");
        assert_eq!(response.cluster_id.as_deref(), Some("queen"));
        let refused = metadata(&rig, version, by_name(&["__x", "a b"])).await;
        if version >= 4 {
            let codes: Vec<i16> = refused
                .topics
                .iter()
                .map(|topic| topic.error_code)
                .collect();
            assert_eq!(codes, [UNKNOWN, ILLEGAL], "version {version}");
        }
    }
    let none = metadata(&rig, 1, MetadataRequest::default()).await;
    assert!(none.topics.is_empty(), "from version 1 on, empty is none");
}

#[rstest]
#[case::client_refuses(4, false, true, UNKNOWN)]
#[case::client_allows(4, true, true, NONE)]
#[case::client_cannot_refuse(3, false, true, NONE)]
#[case::broker_refuses(4, true, false, UNKNOWN)]
#[case::broker_refuses_old_clients(3, true, false, UNKNOWN)]
#[tokio::test(start_paused = true)]
async fn a_topic_is_created_when_both_sides_allow_it(
    #[case] version: i16,
    #[case] client: bool,
    #[case] broker: bool,
    #[case] code: i16,
) {
    let rig = Rig::start_with(Options::default(), |config| config.auto_create = broker).await;
    let request = by_name(&["fresh"]).with_allow_auto_topic_creation(client);
    let response = metadata(&rig, version, request).await;
    assert_eq!(response.topics[0].error_code, code);
    let rows = rig.rows("qk:topiccfg:").await;
    if code == NONE {
        assert_eq!(response.topics[0].partitions.len(), 1024);
        let (key, row) = &rows[0];
        assert_eq!(key, "qk:topiccfg:fresh");
        let id = described(&rig, "fresh").await.topic_id.to_string();
        assert_eq!(row["qid"], json!(id));
        assert_eq!(row["partitions"], json!(null));
        let listed = metadata(&rig.beside(), 12, all()).await;
        assert_eq!(names_of(&listed), ["fresh"]);
    } else {
        assert!(rows.is_empty());
        assert!(metadata(&rig, 12, all()).await.topics.is_empty());
    }
}

#[tokio::test(start_paused = true)]
async fn one_request_creates_a_hundred_and_the_next_one_the_rest() {
    let rig = Rig::start().await;
    let names: Vec<String> = (0..103).map(|n| format!("t{n:03}")).collect();
    let names: Vec<&str> = names.iter().map(String::as_str).collect();
    let request = || by_name(&names).with_allow_auto_topic_creation(true);
    let codes = |response: MetadataResponse| -> Vec<i16> {
        response
            .topics
            .iter()
            .map(|topic| topic.error_code)
            .collect()
    };
    let first = codes(metadata(&rig, 12, request()).await);
    assert_eq!(first[..100], [NONE; 100]);
    assert_eq!(first[100..], [NOT_YET; 3]);
    assert_eq!(codes(metadata(&rig, 12, request()).await), [NONE; 103]);
}

#[tokio::test(start_paused = true)]
async fn a_name_is_answered_once_and_in_order() {
    let rig = Rig::start().await;
    create(&rig, "b", 1, &[]).await;
    let response = metadata(&rig, 12, by_name(&["b", "a", "b", "a"])).await;
    assert_eq!(names_of(&response), ["b", "a"]);
}

#[tokio::test(start_paused = true)]
async fn a_topic_is_found_by_its_id() {
    let rig = Rig::start().await;
    create(&rig, "a", 1, &[]).await;
    let id = described(&rig, "a").await.topic_id;
    let ask = |id: Uuid| {
        let topic = MetadataRequestTopic::default()
            .with_name(None)
            .with_topic_id(id);
        MetadataRequest::default().with_topics(Some(vec![topic]))
    };
    let found = metadata(&rig, 12, ask(id)).await;
    assert_eq!(names_of(&found), ["a"]);
    let unknown = metadata(&rig, 12, ask(Uuid::from_u128(7))).await;
    assert_eq!(unknown.topics[0].error_code, UNKNOWN_ID);
    assert_eq!(unknown.topics[0].name, None);
    assert_eq!(unknown.topics[0].topic_id, Uuid::from_u128(7));
    let nothing = metadata(&rig, 12, ask(Uuid::nil())).await;
    assert_eq!(nothing.topics[0].error_code, INVALID_REQUEST);
    // Versions 10 and 11 carry ids, but brokers answer them from 12 on.
    let early = metadata(&rig, 11, ask(id)).await;
    assert_eq!(early.topics[0].error_code, INVALID_REQUEST);
}

#[tokio::test(start_paused = true)]
async fn a_native_queue_is_visible_within_three_seconds() {
    let rig = Rig::start().await;
    assert!(metadata(&rig, 12, all()).await.topics.is_empty());
    rig.native_queue("native", json!({})).await;
    rig.native_queue("__hidden", json!({})).await;
    rig.native_queue("not a topic", json!({})).await;
    assert_eq!(described(&rig, "native").await.error_code, UNKNOWN);
    tokio::time::sleep(Duration::from_secs(3)).await;
    let topic = described(&rig, "native").await;
    assert_eq!((topic.error_code, topic.partitions.len()), (NONE, 1024));
    assert_eq!(names_of(&metadata(&rig, 12, all()).await), ["native"]);
}

#[rstest]
#[case::names_are_read(Version::V1_6, 5001)]
#[case::lanes_are_counted(Version::V1_4, 12)]
#[tokio::test(start_paused = true)]
async fn the_width_is_the_highest_lane_or_the_floor(
    #[case] version: Version,
    #[case] width: usize,
) {
    let options = Options {
        version,
        ..Options::default()
    };
    let rig = Rig::start_with(options, |_| {}).await;
    create(&rig, "t", 12, &[]).await;
    assert_eq!(described(&rig, "t").await.partitions.len(), 12);
    rig.push_native("t", "Default").await;
    rig.push_native("t", "5000").await;
    rig.push_native("t", "00009000").await;
    tokio::time::sleep(Duration::from_secs(3)).await;
    assert_eq!(described(&rig, "t").await.partitions.len(), width);
}

#[tokio::test(start_paused = true)]
async fn lanes_beyond_the_floor_widen_a_topic_of_an_old_queen() {
    let options = Options {
        version: Version::V1_4,
        ..Options::default()
    };
    let rig = Rig::start_with(options, |_| {}).await;
    create(&rig, "t", 2, &[]).await;
    for lane in 0..5 {
        rig.push("t", lane).await;
    }
    tokio::time::sleep(Duration::from_secs(3)).await;
    assert_eq!(described(&rig, "t").await.partitions.len(), 5);
}

#[rstest]
#[case::throttled(429, 7000)]
#[case::away(503, 0)]
#[case::broken(500, 0)]
#[tokio::test(start_paused = true)]
async fn while_queen_is_away_the_last_list_answers(#[case] status: u16, #[case] throttle_ms: i32) {
    let rig = Rig::start().await;
    create(&rig, "seen", 2, &[]).await;
    tokio::time::sleep(Duration::from_secs(4)).await;
    if status == 429 {
        rig.throttle("queue_list", 7);
    } else {
        rig.refuse("queue_list", status);
    }
    let response = metadata(&rig, 12, by_name(&["seen", "new"])).await;
    let codes: Vec<i16> = response
        .topics
        .iter()
        .map(|topic| topic.error_code)
        .collect();
    assert_eq!(codes, [NONE, NOT_YET]);
    assert_eq!(response.throttle_time_ms, throttle_ms);
    assert_eq!(names_of(&metadata(&rig, 12, all()).await), ["seen"]);
    rig.heal();
    tokio::time::sleep(Duration::from_secs(4)).await;
    let response = metadata(&rig, 12, by_name(&["new"])).await;
    assert_eq!(response.topics[0].error_code, UNKNOWN);
    assert_eq!(response.throttle_time_ms, 0);
}

#[tokio::test(start_paused = true)]
async fn without_any_list_a_listing_is_empty_and_a_name_is_not_yet() {
    let rig = Rig::start().await;
    rig.refuse("queue_list", 502);
    let listing = metadata(&rig, 13, all()).await;
    assert_eq!((listing.topics.len(), listing.error_code), (0, NONE));
    let named = metadata(
        &rig,
        12,
        by_name(&["t"]).with_allow_auto_topic_creation(true),
    )
    .await;
    assert_eq!(named.topics[0].error_code, NOT_YET);
}

#[rstest]
#[case(401)]
#[case(403)]
#[tokio::test(start_paused = true)]
async fn a_refused_credential_sees_nothing(#[case] status: u16) {
    let rig = Rig::start().await;
    create(&rig, "t", 1, &[]).await;
    tokio::time::sleep(Duration::from_secs(4)).await;
    rig.refuse("queue_list", status);
    assert_eq!(described(&rig, "t").await.error_code, DENIED);
    assert!(metadata(&rig, 12, all()).await.topics.is_empty());
}

#[tokio::test(start_paused = true)]
async fn a_topic_whose_record_is_not_read_yet_is_not_served_at_a_wrong_width() {
    let rig = Rig::start().await;
    create(&rig, "t", 3, &[]).await;
    let other = rig.beside();
    rig.refuse("kv", 503);
    assert_eq!(described(&other, "t").await.error_code, NOT_YET);
    assert!(metadata(&other, 12, all()).await.topics.is_empty());
    rig.heal();
    tokio::time::sleep(Duration::from_secs(4)).await;
    assert_eq!(described(&other, "t").await.partitions.len(), 3);
}

#[tokio::test(start_paused = true)]
async fn a_credential_that_may_not_read_records_gets_the_default_width() {
    let rig = Rig::start().await;
    create(&rig, "t", 3, &[]).await;
    let other = rig.beside();
    rig.refuse("kv", 403);
    let topic = described(&other, "t").await;
    assert_eq!((topic.error_code, topic.partitions.len()), (NONE, 1024));
}

#[tokio::test(start_paused = true)]
async fn a_fleet_of_readers_costs_one_call() {
    let rig = Rig::start().await;
    rig.strike(Rule::always("queue_list", Effect::Delay { ms: 200 }));
    let readers: Vec<_> = (0..100)
        .map(|_| {
            let cx = rig.cx(12);
            tokio::spawn(async move { ask(&cx, all()).await })
        })
        .collect();
    for reader in readers {
        reader.await.expect("answered");
    }
    assert_eq!(rig.counted("queue_list"), 1);
    metadata(&rig, 12, all()).await;
    assert_eq!(rig.counted("queue_list"), 1, "kept for three seconds");
    tokio::time::sleep(Duration::from_secs(3)).await;
    metadata(&rig, 12, all()).await;
    assert_eq!(rig.counted("queue_list"), 2);
}

#[tokio::test(start_paused = true)]
async fn a_crowd_that_names_a_new_topic_creates_it_once() {
    let rig = Rig::start().await;
    metadata(&rig, 12, all()).await;
    rig.count("configure");
    rig.count("queue_list");
    let crowd: Vec<_> = (0..100)
        .map(|_| {
            let cx = rig.cx(12);
            let request = by_name(&["fresh"]).with_allow_auto_topic_creation(true);
            tokio::spawn(async move { ask(&cx, request).await })
        })
        .collect();
    for one in crowd {
        let response = one.await.expect("answered");
        assert_eq!(response.topics[0].error_code, NONE);
    }
    assert_eq!(rig.counted("configure"), 1);
    assert_eq!(
        rig.counted("queue_list"),
        2,
        "before and after the creation"
    );
}

#[tokio::test(start_paused = true)]
async fn a_slow_queen_keeps_nobody_waiting_who_can_be_served() {
    let rig = Rig::start().await;
    create(&rig, "t", 2, &[]).await;
    tokio::time::sleep(Duration::from_secs(4)).await;
    rig.strike(Rule::always("queue_list", Effect::Delay { ms: 8000 }));
    let started = tokio::time::Instant::now();
    assert_eq!(described(&rig, "t").await.error_code, NONE);
    assert_eq!(started.elapsed(), Duration::from_secs(1));
}

#[tokio::test(start_paused = true)]
async fn a_listing_stops_before_200_000_partitions() {
    let rig = Rig::start().await;
    for (name, width) in [("a", 100_000), ("b", 99_999), ("c", 100), ("d", 1)] {
        create(&rig, name, width, &[]).await;
    }
    let listing = metadata(&rig, 12, all()).await;
    assert_eq!(names_of(&listing), ["a", "b", "d"]);
    assert_eq!(described(&rig, "c").await.partitions.len(), 100);
}
