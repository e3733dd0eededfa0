//! What is left of cursors by retention, operators, views and power cuts.

use std::time::Duration;

use fake_queen::{Options, Storage};
use serde_json::{Value, json};

use super::{ack, data, ints, pop, push_all};
use crate::client::Client;
use crate::disk::Disk;
use crate::world::{self, World, unlimited};

#[tokio::test(start_paused = true)]
async fn retention_passes_over_what_was_not_consumed() {
    let client = World::default().await.client;
    let retention = json!({"queue": "q", "retentionEnabled": true, "retentionSeconds": 60});
    client.post("configure", 200, retention).await;
    push_all(&client, "q", "0", &[1]).await;
    let held = pop(&client, "queue/q?leaseSeconds=600").await.unwrap();
    tokio::time::sleep(Duration::from_secs(90)).await;
    push_all(&client, "q", "0", &[2]).await;
    assert_eq!(
        ack(&client, &held["messages"][0], "completed").await["success"],
        false
    );
    assert_eq!(pop(&client, "queue/q").await, None, "the lease still holds");
    let lease = held["leaseId"].as_str().unwrap();
    assert_eq!(
        client
            .post(&format!("lease/{lease}/extend"), 200, json!({}))
            .await["renewed"],
        1
    );
    tokio::time::sleep(Duration::from_secs(511)).await;
    push_all(&client, "q", "0", &[3]).await;
    assert_eq!(data(&pop(&client, "queue/q").await), ints(&[3]));
}

#[tokio::test(start_paused = true)]
async fn what_every_group_consumed_is_removed_when_the_queue_says_so() {
    let client = World::default().await.client;
    let body = json!({"queue": "q", "retentionEnabled": true, "completedRetentionSeconds": 30});
    client.post("configure", 200, body).await;
    for n in 0..3 {
        push_all(&client, "q", "0", &[n]).await;
    }
    let take = async |group: &str, batch: u32| {
        let path = format!(
            "queue/q?consumerGroup={group}&subscriptionMode=all&autoAck=true&batch={batch}"
        );
        pop(&client, &path).await.unwrap()
    };
    take("fast", 3).await;
    take("slow", 1).await;
    tokio::time::sleep(Duration::from_secs(25)).await;
    let start = async || client.fetch("q", "0", 2).await["logStartOffset"].clone();
    assert_eq!(start().await, 0, "too young");
    tokio::time::sleep(Duration::from_secs(15)).await;
    assert_eq!(start().await, 1, "as far as the slow one is");
    take("slow", 1).await;
    tokio::time::sleep(Duration::from_secs(6)).await;
    assert_eq!(start().await, 2);
}

#[tokio::test(start_paused = true)]
async fn seeking_and_forgetting_move_native_groups_only() {
    let client = World::new(unlimited()).await.client;
    push_all(&client, "q", "0", &[0, 1]).await;
    tokio::time::sleep(Duration::from_secs(10)).await;
    push_all(&client, "q", "0", &[2]).await;
    push_all(&client, "q", "1", &[3]).await;
    let row = json!([{"op": "put", "ns": "queen-kafka", "key": "qk:group:g:q:0",
        "value": {"offset": 1}, "forever": true}]);
    client.post("kv", 200, row).await;
    let all = "queue/q?consumerGroup=g&subscriptionMode=all&partitions=0";
    let held = pop(&client, all).await.unwrap();
    let seek = "consumer-groups/g/queues/q/seek";
    let done = client.post(seek, 200, json!({"toEnd": true})).await;
    assert_eq!(
        done,
        json!({"success": true, "consumerGroup": "g", "queueName": "q", "seekToEnd": true,
            "targetTimestamp": null, "partitionsUpdated": 2})
    );
    assert_eq!(
        ack(&client, &held["messages"][0], "completed").await["success"],
        false
    );
    assert_eq!(pop(&client, all).await, None);
    let since = json!({"timestamp": "2023-11-14T22:13:25Z"});
    let one = client
        .post("consumer-groups/g/queues/q/partitions/0/seek", 200, since)
        .await;
    assert_eq!(
        (&one["updated"], &one["partitionName"]),
        (&json!(true), &json!("0"))
    );
    assert_eq!(data(&pop(&client, all).await), ints(&[2]));
    let path = "/api/v1/consumer-groups/g/queues/q/partitions/0/seek";
    assert_eq!(
        client.try_call("POST", path, "").await.unwrap().json()["seekToEnd"],
        true
    );
    assert_eq!(pop(&client, all).await, None);
    client.post(seek, 400, json!({})).await;
    let gone = client
        .post(
            "consumer-groups/g/queues/no/seek",
            404,
            json!({"toEnd": true}),
        )
        .await;
    assert_eq!(gone["error"], "Queue not found or has no partitions");
    let updated = client
        .post(
            "consumer-groups/g/subscription",
            200,
            json!({"subscriptionTimestamp": "2023-01-01"}),
        )
        .await;
    assert_eq!(updated["rowsUpdated"], 1);
    client
        .post("consumer-groups/g/subscription", 400, json!({}))
        .await;
    let delete = async |path: &str| client.call("DELETE", path, &Value::Null).await.json();
    let deleted = delete("/api/v1/consumer-groups/g/queues/q").await;
    assert_eq!(
        (&deleted["deletedPartitions"], &deleted["queueName"]),
        (&json!(2), &json!("q"))
    );
    assert_eq!(
        delete("/api/v1/consumer-groups/g").await["deletedPartitions"],
        0
    );
    // Kafka's row stays, and a forgotten group begins anew.
    let groups = client.get("consumer-groups").await;
    let kinds: Vec<&Value> = groups
        .as_array()
        .unwrap()
        .iter()
        .map(|row| &row["kind"])
        .collect();
    assert_eq!(kinds, ["kafka"]);
    assert_eq!(data(&pop(&client, all).await), ints(&[0, 1, 2, 3]));
}

