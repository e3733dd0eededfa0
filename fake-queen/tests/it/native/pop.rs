//! What a pop hands out, to whom, and how much of it.

use std::time::Duration;

use serde_json::{Value, json};

use super::{ack, data, ints, pop, push_all};
use crate::world::World;

#[tokio::test(start_paused = true)]
async fn a_pop_shows_every_field() {
    let client = World::default().await.client;
    let item = json!({"queue": "orders.created", "partition": "eu", "payload": {"n": 1},
        "transactionId": "order-1"});
    client.post("push", 201, json!({"items": [item]})).await;
    push_all(&client, "orders.created", "eu", &[2]).await;
    let popped = pop(&client, "queue/orders.created").await.unwrap();
    let lane = client.get("status/queues/orders.created").await["partitionList"][0]["id"].clone();
    let (lease, minted) = (&popped["leaseId"], &popped["messages"][1]["id"]);
    assert_eq!(lease.as_str().unwrap().len(), 36);
    let message = |id: &Value, transaction: &Value, data: Value| {
        json!({"id": id, "transactionId": transaction, "traceId": null, "data": data,
            "producerSub": null, "createdAt": "2023-11-14T22:13:20.000000Z", "partitionId": lane,
            "partition": "eu", "leaseId": lease, "consumerGroup": "__QUEUE_MODE__",
            "deliveryAttempt": 1})
    };
    let first = &popped["messages"][0]["id"];
    assert_eq!(
        popped,
        json!({"success": true, "queue": "orders.created", "partition": "eu", "partitionId": lane,
            "leaseId": lease, "consumerGroup": "__QUEUE_MODE__", "partitionsClaimed": 1,
            "messages": [message(first, &json!("order-1"), json!({"n": 1})),
                message(minted, minted, json!(2))]})
    );
}

#[tokio::test(start_paused = true)]
async fn groups_start_where_they_say_and_queue_mode_at_the_start() {
    let client = World::default().await.client;
    push_all(&client, "q", "0", &[0, 1]).await;
    tokio::time::sleep(Duration::from_secs(10)).await;
    push_all(&client, "q", "0", &[2]).await;
    assert_eq!(pop(&client, "queue/q?consumerGroup=new").await, None);
    let from_all = pop(&client, "queue/q?consumerGroup=all&subscriptionMode=all").await;
    assert_eq!(data(&from_all), ints(&[0, 1, 2]));
    let since = "queue/q?consumerGroup=since&subscriptionFrom=2023-11-14T22:13:25Z";
    assert_eq!(data(&pop(&client, since).await), ints(&[2]));
    let now = "queue/q?consumerGroup=now&subscriptionFrom=now&subscriptionMode=all";
    assert_eq!(pop(&client, now).await, None);
    assert_eq!(
        data(&pop(&client, "queue/q?subscriptionMode=new").await),
        ints(&[0, 1, 2])
    );
    push_all(&client, "q", "0", &[3]).await;
    push_all(&client, "q", "later", &[4]).await;
    let both = pop(&client, "queue/q?consumerGroup=new&partitions=0").await;
    assert_eq!(data(&both), ints(&[3, 4]));
    assert_eq!(both.unwrap()["partitionsClaimed"], 2);
    // What the first contact said stands.
    let late = pop(
        &client,
        "queue/q?consumerGroup=now&subscriptionMode=all&partitions=5",
    )
    .await;
    assert_eq!(data(&late), ints(&[3, 4]));
}

#[tokio::test(start_paused = true)]
async fn a_group_may_subscribe_before_the_first_push() {
    let client = World::default().await.client;
    assert_eq!(pop(&client, "queue/ns.task?consumerGroup=g").await, None);
    let detail = client.get("resources/queues/ns.task").await;
    assert_eq!(
        (
            &detail["namespace"],
            &detail["partitions"],
            &detail["options"]["leaseTime"]
        ),
        (&json!("ns"), &json!(0), &json!(60))
    );
    push_all(&client, "ns.task", "0", &[1]).await;
    assert_eq!(
        data(&pop(&client, "queue/ns.task?consumerGroup=g").await),
        ints(&[1])
    );
}

