//! DeleteTopics: by name and by id, and what must not survive a topic.

use std::time::Duration;

use facade::queen::kv;
use fake_queen::Options;
use fake_queen::faults::{Effect, Rule};
use kafka_protocol::messages::DeleteTopicsRequest;
use kafka_protocol::messages::delete_topics_request::DeleteTopicState;
use kafka_protocol::messages::delete_topics_response::DeletableTopicResult;
use rstest::rstest;
use uuid::Uuid;

use super::*;

fn named(version: i16, names: &[&str]) -> DeleteTopicsRequest {
    if version >= 6 {
        let topics = names
            .iter()
            .map(|name| DeleteTopicState::default().with_name(Some(topic_name(name))));
        DeleteTopicsRequest::default().with_topics(topics.collect())
    } else {
        let names = names.iter().map(|name| topic_name(name));
        DeleteTopicsRequest::default().with_topic_names(names.collect())
    }
}

async fn delete(
    rig: &Rig,
    version: i16,
    request: DeleteTopicsRequest,
) -> Vec<DeletableTopicResult> {
    let response = handlers::delete_topics::handle(&rig.cx(version), request).await;
    encodable(response, version).responses
}

fn codes(results: &[DeletableTopicResult]) -> Vec<i16> {
    results.iter().map(|result| result.error_code).collect()
}

#[tokio::test(start_paused = true)]
async fn every_version_deletes_and_carries_the_answer() {
    let rig = Rig::start().await;
    for version in 1..=6 {
        create(&rig, "t", 1, &[]).await;
        let id = described(&rig, "t").await.topic_id;
        let results = delete(&rig, version, named(version, &["t", "absent"])).await;
        assert_eq!(codes(&results), [0, 3], "version {version}");
        assert_eq!(results[0].topic_id, id);
        assert_eq!(described(&rig, "t").await.error_code, 3);
    }
}

#[tokio::test(start_paused = true)]
async fn a_topic_is_deleted_by_its_id() {
    let rig = Rig::start().await;
    create(&rig, "t", 1, &[]).await;
    let id = described(&rig, "t").await.topic_id;
    let state = |name: Option<&str>, id| {
        DeleteTopicState::default()
            .with_name(name.map(topic_name))
            .with_topic_id(id)
    };
    let request = DeleteTopicsRequest::default().with_topics(vec![
        state(None, Uuid::from_u128(9)),
        state(Some("t"), id),
        state(None, Uuid::nil()),
        state(None, id),
    ]);
    let results = delete(&rig, 6, request).await;
    assert_eq!(codes(&results), [100, 42, 42, 0]);
    assert_eq!(results[0].name, None);
    assert_eq!(results[3].name, Some(topic_name("t")));
}

#[tokio::test(start_paused = true)]
async fn nothing_of_a_deleted_topic_is_left_for_the_next_of_its_name() {
    let rig = Rig::start().await;
    create(&rig, "t", 12, &[]).await;
    create(&rig, "t-2", 12, &[]).await;
    let groups = ["g", "a group", "g:t"];
    for group in groups {
        let group = kv::escape(group);
        rig.put_row(
            &format!("qk:groups:{group}"),
            &json!({"pt": "consumer", "ts": 1}),
        )
        .await;
        for topic in ["t", "t-2"] {
            for partition in 0..12 {
                let key = format!("qk:group:{group}:{topic}:{partition}");
                rig.put_row(&key, &json!({"offset": 5, "metadata": "", "ts": 1}))
                    .await;
            }
        }
    }
    rig.put_row("qk:floor:t:3", &json!({"offset": 5})).await;
    rig.put_row("qk:floor:t-2:3", &json!({"offset": 5})).await;
    let old = described(&rig, "t").await.topic_id;

    assert_eq!(codes(&delete(&rig, 6, named(6, &["t"])).await), [0]);

    let rows = rig.rows("qk:group:").await;
    assert_eq!(rows.len(), groups.len() * 12);
    assert!(rows.iter().all(|(key, _)| key.contains(":t-2:")));
    let floors = rig.rows("qk:floor:").await;
    assert_eq!(floors.len(), 1);
    assert_eq!(rig.rows("qk:topiccfg:").await[0].0, "qk:topiccfg:t-2");
    assert_eq!(rig.rows("qk:groups:").await.len(), groups.len());

    create(&rig, "t", 3, &[]).await;
    let topic = described(&rig, "t").await;
    assert_ne!(topic.topic_id, old);
    assert_eq!(topic.partitions.len(), 3);
}