#[tokio::test(start_paused = true)]
async fn queue_views_count_what_the_queues_own_cursor_has_to_do() {
    let client = World::default().await.client;
    push_all(&client, "q", "0", &[0, 1, 2, 3]).await;
    pop(
        &client,
        "queue/q?consumerGroup=g&subscriptionMode=all&autoAck=true",
    )
    .await;
    let popped = pop(&client, "queue/q?batch=2").await.unwrap();
    ack(&client, &popped["messages"][0], "completed").await;
    for counts in [
        client.get("resources/queues").await["queues"][0]["messages"].clone(),
        client.get("resources/queues/q").await["messages"].clone(),
        client.get("status/queues/q").await["messages"].clone(),
    ] {
        assert_eq!(counts, json!({"total": 4, "pending": 2, "processing": 1}));
    }
    assert_eq!(client.get("resources/queues/q/depth").await["depth"], 3);
    assert_eq!(
        client.get("resources/queues/q/depth?group=g").await["depth"],
        0
    );
    assert_eq!(
        client.get("resources/queues/q/depth?group=h").await["depth"],
        4
    );
}

#[tokio::test(start_paused = true)]
async fn cursors_leases_and_dead_letters_are_there_after_a_power_cut() {
    let (host, disk) = (world::host(), Disk::default());
    let on = |disk: &Disk| Options {
        storage: Storage::Backend(Box::new(disk.clone())),
        ..unlimited()
    };
    let before = World::on(host.clone(), on(&disk)).await;
    push_all(&before.client, "q", "0", &[0, 1, 2, 3]).await;
    let path = "queue/q?consumerGroup=g&subscriptionMode=all&batch=3";
    let popped = pop(&before.client, path).await.unwrap();
    ack(&before.client, &popped["messages"][0], "dlq").await;
    let held = pop(&before.client, path).await.unwrap();
    ack(&before.client, &held["messages"][0], "completed").await;
    let seen = async |client: &Client| {
        json!([
            client.get("consumer-groups").await,
            client.get("consumer-groups/g").await,
            client.get("dlq").await,
            client.get("resources/queues").await
        ])
    };
    let expected = seen(&before.client).await;
    assert_eq!(expected[2]["messages"][0]["data"], 0);
    let disk = disk.after_power_cut(|_| false);
    let after = World::on(host, on(&disk)).await;
    assert_eq!(seen(&after.client).await, expected);
    assert_eq!(pop(&after.client, path).await, None, "the lease holds");
    assert_eq!(
        ack(&after.client, &held["messages"][2], "completed").await["leaseReleased"],
        true
    );
    // Nothing of a queue is left behind for its successor.
    after
        .client
        .call("DELETE", "/api/v1/resources/queues/q", &Value::Null)
        .await;
    assert_eq!(after.client.get("consumer-groups").await, json!([]));
    assert_eq!(after.client.get("dlq").await["total"], 0);
    push_all(&after.client, "q", "0", &[9]).await;
    assert_eq!(data(&pop(&after.client, path).await), ints(&[9]));
}
