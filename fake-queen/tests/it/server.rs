//! HTTP itself: unknown paths, ceilings, tenants, connections, stopping (contract section 1).

use std::time::Duration;

use fake_queen::Options;
use host::BoxStream;
use serde_json::{Value, json};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::time::Instant;

use crate::world::{World, unlimited};

/// How long a body that does not come is waited for.
const STALL: Duration = Duration::from_secs(30);

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
        max_inflight_body_bytes: 64 << 10,
        ..Options::default()
    })
    .await;
    let body = json!({"items": [{"queue": "q", "partition": "0", "payload": "x".repeat(50_000)}]})
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
    let body = json!({"items": [{"queue": "q", "partition": "0", "payload": "x".repeat(150_000)}]});
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

/// Connections that announce a body and send its beginning.
async fn begun(world: &World, connections: usize, announced: usize, sent: usize) -> Vec<BoxStream> {
    let mut open = Vec::new();
    for _ in 0..connections {
        let mut stream = world.client.0.connect().await.unwrap();
        let head = format!(
            "POST /api/v1/push HTTP/1.1\r\nhost: queen\r\ncontent-length: {announced}\r\n\r\n"
        );
        stream.write_all(head.as_bytes()).await.unwrap();
        stream.write_all(&vec![b' '; sent]).await.unwrap();
        open.push(stream);
    }
    open
}

async fn status(stream: &mut BoxStream) -> String {
    let mut answer = vec![0; 12];
    stream.read_exact(&mut answer).await.unwrap();
    String::from_utf8(answer).unwrap()
}

#[tokio::test(start_paused = true)]
async fn bodies_that_are_only_announced_hold_nothing_and_are_given_up() {
    let world = World::new(Options {
        max_body_bytes: 1 << 20,
        max_inflight_body_bytes: 4 << 20,
        ..Options::default()
    })
    .await;
    let mut slow = begun(&world, 16, 1 << 20, 1).await;
    let started = Instant::now();
    let large =
        json!({"items": [{"queue": "q", "partition": "0", "payload": "x".repeat(900_000)}]});
    for _ in 0..5 {
        world.client.post("push", 201, large.clone()).await;
    }
    assert!(started.elapsed() < Duration::from_secs(1), "nobody waits");
    // A byte now and then is no pace.
    for stream in &mut slow {
        let dripping = async {
            loop {
                tokio::time::sleep(Duration::from_secs(8)).await;
                if stream.write_all(b" ").await.is_err() {
                    std::future::pending::<()>().await;
                }
            }
        };
        let _ = tokio::time::timeout(STALL, dripping).await;
    }
    assert_eq!(status(&mut slow[15]).await, "HTTP/1.1 408");
    assert_eq!(status(&mut slow[0]).await, "HTTP/1.1 408");
}

#[tokio::test(start_paused = true)]
async fn a_body_that_stops_coming_gives_its_memory_back_to_who_waits() {
    let world = World::new(Options {
        max_body_bytes: 128 << 10,
        max_inflight_body_bytes: 256 << 10,
        ..Options::default()
    })
    .await;
    let mut stalled = begun(&world, 3, 128 << 10, 100_000).await;
    tokio::time::sleep(Duration::from_secs(1)).await;
    let started = Instant::now();
    let large =
        json!({"items": [{"queue": "q", "partition": "0", "payload": "x".repeat(100_000)}]});
    world.client.post("push", 201, large).await;
    assert!(
        started.elapsed() < Duration::from_secs(2),
        "it did not wait for the stall's end"
    );
    let mut given_up = 0;
    for stream in &mut stalled {
        let heard = tokio::time::timeout(Duration::from_secs(1), status(stream)).await;
        given_up += usize::from(heard.is_ok_and(|heard| heard == "HTTP/1.1 408"));
    }
    assert!(
        (1..3).contains(&given_up),
        "{given_up}: no more than was wanted"
    );
}

#[tokio::test(start_paused = true)]
async fn two_hosts_are_refused() {
    let world = World::default().await;
    let mut stream = world.client.0.connect().await.unwrap();
    let head = b"GET /health HTTP/1.1\r\nhost: a\r\nhost: b\r\n\r\n";
    stream.write_all(head).await.unwrap();
    assert_eq!(status(&mut stream).await, "HTTP/1.1 400");
}