#[rstest]
#[case(6, 73)]
#[case(3, 73)]
#[case(2, 42)]
#[tokio::test(start_paused = true)]
async fn deletion_can_be_switched_off(#[case] version: i16, #[case] expected: i16) {
    let rig = Rig::start_with(Options::default(), |config| config.admin = false).await;
    create(&rig, "t", 1, &[]).await;
    assert_eq!(
        codes(&delete(&rig, version, named(version, &["t"])).await),
        [expected]
    );
    assert_eq!(described(&rig, "t").await.error_code, 0);
}

#[rstest]
#[case::denied(403, 6, 29)]
#[case::throttled(429, 6, 89)]
#[case::throttled_old(429, 4, 7)]
#[case::away(503, 6, 7)]
#[tokio::test(start_paused = true)]
async fn a_refusal_of_queen_reaches_the_client(
    #[case] status: u16,
    #[case] version: i16,
    #[case] expected: i16,
) {
    let rig = Rig::start().await;
    create(&rig, "t", 1, &[]).await;
    rig.refuse("queue_delete", status);
    let results = delete(&rig, version, named(version, &["t"])).await;
    assert_eq!(codes(&results), [expected]);
    rig.heal();
    assert_eq!(described(&rig, "t").await.error_code, 0);
}

#[tokio::test(start_paused = true)]
async fn one_request_deletes_a_hundred() {
    let rig = Rig::start().await;
    let names: Vec<String> = (0..101).map(|n| format!("t{n:03}")).collect();
    let names: Vec<&str> = names.iter().map(String::as_str).collect();
    for some in names.chunks(100) {
        let topics = some.iter().map(|name| creatable(name, 1, &[])).collect();
        create_topics(&rig, 7, CreateTopicsRequest::default().with_topics(topics)).await;
    }
    let results = codes(&delete(&rig, 6, named(6, &names)).await);
    assert_eq!(results[..100], [0; 100]);
    assert_eq!(results[100], 89);
}

/// Lets the next call of `route` whose body holds `text` wait so long before it is done.
fn held_up(route: &str, text: &str, skip: u64) -> Rule {
    Rule {
        body_contains: (!text.is_empty()).then(|| text.to_owned()),
        skip,
        ..Rule::once(route, Effect::Delay { ms: 5_000 })
    }
}

async fn a_moment() {
    tokio::time::sleep(Duration::from_secs(1)).await;
}

#[tokio::test(start_paused = true)]
async fn a_deletion_that_takes_long_holds_up_nobody_else() {
    let rig = Rig::start().await;
    for name in ["t", "u"] {
        create(&rig, name, 1, &[]).await;
    }
    let old = described(&rig, "t").await.topic_id;
    rig.strike(held_up("queue_delete", "", 0));
    let deletion = delete(&rig, 6, named(6, &["t"]));
    let meanwhile = async {
        a_moment().await;
        let began = tokio::time::Instant::now();
        create(&rig, "other", 1, &[]).await;
        assert_eq!(codes(&delete(&rig, 6, named(6, &["u"])).await), [0]);
        // The same name: neither made nor deleted meanwhile, and its client is told why.
        let again = CreateTopicsRequest::default().with_topics(vec![creatable("t", 1, &[])]);
        let again = create_topics(&rig, 7, again).await.remove(0);
        assert_eq!(again.error_code, 36);
        let message = again.error_message.as_deref().expect("a message");
        assert!(message.contains("marked for deletion"), "{message}");
        assert_eq!(codes(&delete(&rig, 6, named(6, &["t"])).await), [7]);
        assert!(
            began.elapsed() < Duration::from_secs(1),
            "{:?}",
            began.elapsed()
        );
    };
    let (deleted, ()) = tokio::join!(deletion, meanwhile);
    assert_eq!(codes(&deleted), [0]);
    create(&rig, "t", 1, &[]).await;
    assert_ne!(described(&rig, "t").await.topic_id, old);
}

