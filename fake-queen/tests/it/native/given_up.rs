//! Records that fail for good.

use std::time::Duration;

use rstest::rstest;
use serde_json::{Value, json};

use super::{ack, ack_of, data, ints, pop, push_all};
use crate::world::World;

#[rstest]
#[case::kept(json!({"queue": "q", "retryLimit": 2}), true)]
#[case::kept_by_one_option(json!({"queue": "q", "retryLimit": 2, "deadLetterQueue": false}), true)]
#[case::dropped(json!({"queue": "q", "retryLimit": 2, "deadLetterQueue": false,
    "dlqAfterMaxRetries": false}), false)]
#[tokio::test(start_paused = true)]
async fn failures_are_counted_and_the_last_gives_the_record_up(
    #[case] options: Value,
    #[case] kept: bool,
) {
    let client = World::default().await.client;
    client.post("configure", 200, options).await;
    push_all(&client, "q", "0", &[0, 1]).await;
    for failure in 0..3 {
        let popped = pop(&client, "queue/q").await.unwrap();
        assert_eq!(popped["messages"][0]["deliveryAttempt"], failure + 1);
        let mut body = ack_of(&popped["messages"][0], "failed");
        body["error"] = json!(format!("reason {failure}"));
        let acked = client.post("ack", 200, body).await[0].clone();
        assert_eq!(
            (&acked["success"], &acked["leaseReleased"], &acked["dlq"]),
            (&json!(true), &json!(true), &json!(kept && failure == 2))
        );
    }
    assert_eq!(data(&pop(&client, "queue/q").await), ints(&[1]));
    let letters = client.get("dlq?queue=q").await;
    assert_eq!(letters["total"], u64::from(kept));
    if kept {
        let letter = &letters["messages"][0];
        assert_eq!(
            (
                &letter["data"],
                &letter["errorMessage"],
                &letter["retryCount"]
            ),
            (&json!(0), &json!("reason 2"), &json!(2))
        );
        assert_eq!(letter["consumerGroup"], "__QUEUE_MODE__");
    }
}

#[tokio::test(start_paused = true)]
async fn dead_letters_are_listed_newest_first_verbatim_and_purged() {
    let client = World::default().await.client;
    let payload = r#"{"big":123456789012345678901234567890,"f":1.50}"#;
    let items: Vec<String> = ["a", "b"]
        .iter()
        .map(|lane| format!(r#"{{"queue":"q","partition":"{lane}","payload":{payload}}}"#))
        .collect();
    let body = format!(r#"{{"items":[{}]}}"#, items.join(","));
    assert_eq!(
        client
            .try_call("POST", "/api/v1/push", &body)
            .await
            .unwrap()
            .status,
        201
    );
    for (group, lane) in [("g", "a"), ("h", "b")] {
        let path = format!("queue/q/partition/{lane}?consumerGroup={group}&subscriptionMode=all");
        let popped = pop(&client, &path).await.unwrap();
        assert_eq!(
            ack(&client, &popped["messages"][0], "dlq").await["dlq"],
            true
        );
        tokio::time::sleep(Duration::from_secs(1)).await;
    }
    let list = client
        .call("GET", "/api/v1/dlq?queue=q", &Value::Null)
        .await;
    assert_eq!(list.text.matches(payload).count(), 2, "{}", list.text);
    let list = list.json();
    let groups: Vec<&Value> = list["messages"]
        .as_array()
        .unwrap()
        .iter()
        .map(|row| &row["consumerGroup"])
        .collect();
    assert_eq!(groups, ["h", "g"]);
    assert_eq!(list["messages"][0]["errorMessage"], "Retries exhausted");
    for (query, total) in [
        ("dlq", 2),
        ("dlq?queue=other", 0),
        ("dlq?consumerGroup=g", 1),
        ("dlq?partition=b", 1),
        ("dlq?limit=1", 1),
        ("dlq?offset=1", 1),
        ("dlq?offset=2", 0),
        ("dlq?from=2023-11-14T22:13:21Z", 1),
        ("dlq?to=2023-11-14T22:13:20Z", 1),
    ] {
        assert_eq!(client.get(query).await["total"], total, "{query}");
    }
    let delete = async |query: &str| {
        client
            .call("DELETE", &format!("/api/v1/{query}"), &Value::Null)
            .await
    };
    assert_eq!(delete("dlq").await.status, 400);
    assert_eq!(
        delete("dlq?queue=q&consumerGroup=g").await.json()["deleted"],
        1
    );
    assert_eq!(delete("dlq?queue=q").await.json()["deleted"], 1);
    assert_eq!(client.get("dlq").await["total"], 0);
}
