//! What an ack moves, and why it moves nothing.

use std::time::Duration;

use rstest::rstest;
use serde_json::{Value, json};

use super::{ack, ack_of, data, ints, pop, push_all};
use crate::world::{World, unlimited};

#[tokio::test(start_paused = true)]
async fn an_ack_consumes_what_is_below_it_and_keeps_the_rest_of_the_batch() {
    let client = World::default().await.client;
    push_all(&client, "q", "0", &[0, 1, 2, 3]).await;
    let popped = pop(&client, "queue/q").await.unwrap();
    let message = |at: usize| &popped["messages"][at];
    let middle = ack(&client, message(1), "completed").await;
    assert_eq!(
        middle,
        json!({"index": 0, "transactionId": message(1)["transactionId"], "success": true,
            "error": null, "leaseReleased": false, "dlq": false, "noop": false})
    );
    let below = ack(&client, message(0), "completed").await;
    assert_eq!(
        (&below["success"], &below["noop"]),
        (&json!(true), &json!(true))
    );
    let stale = ack(&client, message(0), "failed").await;
    assert_eq!(stale["success"], false);
    assert!(
        stale["error"]
            .as_str()
            .unwrap()
            .starts_with("already committed")
    );
    let last = ack(&client, message(3), "ok").await;
    assert_eq!(last["leaseReleased"], true);
    let groups = client.get("consumer-groups/__QUEUE_MODE__").await;
    assert_eq!(
        groups["q"]["partitions"][0],
        json!({"partition": "0", "workerId": null, "lastConsumedAt": null, "totalConsumed": 4,
            "offsetLag": 0, "timeLagSeconds": 0, "leaseActive": false})
    );
}

#[tokio::test(start_paused = true)]
async fn acks_that_can_do_nothing_say_why() {
    let client = World::default().await.client;
    push_all(&client, "q", "0", &[0, 1, 2]).await;
    let popped = pop(
        &client,
        "queue/q?batch=1&consumerGroup=g&subscriptionMode=all",
    )
    .await
    .unwrap();
    let message = &popped["messages"][0];
    let beyond = client.fetch("q", "0", 2).await["records"][0]["transactionId"].clone();
    let with = |field: &str, value: Value| {
        let mut ack = ack_of(message, "completed");
        ack["consumerGroup"] = json!("g");
        ack[field] = value;
        ack
    };
    let unresolvable = "unresolvable: transaction not in the ack window (hash purged or never \
        pushed); if leased, the message redelivers";
    for (body, error) in [
        (
            with("partitionId", json!("x")),
            "invalid input syntax for type uuid: \"x\"",
        ),
        (
            with("partitionId", json!("00000000-0000-0000-0000-000000000009")),
            "consumer not found",
        ),
        (with("consumerGroup", json!("other")), "consumer not found"),
        (with("consumerGroup", json!(null)), "consumer not found"),
        (
            with("leaseId", json!("nonsense")),
            "invalid or expired lease",
        ),
        (
            with("leaseId", message["id"].clone()),
            "invalid or expired lease",
        ),
        (with("transactionId", json!("unknown")), unresolvable),
        (with("transactionId", json!(null)), unresolvable),
        (with("transactionId", beyond), unresolvable),
    ] {
        let answer = client.post("ack", 200, body.clone()).await[0].clone();
        assert_eq!(
            (&answer["success"], &answer["error"]),
            (&json!(false), &json!(error)),
            "{body}"
        );
    }
    assert_eq!(
        client.post("ack", 200, with("status", json!(null))).await[0]["success"],
        true
    );
    let bad = client.try_call("POST", "/api/v1/ack", "{").await.unwrap();
    assert_eq!(bad.status, 400);
    assert!(
        bad.json()["error"]
            .as_str()
            .unwrap()
            .starts_with("bad body:")
    );
}

#[tokio::test(start_paused = true)]
async fn an_ack_without_a_lease_moves_the_cursor_all_the_same() {
    let client = World::default().await.client;
    push_all(&client, "q", "0", &[0, 1]).await;
    let popped = pop(&client, "queue/q?leaseSeconds=1").await.unwrap();
    tokio::time::sleep(Duration::from_secs(2)).await;
    let mut body = ack_of(&popped["messages"][0], "completed");
    body["leaseId"] = json!("");
    assert_eq!(client.post("ack", 200, body).await[0]["success"], true);
    assert_eq!(data(&pop(&client, "queue/q").await), ints(&[1]));
}

/// Statuses of a batch of five, and where it is handed out from again.
#[rstest]
#[case(&["completed", "completed", "failed", "completed", "completed"], &[2, 3, 4])]
#[case(&["completed", "", "retry", "", "completed"], &[1, 2, 3, 4])]
#[case(&["", "", "", "", "completed"], &[])]
#[case(&["", "", "failed", "", ""], &[0, 1, 2, 3, 4])]
#[case(&["", "completed", "", "dlq", ""], &[4])]
#[case(&["", "nack", "", "dlq", "completed"], &[0, 1, 2, 3, 4])]
#[case(&["retry", "success", "acked", "ok", "Completed"], &[0, 1, 2, 3, 4])]
#[tokio::test(start_paused = true)]
async fn the_lowest_failure_of_a_call_stops_the_cursor(
    #[case] statuses: &[&str],
    #[case] again: &[i64],
) {
    let client = World::default().await.client;
    push_all(&client, "q", "0", &[0, 1, 2, 3, 4]).await;
    let popped = pop(&client, "queue/q").await.unwrap();
    let acks: Vec<Value> = statuses
        .iter()
        .enumerate()
        .filter(|(_, status)| !status.is_empty())
        .map(|(at, status)| ack_of(&popped["messages"][at], status))
        .collect();
    let body = json!({"acknowledgments": acks, "consumerGroup": null});
    let results = client.post("ack/batch", 200, body).await;
    for (index, result) in results.as_array().unwrap().iter().enumerate() {
        assert_eq!(
            (&result["index"], &result["success"]),
            (&json!(index), &json!(true))
        );
    }
    assert_eq!(data(&pop(&client, "queue/q").await), ints(again));
}

