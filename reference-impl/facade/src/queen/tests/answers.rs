//! Bodies of successful answers, right and broken, on every route.

use rstest::rstest;
use wiremock::matchers::any;
use wiremock::{Mock, MockServer, ResponseTemplate};

use super::*;

async fn answering(body: &str) -> (MockServer, Client) {
    let server = MockServer::start().await;
    Mock::given(any())
        .respond_with(ResponseTemplate::new(200).set_body_string(body))
        .mount(&server)
        .await;
    let client = client_of(*server.address());
    (server, client)
}

#[rstest]
#[case::empty("")]
#[case::text("ok")]
#[case::page("<html></html>")]
#[case::null("null")]
#[case::number("1")]
#[case::string("\"x\"")]
#[case::cut("{\"queues\":[{\"name\":\"a")]
#[case::other_object(r#"{"configured":"yes","deleted":"yes","queues":{},"entries":{},"results":{},"acting_cluster":7,"status":[],"options":[]}"#)]
#[tokio::test]
async fn a_broken_answer_is_unreadable_on_every_route(#[case] body: &str) {
    let (_server, client) = answering(body).await;
    for route in Route::ALL {
        let error = route.call(&client, &Credential::default()).await;
        let error = error.unwrap_or_else(|| panic!("{route:?} read {body:?}"));
        assert!(matches!(error, Error::Unreadable(_)), "{route:?}: {error}");
        assert_eq!(error.effect(), Effect::Unknown, "{route:?}");
    }
}

#[tokio::test]
async fn a_queue_list_is_read_leniently() {
    let (_server, client) = answering(
        r#"{"queues":[
            {"id":"6f0e","name":"orders","partitions":3,"retainedBytes":9007199254740993,"segments":{"segments":1},"new":[]},
            {"name":"bare"},
            {"name":"nulls","id":null,"partitions":null,"retainedBytes":null}],"kvRows":5}"#,
    )
    .await;
    let queues = client
        .list_queues(&Credential::default())
        .await
        .expect("readable");
    let bare = |name: &str| Queue {
        name: name.into(),
        id: None,
        lanes: 0,
        retained_bytes: 0,
    };
    assert_eq!(
        queues,
        [
            Queue {
                name: "orders".into(),
                id: Some("6f0e".into()),
                lanes: 3,
                retained_bytes: 9_007_199_254_740_993,
            },
            bare("bare"),
            bare("nulls"),
        ]
    );
}

#[rstest]
#[case::refused(r#"{"configured":false,"queueId":"x"}"#)]
#[case::silent(r#"{"queueId":"x"}"#)]
#[case::error(r#"{"configured":true,"error":"no"}"#)]
#[tokio::test]
async fn configure_must_say_that_it_configured(#[case] body: &str) {
    let (_server, client) = answering(body).await;
    let error = Route::Configure
        .call(&client, &Credential::default())
        .await
        .expect("not configured");
    assert!(matches!(error, Error::Unreadable(_)), "{error}");
}

#[rstest]
#[case(r#"{"deleted":true,"queue":"q","existed":true}"#, true)]
#[case(
    r#"{"deleted":false,"queue":"q","existed":false,"message":"…"}"#,
    false
)]
#[tokio::test]
async fn delete_says_whether_there_was_one(#[case] body: &str, #[case] deleted: bool) {
    let (_server, client) = answering(body).await;
    let answer = client.delete_queue(&Credential::default(), "q").await;
    assert_eq!(answer.expect("readable"), deleted);
}

#[rstest]
#[case::standalone(
    r#"{"user_id":"standalone","acting_cluster":{"id":"local","slug":"local"}}"#,
    Some("local")
)]
#[case::trimmed(r#"{"acting_cluster":{"id":" 6f-0e.x_y:z "}}"#, Some("6f-0e.x_y:z"))]
#[case::no_cluster(r#"{"acting_cluster":null}"#, None)]
#[case::no_id(r#"{"acting_cluster":{}}"#, None)]
#[case::number(r#"{"acting_cluster":{"id":7}}"#, None)]
#[case::empty(r#"{"acting_cluster":{"id":"  "}}"#, None)]
#[case::illegal(r#"{"acting_cluster":{"id":"a/b"}}"#, None)]
#[tokio::test]
async fn a_tenant_is_named_or_not(#[case] body: &str, #[case] tenant: Option<&str>) {
    let (_server, client) = answering(body).await;
    let answer = client.auth_me(&Credential::default()).await;
    assert_eq!(answer.expect("readable").as_deref(), tenant);
}