#[tokio::test(start_paused = true)]
async fn a_topic_made_anew_is_not_deleted_for_the_old_one() {
    let rig = Rig::start().await;
    create(&rig, "t", 1, &[]).await;
    let old = described(&rig, "t").await.topic_id;
    // The request is resolved by the first list; the second is held up.
    rig.strike(held_up("queue_list", "", 1));
    let by_id = DeleteTopicsRequest::default()
        .with_topics(vec![DeleteTopicState::default().with_topic_id(old)]);
    let other = rig.beside();
    let made_anew = async {
        a_moment().await;
        assert_eq!(codes(&delete(&other, 6, named(6, &["t"])).await), [0]);
        create(&other, "t", 7, &[]).await;
    };
    let (deleted, ()) = tokio::join!(delete(&rig, 6, by_id), made_anew);
    assert_eq!(codes(&deleted), [3]);
    let topic = described(&rig, "t").await;
    assert_eq!((topic.error_code, topic.partitions.len()), (0, 7));
    assert_ne!(topic.topic_id, old);
}

#[rstest]
#[case::before_anything_is_found("kv", "qk:topiccfg:t")]
#[case::before_the_rows_are_deleted("kv", "\"delete\"")]
#[tokio::test(start_paused = true)]
async fn what_belongs_to_a_topic_made_anew_is_not_swept(#[case] route: &str, #[case] text: &str) {
    let rig = Rig::start().await;
    create(&rig, "t", 1, &[]).await;
    rig.put_row("qk:groups:g", &json!({"pt": "consumer", "ts": 1}))
        .await;
    let (committed, floor) = ("qk:group:g:t:0", "qk:floor:t:0");
    for key in [committed, floor] {
        rig.put_row(key, &json!({"offset": 5, "metadata": "", "ts": 1}))
            .await;
    }
    rig.strike(held_up(route, text, 0));
    let other = rig.beside();
    let made_anew = async {
        a_moment().await;
        create(&other, "t", 7, &[]).await;
        for key in [committed, floor] {
            other
                .put_row(key, &json!({"offset": 2, "metadata": "", "ts": 1}))
                .await;
        }
    };
    let (deleted, ()) = tokio::join!(delete(&rig, 6, named(6, &["t"])), made_anew);
    assert_eq!(codes(&deleted), [0]);
    assert_eq!(described(&rig.beside(), "t").await.partitions.len(), 7);
    for key in [committed, floor] {
        assert_eq!(rig.rows(key).await[0].1["offset"], 2, "{key}");
    }
}

#[tokio::test(start_paused = true)]
async fn a_topic_that_is_asked_for_twice_is_refused_once() {
    let rig = Rig::start().await;
    create(&rig, "t", 1, &[]).await;
    let id = described(&rig, "t").await.topic_id;
    for version in 1..=6 {
        let results = delete(&rig, version, named(version, &["t", "absent", "t"])).await;
        assert_eq!(codes(&results), [42, 3], "version {version}");
    }
    let by_id = DeleteTopicState::default().with_topic_id(id);
    let request = DeleteTopicsRequest::default().with_topics(vec![by_id.clone(), by_id]);
    assert_eq!(codes(&delete(&rig, 6, request).await), [42]);
    assert_eq!(
        described(&rig, "t").await.error_code,
        0,
        "nothing is deleted"
    );
}
