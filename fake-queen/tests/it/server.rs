//! HTTP itself: unknown paths, ceilings, tenants, connections, stopping (contract section 1).

use std::time::Duration;

use fake_queen::Options;
use serde_json::{Value, json};

use crate::world::{World, unlimited};

#[tokio::test(start_paused = true)]
async fn unknown_paths_and_methods_are_404() {
    let client = World::default().await.client;
    for (method, path) in [
        ("GET", "/api/v1/nope"),
        ("PATCH", "/api/v1/push"),
        ("GET", "/api/v2/push"),
    ] {
        let answer = client.call(method, path, &Value::Null).await;
        assert_eq!(answer.status, 404);
        assert_eq!(
            answer.json(),
            json!({"error": "Not Found", "code": "no_such_route"})
        );
    }
    assert_eq!(
        client.call("GET", "/status", &Value::Null).await.json()["status"],
        "ok"
    );
}

#[tokio::test(start_paused = true)]
async fn a_body_above_the_ceiling_is_413() {
    let world = World::new(Options {
        max_body_bytes: 1000,
        ..Options::default()
    })
    .await;
    let fits = format!("{:1000}", r#"{"items":[]}"#);
    let answer = world
        .client
        .try_call("POST", "/api/v1/push", &fits)
        .await
        .unwrap();
    assert_eq!(answer.status, 201);
    let answer = world
        .client
        .try_call("POST", "/api/v1/push", &format!("{fits} "))
        .await
        .unwrap();
    assert_eq!(answer.status, 413);
}

#[tokio::test(start_paused = true)]
async fn bodies_wait_for_memory_and_all_are_served() {
    let world = World::new(Options {
        max_inflight_body_bytes: 4096,
        ..Options::default()
    })
    .await;
    let body = json!({"items": [{"queue": "q", "partition": "0", "payload": "x".repeat(3000)}]})
        .to_string();
    let calls: Vec<_> = (0..20)
        .map(|_| {
            let (client, body) = (world.client.clone(), body.clone());
            tokio::spawn(async move {
                client
                    .try_call("POST", "/api/v1/push", &body)
                    .await
                    .unwrap()
                    .status
            })
        })
        .collect();
    for call in calls {
        assert_eq!(call.await.unwrap(), 201);
    }
    // Larger than all the memory there is: served alone.
    let body = json!({"items": [{"queue": "q", "partition": "0", "payload": "x".repeat(9000)}]});
    world.client.post("push", 201, body).await;
}

#[tokio::test(start_paused = true)]
async fn tenants_are_apart_when_the_header_is_read() {
    let world = World::new(Options {
        tenancy_header: true,
        ..unlimited()
    })
    .await;
    world.client.push("q", "0", json!("default")).await;
    let mut connection = world.client.connect().await.unwrap();
    let tenant = "6a6a6a6a-0000-4000-8000-000000000007";
    let mut list = async |tenant: &str| {
        connection
            .call(
                "GET",
                "/api/v1/resources/queues",
                &[("x-queen-tenant", tenant)],
                "",
            )
            .await
            .unwrap()
    };
    assert_eq!(list(tenant).await.json()["queues"], json!([]));
    assert_eq!(list("").await.json()["queues"][0]["name"], "q");
    let bad = list("nobody").await;
    assert_eq!(bad.status, 400);
    assert_eq!(
        bad.json(),
        json!({"error": "invalid x-queen-tenant header (must be a UUID)"})
    );
}

#[tokio::test(start_paused = true)]
async fn a_connection_carries_many_calls() {
    let world = World::default().await;
    let mut connection = world.client.connect().await.unwrap();
    for _ in 0..10 {
        let answer = connection.call("GET", "/health", &[], "").await.unwrap();
        assert_eq!(answer.status, 200);
    }
}

#[tokio::test(start_paused = true)]
async fn stopping_answers_parked_fetches_and_refuses_new_connections() {
    let world = World::default().await;
    world.client.push("q", "0", json!(1)).await;
    let parked = tokio::spawn({
        let client = world.client.clone();
        async move {
            let body = json!({"entries": [{"queue": "q", "partition": "0", "offset": 1}], "maxWaitMs": 30_000});
            client.post("fetch", 200, body).await
        }
    });
    tokio::time::sleep(Duration::from_secs(1)).await;
    let started = tokio::time::Instant::now();
    world.queen.stop().await;
    assert_eq!(parked.await.unwrap()["entries"][0]["highWatermark"], 1);
    assert!(started.elapsed() < Duration::from_secs(1));
    assert!(world.client.try_call("GET", "/health", "").await.is_none());
}

#[tokio::test(start_paused = true)]
async fn a_body_that_stops_coming_gives_its_memory_back() {
    use tokio::io::{AsyncReadExt, AsyncWriteExt};

    let world = World::new(Options {
        max_body_bytes: 4096,
        max_inflight_body_bytes: 4096,
        ..Options::default()
    })
    .await;
    let mut stalled = world.client.0.connect().await.unwrap();
    let head = "POST /api/v1/push HTTP/1.1\r\nhost: queen\r\ncontent-length: 4096\r\n\r\n{";
    stalled.write_all(head.as_bytes()).await.unwrap();
    let started = tokio::time::Instant::now();
    tokio::task::yield_now().await;
    world.client.push("q", "0", json!(1)).await;
    assert!(
        started.elapsed() >= Duration::from_secs(29),
        "it waited for the memory"
    );
    let mut answer = vec![0; 12];
    stalled.read_exact(&mut answer).await.unwrap();
    assert_eq!(answer, b"HTTP/1.1 408");
}
