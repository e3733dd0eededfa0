//! How long a batch is held.

use std::time::Duration;

use rstest::rstest;
use serde_json::{Value, json};

use super::{ack, data, ints, pop, push_all};
use crate::world::World;

#[tokio::test(start_paused = true)]
async fn a_lease_holds_a_lane_until_it_expires_and_charges_nothing() {
    let client = World::default().await.client;
    push_all(&client, "q", "0", &[1, 2]).await;
    let first = pop(&client, "queue/q?batch=1&leaseSeconds=30")
        .await
        .unwrap();
    assert_eq!(pop(&client, "queue/q").await, None);
    tokio::time::sleep(Duration::from_millis(29_999)).await;
    assert_eq!(pop(&client, "queue/q").await, None);
    tokio::time::sleep(Duration::from_millis(1)).await;
    let again = pop(&client, "queue/q").await.unwrap();
    assert_eq!(data(&Some(again.clone())), ints(&[1, 2]));
    let attempts: Vec<&Value> = again["messages"]
        .as_array()
        .unwrap()
        .iter()
        .map(|message| &message["deliveryAttempt"])
        .collect();
    assert_eq!(attempts, [2, 1], "the second was never handed out before");
    let late = ack(&client, &first["messages"][0], "completed").await;
    assert_eq!(
        (&late["success"], &late["error"]),
        (&json!(false), &json!("invalid or expired lease"))
    );
    let acked = ack(&client, &again["messages"][1], "completed").await;
    assert_eq!(acked["leaseReleased"], true);
    assert_eq!(pop(&client, "queue/q").await, None);
}

#[rstest]
#[case(json!({"queue": "q"}), 300)]
#[case(json!({"queue": "q", "leaseTime": 7}), 7)]
#[case(json!({"queue": "q", "leaseTime": 0}), 60)]
#[tokio::test(start_paused = true)]
async fn the_queue_says_how_long_a_lease_lasts(#[case] options: Value, #[case] seconds: u64) {
    let client = World::default().await.client;
    client.post("configure", 200, options).await;
    push_all(&client, "q", "0", &[1]).await;
    pop(&client, "queue/q").await.unwrap();
    tokio::time::sleep(Duration::from_secs(seconds) - Duration::from_millis(1)).await;
    assert_eq!(pop(&client, "queue/q").await, None);
    tokio::time::sleep(Duration::from_millis(1)).await;
    assert!(pop(&client, "queue/q").await.is_some());
}

#[tokio::test(start_paused = true)]
async fn extending_moves_the_end_of_every_lane_of_a_lease_and_never_back() {
    let client = World::default().await.client;
    for lane in ["a", "b"] {
        push_all(&client, "q", lane, &[1]).await;
    }
    let popped = pop(&client, "queue/q?partitions=0&leaseSeconds=10")
        .await
        .unwrap();
    let path = format!("lease/{}/extend", popped["leaseId"].as_str().unwrap());
    let extended = client.post(&path, 200, json!({"seconds": 100})).await;
    let until = json!("2023-11-14T22:15:00.000Z");
    assert_eq!(
        extended,
        json!({"leaseId": popped["leaseId"], "success": true, "renewed": 2, "newExpiresAt": until,
            "expiresAt": until, "lease_expires_at": until})
    );
    // Neither a bad body nor a shorter time shortens it.
    for body in ["", "{", r#"{"seconds":-5}"#] {
        let answer = client
            .try_call("POST", &format!("/api/v1/{path}"), body)
            .await
            .unwrap();
        assert_eq!(answer.json()["expiresAt"], until);
    }
    tokio::time::sleep(Duration::from_secs(99)).await;
    assert_eq!(pop(&client, "queue/q?partitions=0").await, None);
    tokio::time::sleep(Duration::from_secs(1)).await;
    let gone = client.post(&path, 200, json!({})).await;
    assert_eq!(
        (&gone["success"], &gone["renewed"], &gone["expiresAt"]),
        (&json!(false), &json!(0), &json!(null))
    );
    assert_eq!(
        client.post("lease/nonsense/extend", 200, json!({})).await["renewed"],
        0
    );
}
