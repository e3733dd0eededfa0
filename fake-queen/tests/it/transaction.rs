//! `transaction`: all or nothing (contract section 5).

use serde_json::{Value, json};

use crate::client::Client;
use crate::world::{World, unlimited};

fn push(queue: &str, payloads: &[i64]) -> Value {
    let items: Vec<Value> = payloads
        .iter()
        .map(|payload| json!({"queue": queue, "partition": "0", "payload": payload}))
        .collect();
    json!({"type": "push", "items": items})
}

fn fence(expect: &Value) -> Value {
    json!({"op": "put", "ns": "queen-kafka", "key": "qk:txn:t", "value": {"seq": 1},
        "forever": true, "expect": expect, "required": true})
}

async fn high(client: &Client, queue: &str) -> Value {
    client.fetch(queue, "0", 0).await["highWatermark"].clone()
}

#[tokio::test(start_paused = true)]
async fn pushes_and_rows_commit_together() {
    let client = World::new(unlimited()).await.client;
    let row = json!({"op": "put", "ns": "queen-kafka", "key": "qk:group:g:q:0",
        "value": {"offset": 3}, "forever": true});
    let body = json!({"operations": [push("a", &[1, 2]), {"type": "push", "queue": "b", "partition": "0", "data": "flat"}],
        "kv": [fence(&json!(0)), row]});
    let done = client.post("transaction", 200, body).await;
    assert_eq!(done["success"], true);
    let results = done["results"].as_array().unwrap();
    assert_eq!(results.len(), 5);
    for (index, result) in results.iter().enumerate() {
        assert_eq!(result["index"], index);
        assert!(result.get("offset").is_none());
    }
    assert_eq!(results[2]["queueName"], "b");
    assert_eq!(
        (&results[3]["opIndex"], &results[3]["type"]),
        (&json!(0), &json!("kv"))
    );
    assert_eq!(results[4]["applied"], true);
    assert_eq!(high(&client, "a").await, 2);
    assert_eq!(
        client.fetch("b", "0", 0).await["records"][0]["payload"],
        "flat"
    );
}

#[tokio::test(start_paused = true)]
async fn a_lost_fence_writes_nothing_and_counts_in_the_flat_space() {
    let client = World::new(unlimited()).await.client;
    let body = json!({"operations": [push("q", &[1, 2, 3])], "kv": [fence(&json!(7))]});
    let lost = client.post("transaction", 200, body).await;
    assert_eq!(
        (&lost["success"], &lost["reason"]),
        (&json!(false), &json!("kv_precondition"))
    );
    assert_eq!(
        (&lost["failedIndex"], &lost["kvReason"]),
        (&json!(3), &json!("absent"))
    );
    assert_eq!((&lost["ok"], &lost["results"]), (&json!(false), &json!([])));
    assert_eq!(high(&client, "q").await, 0);
    assert_eq!(client.get("resources/queues").await["queues"], json!([]));
}

#[tokio::test(start_paused = true)]
async fn a_known_transaction_id_rolls_everything_back() {
    let client = World::new(unlimited()).await.client;
    let item =
        |id: &str| json!({"queue": "q", "partition": "0", "payload": 1, "transactionId": id});
    client
        .post("push", 201, json!({"items": [item("x")]}))
        .await;
    let body = json!({"operations": [{"type": "push", "items": [item("y"), item("x")]}],
        "kv": [fence(&json!(0))]});
    let lost = client.post("transaction", 200, body).await;
    assert_eq!(
        (&lost["success"], &lost["reason"]),
        (&json!(false), &json!("duplicate"))
    );
    assert_eq!(high(&client, "q").await, 1);
    let read = json!([{"op": "get", "ns": "queen-kafka", "key": "qk:txn:t"}]);
    assert_eq!(
        client.post("kv", 200, read).await["results"][0]["found"],
        false
    );

    let body = json!({"operations": [{"type": "push", "items": [item("y"), item("y")]}]});
    let done = client.post("transaction", 200, body).await;
    assert_eq!(done["success"], true);
    assert!(done["results"][0].get("duplicate").is_none());
    assert_eq!(done["results"][1]["duplicate"], true);
    assert_eq!(
        done["results"][1]["messageId"],
        done["results"][0]["messageId"]
    );
    assert_eq!(high(&client, "q").await, 2);
}

#[tokio::test(start_paused = true)]
async fn shapes_are_refused_before_anything() {
    let client = World::new(unlimited()).await.client;
    let many: Vec<Value> = (0..65)
        .map(|n| json!({"op": "delete", "ns": "n", "key": n.to_string()}))
        .collect();
    for body in [
        json!({}),
        json!({"operations": null}),
        json!({"operations": [{"type": "kv"}]}),
        json!({"operations": [{"type": "push"}]}),
        json!({"operations": [], "kv": {}}),
        json!({"operations": [], "kv": many}),
        json!({"operations": [], "kv": [1]}),
        json!({"operations": [], "kv": [{"op": "getPrefix", "ns": "n", "prefix": "p"}]}),
    ] {
        let refused = client.post("transaction", 400, body.clone()).await;
        assert_eq!(refused["reason"], "bad_request", "{body}");
        assert_eq!(refused["success"], false);
    }
    let large = json!({"kv": [{"op": "put", "ns": "n", "key": "k", "forever": true,
        "value": "v".repeat(65_536)}]});
    assert_eq!(
        client.post("transaction", 413, large).await["reason"],
        "payload_too_large"
    );
    let bad = client
        .try_call("POST", "/api/v1/transaction", "{")
        .await
        .unwrap();
    assert_eq!(bad.status, 400);
    assert!(
        bad.json()["error"]
            .as_str()
            .unwrap()
            .starts_with("bad body:")
    );
    let ack = json!({"operations": [{"type": "ack", "transactionId": "x", "partitionId": "y"}]});
    assert_eq!(
        client.post("transaction", 200, ack).await["reason"],
        "ack_rejected"
    );
}

#[tokio::test(start_paused = true)]
async fn an_item_without_payload_is_an_empty_object() {
    let client = World::new(unlimited()).await.client;
    let body = json!({"operations": [{"type": "push", "items": [{"queue": "q", "partition": "0"},
        {"queue": "q", "partition": "0", "payload": null}]}]});
    client.post("transaction", 200, body).await;
    let records = client.fetch("q", "0", 0).await["records"].clone();
    assert_eq!(
        (&records[0]["payload"], &records[1]["payload"]),
        (&json!({}), &json!(null))
    );
}

#[tokio::test(start_paused = true)]
async fn a_bundle_of_rows_alone_runs_and_null_riders_count_as_absent() {
    let client = World::new(unlimited()).await.client;
    let done = client
        .post(
            "transaction",
            200,
            json!({"kv": [fence(&json!(0))], "timers": null}),
        )
        .await;
    assert_eq!(
        (&done["success"], &done["results"][0]["index"]),
        (&json!(true), &json!(0))
    );
}