#[tokio::test]
async fn a_tenant_id_is_at_most_128_characters() {
    for (length, kept) in [(128, true), (129, false)] {
        let body = format!(r#"{{"acting_cluster":{{"id":"{}"}}}}"#, "x".repeat(length));
        let (_server, client) = answering(&body).await;
        let answer = client.auth_me(&Credential::default()).await;
        assert_eq!(answer.expect("readable").is_some(), kept, "{length}");
    }
}

#[rstest]
#[case::healthy(r#"{"status":"healthy","version":"1.6.0"}"#, true, Some("1.6.0"))]
#[case::sick(r#"{"status":"unhealthy","version":"1.6.0"}"#, false, Some("1.6.0"))]
#[case::newer(r#"{"version":"2.7.1"}"#, true, Some("2.7.1"))]
#[tokio::test]
async fn health_has_a_version(
    #[case] body: &str,
    #[case] healthy: bool,
    #[case] version: Option<&str>,
) {
    let (_server, client) = answering(body).await;
    let health = client.health().await.expect("readable");
    assert_eq!(
        (health.healthy, health.version.as_deref()),
        (healthy, version)
    );
}

#[rstest]
#[case::found(r#"{"entries":[{"queue":"q","partition":"0","offset":5,"ts":"…","highWatermark":9,"logStartOffset":1}]}"#, LaneStatus::Ok, Some(5))]
#[case::none_yet(r#"{"entries":[{"queue":"q","partition":"0","offset":null,"highWatermark":9,"logStartOffset":1}]}"#, LaneStatus::Ok, None)]
#[case::unknown(r#"{"entries":[{"queue":"q","partition":"0","offset":null,"highWatermark":0,"logStartOffset":0,"error":"UNKNOWN_TOPIC_OR_PARTITION"}]}"#, LaneStatus::Unknown, None)]
#[tokio::test]
async fn offsets_by_time_are_read(
    #[case] body: &str,
    #[case] status: LaneStatus,
    #[case] offset: Option<i64>,
) {
    let (_server, client) = answering(body).await;
    let entry = OffsetsEntry {
        queue: "q",
        partition: 0,
        timestamp_ms: 7,
    };
    let found = client.fetch_offsets(&Credential::default(), &[entry]).await;
    let found = found.expect("readable").expect("supported");
    assert_eq!((found[0].status, found[0].offset), (status, offset));
}

#[tokio::test]
async fn lanes_are_listed_by_name() {
    let (_server, client) = answering(
        r#"{"safeTime":"…","safeTimeDegraded":false,"entries":[{"queue":"q","partitions":[
            {"name":"0","lastOffset":4,"logStart":0,"lastWriteAt":"…"},{"name":"Default"}],"next":{"k":"x"}}]}"#,
    )
    .await;
    let entry = ChangedEntry {
        queue: "q",
        after: None,
    };
    let pages = client
        .partitions_changed(&Credential::default(), &[entry])
        .await
        .expect("readable")
        .expect("supported");
    let names: Vec<&str> = pages[0]
        .lanes
        .iter()
        .map(|lane| lane.name.as_str())
        .collect();
    assert_eq!(names, ["0", "Default"]);
    let next = pages[0].next.as_ref().expect("more");
    assert_eq!(next.get(), r#"{"k":"x"}"#);
}

#[tokio::test]
async fn what_queen_would_refuse_whole_is_not_sent() {
    let (server, client) = answering("{}").await;
    let credential = Credential::default();
    let entry = FetchEntry {
        queue: "q",
        partition: 0,
        offset: 0,
        max_bytes: 1,
    };
    let negative = FetchEntry {
        offset: -1,
        ..entry
    };
    let wait = std::time::Duration::ZERO;
    for entries in [vec![entry; MAX_FETCH_ENTRIES + 1], vec![entry, negative]] {
        let error = client.fetch(&credential, &entries, wait, 1).await;
        assert!(matches!(error, Err(Error::Unsendable(_))));
    }
    let fetched = client.fetch(&credential, &[], wait, 1).await;
    assert!(fetched.expect("nothing asked for").is_empty());
    let done = client
        .kv(&credential, &kv::Batch::new(), Repeat::Safe)
        .await;
    assert!(matches!(done, Ok(kv::Outcome::Done(results)) if results.is_empty()));
    let mut riders = kv::Batch::new();
    for n in 0..=MAX_RIDER_OPERATIONS {
        riders.put_forever(&format!("qk:{n}"), &n).expect("fits");
    }
    let error = client.transaction(&credential, &[], &riders).await;
    assert!(matches!(error, Err(Error::Unsendable(_))));
    assert!(
        server
            .received_requests()
            .await
            .expect("recorded")
            .is_empty()
    );
}