#[tokio::test(start_paused = true)]
async fn every_kind_of_id_is_resolved_below_the_cursor_too() {
    let client = World::default().await.client;
    let item = |id: Option<&str>| {
        let mut item = json!({"queue": "q", "partition": "0", "payload": 1});
        if let Some(id) = id {
            item["transactionId"] = json!(id);
        }
        item
    };
    let off = json!({"queue": "q", "dedupWindowSeconds": 0});
    for configure in [json!({"queue": "q"}), off] {
        client.post("configure", 200, configure).await;
        let items = json!({"items": [item(Some("mine")), item(None), item(Some("yours"))]});
        client.post("push", 201, items).await;
        let popped = pop(&client, "queue/q").await.unwrap();
        let messages = popped["messages"].as_array().unwrap();
        assert_eq!(messages.len(), 3);
        assert_eq!(
            ack(&client, &messages[2], "completed").await["leaseReleased"],
            true
        );
        for message in messages {
            let mut body = ack_of(message, "completed");
            body["leaseId"] = json!(null);
            let answer = client.post("ack", 200, body).await[0].clone();
            assert_eq!(answer["noop"], true, "{message} {answer}");
        }
        // An id may come again once the window is off.
        if popped["messages"][0]["transactionId"] == "mine" {
            client
                .call("DELETE", "/api/v1/resources/queues/q", &Value::Null)
                .await;
        }
    }
}

#[tokio::test(start_paused = true)]
async fn transactions_push_and_ack_together_or_not_at_all() {
    let client = World::new(unlimited()).await.client;
    push_all(&client, "in", "0", &[1, 2]).await;
    let popped = pop(&client, "queue/in?consumerGroup=g&subscriptionMode=all")
        .await
        .unwrap();
    let op = |at: usize, lease: Option<&Value>| {
        let message = &popped["messages"][at];
        let mut op = ack_of(message, "completed");
        op["type"] = json!("ack");
        op["consumerGroup"] = json!("g");
        op["leaseId"] = lease.cloned().unwrap_or_default();
        op
    };
    let push = json!({"type": "push", "items": [{"queue": "out", "partition": "0", "payload": 1}]});
    let row = json!({"op": "put", "ns": "n", "key": "k", "value": 1, "forever": true});
    let bad = json!({"operations": [push, op(0, Some(&json!("nonsense")))], "kv": [row]});
    let refused = client.post("transaction", 200, bad).await;
    assert_eq!(
        (&refused["success"], &refused["reason"], &refused["error"]),
        (
            &json!(false),
            &json!("ack_rejected"),
            &json!("invalid or expired lease")
        )
    );
    assert_eq!(client.fetch("out", "0", 0).await["highWatermark"], 0);
    let read = json!([{"op": "get", "ns": "n", "key": "k"}]);
    assert_eq!(
        client.post("kv", 200, read).await["results"][0]["found"],
        false
    );
    // One good ack and one bad one: the good one is undone.
    let mut wrong = op(1, Some(&popped["leaseId"]));
    wrong["transactionId"] = json!("unknown");
    let half = json!({"operations": [op(0, Some(&popped["leaseId"])), wrong]});
    assert_eq!(
        client.post("transaction", 200, half).await["reason"],
        "ack_rejected"
    );
    let group = client.get("consumer-groups/g").await;
    assert_eq!(group["in"]["partitions"][0]["offsetLag"], 2);
    // A lease named by the bundle is lent to an ack that shows none.
    let good = json!({"operations": [op(1, None), push], "requiredLeases": [popped["leaseId"]],
        "kv": [row]});
    let done = client.post("transaction", 200, good).await;
    assert_eq!(done["success"], true, "{done}");
    assert_eq!(
        done["results"][0],
        json!({"index": 0, "type": "ack", "success": true,
            "transactionId": popped["messages"][1]["transactionId"], "error": null, "dlq": false})
    );
    assert_eq!(
        (&done["results"][1]["index"], &done["results"][1]["type"]),
        (&json!(1), &json!("push"))
    );
    assert_eq!(
        (&done["results"][2]["index"], &done["results"][2]["applied"]),
        (&json!(2), &json!(true))
    );
    assert_eq!(client.fetch("out", "0", 0).await["highWatermark"], 1);
    let group = client.get("consumer-groups/g").await;
    assert_eq!(
        (
            &group["in"]["partitions"][0]["offsetLag"],
            &group["in"]["partitions"][0]["leaseActive"]
        ),
        (&json!(0), &json!(false))
    );
}