#[tokio::test(start_paused = true)]
async fn a_batch_is_shared_by_lanes_and_the_lane_that_waited_longest_goes_first() {
    let client = World::default().await.client;
    for lane in ["a", "b", "c"] {
        push_all(&client, "q", lane, &[1, 2, 3]).await;
    }
    let first = pop(&client, "queue/q?batch=4&partitions=2").await.unwrap();
    let lanes: Vec<&Value> = first["messages"]
        .as_array()
        .unwrap()
        .iter()
        .map(|message| &message["partition"])
        .collect();
    assert_eq!(lanes, ["a", "a", "a", "b"]);
    for index in [2, 3] {
        let acked = ack(&client, &first["messages"][index], "completed").await;
        assert_eq!(acked["leaseReleased"], true);
    }
    tokio::time::sleep(Duration::from_millis(1)).await;
    push_all(&client, "q", "a", &[4]).await;
    let next = pop(&client, "queue/q?batch=10").await.unwrap();
    assert_eq!(next["partition"], "c", "it was never claimed");
    let next = pop(&client, "queue/q?batch=10").await.unwrap();
    assert_eq!(
        next["messages"][0]["data"], 4,
        "a was claimed before b, at once: by name"
    );
}

#[tokio::test(start_paused = true)]
async fn auto_ack_consumes_at_delivery() {
    let client = World::default().await.client;
    push_all(&client, "q", "0", &[1, 2, 3]).await;
    let popped = pop(&client, "queue/q?autoAck=true&batch=2").await.unwrap();
    assert_eq!(
        (&popped["leaseId"], &popped["messages"][0]["leaseId"]),
        (&json!(""), &json!(""))
    );
    assert_eq!(
        data(&pop(&client, "queue/q?autoAck=true").await),
        ints(&[3])
    );
    let late = ack(&client, &popped["messages"][0], "completed").await;
    assert_eq!(
        (&late["success"], &late["noop"]),
        (&json!(true), &json!(true))
    );
}

#[tokio::test(start_paused = true)]
async fn a_pinned_pop_takes_its_lane_and_starts_where_the_call_began() {
    let client = World::default().await.client;
    push_all(&client, "q", "a", &[1]).await;
    push_all(&client, "q", "b", &[2]).await;
    assert_eq!(data(&pop(&client, "queue/q/partition/b").await), ints(&[2]));
    assert_eq!(
        pop(&client, "queue/q/partition/b?consumerGroup=g").await,
        None
    );
    push_all(&client, "q", "b", &[3]).await;
    assert_eq!(
        data(&pop(&client, "queue/q/partition/b?consumerGroup=g").await),
        ints(&[3])
    );
    let waiting = tokio::spawn({
        let client = client.clone();
        async move { pop(&client, "queue/q/partition/new?consumerGroup=g&wait=true").await }
    });
    tokio::time::sleep(Duration::from_secs(1)).await;
    push_all(&client, "q", "new", &[4]).await;
    assert_eq!(data(&waiting.await.unwrap()), ints(&[4]));
    assert_eq!(pop(&client, "queue/nowhere/partition/0").await, None);
    assert_eq!(
        client.get("resources/queues").await["queues"]
            .as_array()
            .unwrap()
            .len(),
        1
    );
}

#[tokio::test(start_paused = true)]
async fn discovery_finds_queues_by_namespace_and_task() {
    let client = World::default().await.client;
    for (queue, n) in [("shop.orders", 1), ("shop.mails", 2), ("bank.orders", 3)] {
        push_all(&client, queue, "0", &[n]).await;
    }
    let found = pop(&client, "?namespace=shop&partitions=0").await.unwrap();
    assert_eq!(found["queue"], "");
    let mut values = data(&Some(found));
    values.sort_by_key(|value| value.as_i64());
    assert_eq!(values, ints(&[1, 2]));
    assert_eq!(
        data(&pop(&client, "?task=orders&partitions=0").await),
        ints(&[3])
    );
    let answer = client.call("GET", "/api/v1/pop", &Value::Null).await;
    assert_eq!(answer.status, 400);
    assert_eq!(
        answer.json(),
        json!({"success": false, "error": "namespace or task is required", "messages": []})
    );
    // Of a group too: the queue came while it waited, so all in it is new.
    let waiting = tokio::spawn({
        let client = client.clone();
        async move { pop(&client, "?namespace=new&wait=true&consumerGroup=g").await }
    });
    tokio::time::sleep(Duration::from_secs(1)).await;
    push_all(&client, "new.queue", "0", &[4]).await;
    assert_eq!(data(&waiting.await.unwrap()), ints(&[4]));
}

