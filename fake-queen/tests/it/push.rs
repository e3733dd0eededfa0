//! `push`: offsets, results, deduplication (contract sections 4.1 to 4.3).

use serde_json::{Value, json};

use crate::world::World;

fn items(items: &[(&str, &str, Option<&str>)]) -> Value {
    let items: Vec<Value> = items
        .iter()
        .map(|(queue, lane, id)| match id {
            Some(id) => {
                json!({"queue": queue, "partition": lane, "payload": 1, "transactionId": id})
            }
            None => json!({"queue": queue, "partition": lane, "payload": 1}),
        })
        .collect();
    json!({ "items": items })
}

fn column(results: &Value, field: &str) -> Vec<Value> {
    let rows = results.as_array().unwrap();
    rows.iter().map(|row| row[field].clone()).collect()
}

#[tokio::test(start_paused = true)]
async fn offsets_count_per_lane_from_zero_without_gaps() {
    let client = World::default().await.client;
    let results = client
        .post(
            "push",
            201,
            items(&[
                ("q", "0", None),
                ("q", "1", None),
                ("q", "0", None),
                ("r", "0", None),
            ]),
        )
        .await;
    assert_eq!(column(&results, "index"), [0, 1, 2, 3]);
    assert_eq!(column(&results, "offset"), [0, 0, 1, 0]);
    assert_eq!(column(&results, "status"), vec!["queued"; 4]);
    assert_eq!(column(&results, "queueName"), ["q", "q", "q", "r"]);
    let again = client.post("push", 201, items(&[("q", "0", None)])).await;
    assert_eq!(again[0]["offset"], 2);
}

#[tokio::test(start_paused = true)]
async fn ids_are_minted_as_uuid_v7_and_distinct() {
    let client = World::default().await.client;
    let results = client
        .post("push", 201, items(&[("q", "0", None), ("q", "0", None)]))
        .await;
    let ids = column(&results, "message_id");
    assert_ne!(ids[0], ids[1]);
    for id in ids {
        let id: uuid::Uuid = id.as_str().unwrap().parse().unwrap();
        assert_eq!(id.get_version_num(), 7);
    }
}

#[tokio::test(start_paused = true)]
async fn a_transaction_id_is_appended_once_per_lane_within_the_window() {
    let client = World::default().await.client;
    let first = client
        .post(
            "push",
            201,
            items(&[("q", "0", Some("a-1")), ("q", "0", Some("a-2"))]),
        )
        .await;
    let again = client
        .post(
            "push",
            201,
            items(&[
                ("q", "0", Some("a-2")),
                ("q", "0", Some("a-3")),
                ("q", "0", Some("a-3")),
                ("q", "1", Some("a-1")),
            ]),
        )
        .await;
    assert_eq!(
        column(&again, "status"),
        ["duplicate", "queued", "duplicate", "queued"]
    );
    assert_eq!(column(&again, "offset"), [1, 2, 2, 0]);
    assert_eq!(again[0]["message_id"], first[1]["message_id"]);
    assert_eq!(again[2]["message_id"], again[1]["message_id"]);
    assert_eq!(client.fetch("q", "0", 0).await["highWatermark"], 3);

    // The default window is an hour.
    tokio::time::advance(std::time::Duration::from_secs(3601)).await;
    let late = client
        .post("push", 201, items(&[("q", "0", Some("a-1"))]))
        .await;
    assert_eq!(late[0]["status"], "queued");
}

#[tokio::test(start_paused = true)]
async fn a_window_of_zero_is_off() {
    let client = World::default().await.client;
    client
        .post(
            "configure",
            200,
            json!({"queue": "q", "dedupWindowSeconds": 0}),
        )
        .await;
    let results = client
        .post(
            "push",
            201,
            items(&[("q", "0", Some("a")), ("q", "0", Some("a"))]),
        )
        .await;
    assert_eq!(column(&results, "status"), ["queued", "queued"]);
}

#[tokio::test(start_paused = true)]
async fn bodies_of_another_shape_are_refused() {
    let client = World::default().await.client;
    assert_eq!(
        client.post("push", 201, json!({"items": []})).await,
        json!([])
    );
    for body in [
        json!({}),
        json!({"items": [{"queue": "q"}]}),
        json!({"items": [{"queue": "q", "data": 1}]}),
        json!({"items": [{"partition": "0", "payload": 1}]}),
    ] {
        let error = client.post("push", 400, body).await;
        assert!(error["error"].as_str().unwrap().starts_with("bad body:"));
    }
    let answer = client.try_call("POST", "/api/v1/push", "{").await.unwrap();
    assert_eq!(answer.status, 400);
}

#[tokio::test(start_paused = true)]
async fn an_item_whose_queue_name_is_too_long_is_an_error_of_its_own() {
    let client = World::default().await.client;
    let long = "q".repeat(256);
    let results = client
        .post("push", 201, items(&[(&long, "0", None), ("q", "0", None)]))
        .await;
    assert_eq!(column(&results, "status"), ["error", "queued"]);
    assert!(results[0].get("offset").is_none());
}

#[tokio::test(start_paused = true)]
async fn names_and_payloads_come_back_as_they_went_in() {
    let client = World::default().await.client;
    let (queue, lane) = ("näme \"q\"\n", "\\lane\u{1}");
    let payload = json!({"é\n": [1.5e300, 18_446_744_073_709_551_615_u64, null, "\u{0}\""]});
    client.push(queue, lane, payload.clone()).await;
    let entry = client.fetch(queue, lane, 0).await;
    assert_eq!(entry["queue"], queue);
    assert_eq!(entry["partition"], lane);
    assert_eq!(entry["records"][0]["payload"], payload);
}
