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
            "name": "a Group", "topics": ["my topic"], "queueName": "my topic", "members": 0,
            "partitionCursors": 2, "partitionsWithLag": 1, "totalLag": 2, "maxTimeLag": 301,
            "state": "Lagging", "storage": "segments", "subscriptionMode": null,
            "subscriptionTimestamp": null, "subscriptionCreatedAt": null, "conflation": false,
            "kind": "kafka",
        }])
    );
    let lagging = client
        .get("consumer-groups/lagging?minLagSeconds=300")
        .await;
    assert_eq!(
        lagging,
        json!([{"consumer_group": "a Group", "queue_name": "my topic", "partition_name": "0",
            "worker_id": null, "offset_lag": 2, "time_lag_seconds": 301, "kind": "kafka"}])
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