#[tokio::test(start_paused = true)]
async fn a_conflating_group_takes_the_newest_and_says_so() {
    let client = World::default().await.client;
    push_all(&client, "q", "0", &[1, 2, 3]).await;
    push_all(&client, "q", "1", &[4, 5]).await;
    let path = "queue/q?consumerGroup=g&conflation=true&subscriptionMode=all";
    let popped = pop(&client, path).await.unwrap();
    assert_eq!(popped["conflation"], true);
    assert_eq!(data(&Some(popped.clone())), ints(&[3, 5]));
    push_all(&client, "q", "0", &[6]).await;
    let acked = ack(&client, &popped["messages"][0], "completed").await;
    assert_eq!(
        (&acked["leaseReleased"], &acked["conflated"]),
        (&json!(true), &json!(2))
    );
    // The stored policy stands, whatever a later consumer says.
    let other = pop(&client, "queue/q?consumerGroup=g&conflation=false")
        .await
        .unwrap();
    assert_eq!(
        (&other["conflation"], &other["conflationConflict"]),
        (&json!(true), &json!(true))
    );
    assert_eq!(data(&Some(other)), ints(&[6]));
    let empty = pop(&client, path).await.unwrap();
    assert_eq!(
        (&empty["messages"], &empty["conflation"]),
        (&json!([]), &json!(true))
    );
    pop(&client, "queue/q?consumerGroup=plain").await;
    let conflict = pop(&client, "queue/q?consumerGroup=plain&conflation=true")
        .await
        .unwrap();
    assert_eq!(
        (
            &conflict["messages"],
            &conflict["conflationConflict"],
            conflict.get("conflation")
        ),
        (&json!([]), &json!(true), None)
    );
    for bad in [
        "conflation=true",
        "conflation=true&consumerGroup=g&autoAck=true",
        "batch=x",
        "wait=1",
    ] {
        let path = format!("/api/v1/pop/queue/q?{bad}");
        assert_eq!(
            client.call("GET", &path, &Value::Null).await.status,
            400,
            "{bad}"
        );
    }
}

#[tokio::test(start_paused = true)]
async fn a_pop_that_leaves_its_size_to_the_broker_is_told() {
    let client = World::default().await.client;
    for lane in ["a", "b", "c"] {
        push_all(&client, "q", lane, &[1]).await;
    }
    let popped = pop(&client, "queue/q?autopilot=true&batch=2")
        .await
        .unwrap();
    assert_eq!(popped["autopilot"], json!({"partitions": 64, "batch": 2}));
    assert_eq!(popped["partitionsClaimed"], 2);
    let popped = pop(&client, "queue/q?batch=2&partitions=1").await.unwrap();
    assert!(popped.get("autopilot").is_none());
}

#[tokio::test(start_paused = true)]
async fn a_large_batch_is_cut_and_the_rest_comes_next() {
    let client = World::default().await.client;
    let payload = "x".repeat(4 << 20);
    for _ in 0..7 {
        client.push("q", "0", json!(payload)).await;
    }
    client.push("q", "1", json!("small")).await;
    let first = pop(&client, "queue/q?partitions=0").await.unwrap();
    let count = first["messages"].as_array().unwrap().len();
    assert!(
        (4..7).contains(&count),
        "{count} records of 4 MiB in one answer"
    );
    let last = ack(&client, &first["messages"][count - 1], "completed").await;
    assert_eq!(
        last["leaseReleased"], true,
        "the lease covers what was handed out"
    );
    let rest = pop(&client, "queue/q?partitions=0").await.unwrap();
    assert_eq!(rest["messages"].as_array().unwrap().len(), 8 - count);
    assert_eq!(rest["messages"][0]["deliveryAttempt"], 1);
}

#[tokio::test(start_paused = true)]
async fn records_of_kafka_and_of_natives_cross() {
    let client = World::default().await.client;
    let envelope = json!({"h": [{"k": "a", "v": null}], "k": "a2V5", "t": 7, "v": ""});
    client.push("topic", "3", envelope.clone()).await;
    client.push("topic", "3", json!({"native": [1]})).await;
    let popped = pop(&client, "queue/topic").await;
    assert_eq!(data(&popped), [envelope, json!({"native": [1]})]);
    assert_eq!(popped.unwrap()["partition"], "3");
}

/// Newer clients may push frames of bytes and fall back to JSON when that is refused.
#[tokio::test(start_paused = true)]
async fn a_binary_push_is_refused_as_a_body_and_binary_pops_are_answered_in_json() {
    let client = World::default().await.client;
    let mut connection = client.connect().await.unwrap();
    let headers = [("content-type", "application/x-queen-push")];
    let body: &[u8] = b"QPB1\x00\x01\x00\x00\x00\x01\x00q";
    let refused = connection
        .call("POST", "/api/v1/push", &headers, body)
        .await
        .unwrap();
    assert_eq!(refused.status, 400);
    assert!(refused.text.contains("bad body:"), "{}", refused.text);
    push_all(&client, "q", "0", &[1]).await;
    assert_eq!(data(&pop(&client, "queue/q?frames=true").await), ints(&[1]));
}
