//! Group views with Kafka's rows (contract section 10).

use std::time::Duration;

use serde_json::{Value, json};

use crate::world::World;

#[tokio::test(start_paused = true)]
async fn committed_offsets_show_as_a_kafka_group() {
    let client = World::default().await.client;
    for lane in ["0", "1"] {
        for n in 0..5 {
            client.push("my topic", lane, json!(n)).await;
        }
    }
    let row = |key: &str, value: Value| {
        json!({"op": "put", "ns": "queen-kafka", "key": key,
        "value": value, "forever": true})
    };
    let rows = json!([
        row(
            "qk:group:a%20Group:my%20topic:0",
            json!({"offset": 3, "metadata": "", "ts": 1})
        ),
        row("qk:group:a%20Group:my%20topic:1", json!({"offset": 5})),
        row("qk:group:a%20Group:my%20topic:7", json!({"offset": 5})),
        row("qk:group:a%20Group:gone:0", json!({"offset": 5})),
        row("qk:group:bad:my%20topic:0", json!({"offset": "x"})),
        row("qk:groups:a%20Group", json!({"pt": "consumer"})),
    ]);
    client.post("kv", 200, rows).await;
    tokio::time::sleep(Duration::from_secs(301)).await;
    let groups = client.get("consumer-groups").await;
    assert_eq!(
        groups,
        json!([{
            "name": "a Group", "topics": ["my topic"], "queueName": "my topic", "members": 2,
            "partitionCursors": 2, "partitionsWithLag": 1, "totalLag": 2, "maxTimeLag": 301,
            "state": "Lagging", "storage": "segments", "subscriptionMode": null,
            "subscriptionTimestamp": null, "subscriptionCreatedAt": null, "conflation": false,
            "kind": "kafka",
        }])
    );
    let lagging = client
        .get("consumer-groups/lagging?minLagSeconds=300")
        .await;
    let lanes = client.get("status/queues/my%20topic").await["partitionList"].clone();
    assert_eq!(
        lagging,
        json!([{"consumer_group": "a Group", "queue_name": "my topic", "partition_name": "0",
            "partition_id": lanes[0]["id"], "worker_id": null, "offset_lag": 2,
            "time_lag_seconds": 301, "lag_hours": 0.08,
            "oldest_unconsumed_at": "2023-11-14T22:13:20.000Z", "last_consumed_at": null,
            "kind": "kafka"}])
    );
    assert_eq!(client.get("consumer-groups/lagging").await, json!([]));
    let one = client.get("consumer-groups/a%20Group").await;
    assert_eq!(one["my topic"]["partitions"][0]["offsetLag"], 2);
    assert_eq!(one["my topic"]["partitions"][1]["offsetLag"], 0);
}

#[tokio::test(start_paused = true)]
async fn lag_is_never_counted_below_the_log_start() {
    let client = World::default().await.client;
    let retention = json!({"queue": "q", "retentionEnabled": true, "retentionSeconds": 60});
    client.post("configure", 200, retention).await;
    client.push("q", "0", json!(1)).await;
    tokio::time::sleep(Duration::from_secs(90)).await;
    client.push("q", "0", json!(1)).await;
    let row = json!([{"op": "put", "ns": "queen-kafka", "key": "qk:group:g:q:0",
        "value": {"offset": 0}, "forever": true}]);
    client.post("kv", 200, row).await;
    let groups = client.get("consumer-groups").await;
    assert_eq!(
        (&groups[0]["totalLag"], &groups[0]["state"]),
        (&json!(1), &json!("Stable"))
    );
}

#[tokio::test(start_paused = true)]
async fn native_groups_show_beside_kafkas_and_win_a_name() {
    let client = World::default().await.client;
    for queue in ["a", "b"] {
        client.push(queue, "0", json!(1)).await;
    }
    let row = |queue: &str| {
        json!({"op": "put", "ns": "queen-kafka", "key": format!("qk:group:g:{queue}:0"),
            "value": {"offset": 0}, "forever": true})
    };
    client.post("kv", 200, json!([row("a"), row("b")])).await;
    client
        .get("pop/queue/a?consumerGroup=g&subscriptionMode=all")
        .await;
    tokio::time::sleep(Duration::from_secs(400)).await;
    let groups = client.get("consumer-groups").await;
    let rows: Vec<(&Value, &Value)> = groups
        .as_array()
        .unwrap()
        .iter()
        .map(|row| (&row["kind"], &row["queueName"]))
        .collect();
    assert_eq!(
        rows,
        [
            (&json!("queen"), &json!("a")),
            (&json!("kafka"), &json!("a")),
            (&json!("kafka"), &json!("b")),
        ]
    );
    assert_eq!(
        groups[0],
        json!({"name": "g", "topics": ["a"], "queueName": "a", "members": 1, "partitionCursors": 1,
            "partitionsWithLag": 1, "totalLag": 1, "maxTimeLag": 400, "state": "Lagging",
            "storage": "segments", "subscriptionMode": "all",
            "subscriptionTimestamp": "2023-11-14T22:13:20.000Z",
            "subscriptionCreatedAt": "2023-11-14T22:13:20.000Z", "conflation": false,
            "kind": "queen"})
    );
    let one = client.get("consumer-groups/g").await;
    assert_eq!(
        (&one["a"]["kind"], &one["b"]["kind"]),
        (&json!("queen"), &json!("kafka"))
    );
    assert_eq!(one["a"]["partitions"].as_array().unwrap().len(), 1);
    let lagging = client.get("consumer-groups/lagging?minLagSeconds=1").await;
    assert_eq!(lagging.as_array().unwrap().len(), 3);
    assert!(lagging[0]["worker_id"].is_string() && lagging[1]["worker_id"].is_null());
}

#[tokio::test(start_paused = true)]
async fn a_native_group_is_dead_until_it_consumed_something() {
    let client = World::default().await.client;
    client.push("q", "0", json!(1)).await;
    let state = async || client.get("consumer-groups").await[0]["state"].clone();
    let popped = client
        .get("pop/queue/q?consumerGroup=g&subscriptionMode=all")
        .await;
    assert_eq!(state().await, "Dead");
    let message = &popped["messages"][0];
    let ack = json!({"transactionId": message["transactionId"], "consumerGroup": "g",
        "partitionId": message["partitionId"], "leaseId": message["leaseId"]});
    client.post("ack", 200, ack).await;
    assert_eq!(state().await, "Stable");
}
