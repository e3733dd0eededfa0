//! Queues: list, detail, configure, delete (contract section 3).

use serde_json::{Value, json};

use crate::world::World;

#[tokio::test(start_paused = true)]
async fn the_list_is_newest_first_and_counts_lanes_that_exist() {
    let client = World::default().await.client;
    for queue in ["a", "b.c"] {
        client
            .post("configure", 200, json!({ "queue": queue }))
            .await;
    }
    client.push("a", "5", json!("x")).await;
    client.push("a", "5", json!("y")).await;
    let list = client.get("resources/queues").await;
    let (b, a) = (&list["queues"][0], &list["queues"][1]);
    assert_eq!((&b["name"], &b["partitions"]), (&json!("b.c"), &json!(0)));
    assert_eq!((&b["namespace"], &b["task"]), (&json!("b"), &json!("c")));
    assert_eq!((&a["name"], &a["partitions"]), (&json!("a"), &json!(1)));
    assert_eq!(a["createdAt"], "2023-11-14T22:13:20.000Z");
    assert_eq!(a["segments"], json!({"segments": 2, "messages": 2}));
    assert_eq!(
        a["messages"],
        json!({"total": 2, "pending": 2, "processing": 0})
    );
    assert!(a["retainedBytes"].as_u64().unwrap() > 0);
}

#[tokio::test(start_paused = true)]
async fn detail_shows_all_21_options() {
    let client = World::default().await.client;
    client.push("orders.eu", "0", json!(1)).await;
    let detail = client.get("resources/queues/orders.eu").await;
    let options = detail["options"].as_object().unwrap();
    assert_eq!(options.len(), 21);
    assert_eq!(options["leaseTime"], 60);
    assert_eq!(options["namespace"], "orders");
    let missing = client
        .call("GET", "/api/v1/resources/queues/nope", &Value::Null)
        .await;
    assert_eq!(
        (missing.status, missing.json()),
        (404, json!({"error": "Queue not found"}))
    );
    let status = client.get("status/queues/orders.eu").await;
    assert_eq!(
        status["config"],
        json!({"leaseTime": 60, "retryLimit": 3, "retryDelay": 1000, "ttl": 3600,
            "maxQueueSize": 0, "deadLetterQueue": true})
    );
    assert_eq!(
        client.get("resources/queues/orders.eu/depth").await["depth"],
        1
    );
}

#[tokio::test(start_paused = true)]
async fn configure_merges_and_replaces() {
    let client = World::default().await.client;
    let made = client
        .post(
            "configure",
            200,
            json!({"queue": "q", "retentionSeconds": 7, "ttl": 9}),
        )
        .await;
    assert_eq!(made["configured"], true);
    assert_eq!(made["partitionId"], json!(null));
    assert_eq!(made["storage"], "segments");
    assert_eq!(made["options"].as_object().unwrap().len(), 19);
    let id = &made["queueId"];

    let merged = client
        .post(
            "configure",
            200,
            json!({"queue": "q", "options": {"ttl": null, "leaseTime": 1}}),
        )
        .await;
    assert_eq!(merged["queueId"], *id);
    assert_eq!(merged["options"]["retentionSeconds"], 7);
    assert_eq!(merged["options"]["ttl"], 3600);
    assert_eq!(merged["options"]["leaseTime"], 1);

    let replaced = client
        .post(
            "configure",
            200,
            json!({"queue": "q", "mode": "replace", "ttl": 5}),
        )
        .await;
    assert_eq!(replaced["options"]["retentionSeconds"], 0);
    assert_eq!(replaced["options"]["leaseTime"], 300);
    assert_eq!(replaced["options"]["ttl"], 5);

    client
        .post("configure", 400, json!({"queue": "q", "mode": "patch"}))
        .await;
    client
        .post("configure", 400, json!({"queue": "q", "mode": 1}))
        .await;
    client
        .post("configure", 400, json!({"mode": "merge"}))
        .await;
    let refused = client
        .post(
            "configure",
            400,
            json!({"queue": "q", "retentionSinkHold": "a b"}),
        )
        .await;
    assert_eq!(refused["invalid"], "retentionSinkHold");
    let failed = client
        .post("configure", 500, json!({"queue": "q", "ttl": []}))
        .await;
    assert!(
        failed["error"]
            .as_str()
            .unwrap()
            .starts_with("configure failed: ")
    );
}

#[tokio::test(start_paused = true)]
async fn delete_answers_200_and_a_recreated_queue_is_another() {
    let client = World::default().await.client;
    client.push("q/1", "0", json!(1)).await;
    let row = json!([{"op": "put", "ns": "queen-kafka", "key": "qk:topiccfg:q", "value": 1, "forever": true}]);
    client.post("kv", 200, row).await;
    let id = client.get("resources/queues").await["queues"][0]["id"].clone();
    let delete = || async {
        let answer = client
            .call("DELETE", "/api/v1/resources/queues/q%2F1", &Value::Null)
            .await;
        (answer.status, answer.json())
    };
    assert_eq!(
        delete().await,
        (
            200,
            json!({"deleted": true, "queue": "q/1", "existed": true})
        )
    );
    let (status, body) = delete().await;
    assert_eq!(
        (status, &body["deleted"], &body["existed"]),
        (200, &json!(false), &json!(false))
    );
    assert!(body["message"].is_string());
    assert_eq!(
        client.fetch("q/1", "0", 0).await["error"],
        "UNKNOWN_TOPIC_OR_PARTITION"
    );

    assert_eq!(client.push("q/1", "0", json!(2)).await["offset"], 0);
    let list = client.get("resources/queues").await;
    assert_ne!(list["queues"][0]["id"], id);
    assert_eq!(list["kvRows"], 1);
}

#[tokio::test(start_paused = true)]
async fn lanes_are_found_by_name() {
    let client = World::default().await.client;
    for lane in ["b", "a", "0"] {
        client.push("q", lane, json!(1)).await;
    }
    let body = json!({"entries": [{"queue": "q", "limit": 2}, {"queue": "nope"},
        {"queue": "q", "after": "a"}, {"queue": "q", "since": "never"}]});
    let entries = client.post("partitions/changed", 200, body).await["entries"].clone();
    let names = |entry: &Value| -> Vec<Value> {
        let lanes = entry["partitions"].as_array().unwrap();
        lanes.iter().map(|lane| lane["name"].clone()).collect()
    };
    assert_eq!(
        (names(&entries[0]), &entries[0]["next"]),
        (vec![json!("0"), json!("a")], &json!("a"))
    );
    assert_eq!(entries[1]["error"], "UNKNOWN_TOPIC_OR_PARTITION");
    assert_eq!(
        (names(&entries[2]), &entries[2]["next"]),
        (vec![json!("b")], &json!(null))
    );
    assert_eq!(entries[3]["error"], "BAD_CURSOR");
}
