//! The proxy before those who would take others' room, pass its limits by another spelling, or reach
//! another's data.

use std::time::Duration;

use fake_queen::proxy::{CellFile, Options, Plan, Rate, Scopes};
use host::{BoxStream, Secret};
use rstest::rstest;
use serde_json::{Value, json};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::time::Instant;

use crate::proxy::{Rig, SHARED, refused};

/// A push that announces `announced` bytes and sends `sent` of them.
async fn begun(rig: &Rig, secret: &Secret<String>, announced: usize, sent: usize) -> BoxStream {
    let mut stream = rig.proxy.0.connect().await.unwrap();
    let head = format!(
        "POST /api/v1/push HTTP/1.1\r\nhost: {SHARED}\r\nauthorization: Bearer {}\r\n\
         content-length: {announced}\r\n\r\n",
        secret.expose()
    );
    stream.write_all(head.as_bytes()).await.unwrap();
    stream.write_all(&vec![b' '; sent]).await.unwrap();
    stream
}

async fn status(stream: &mut BoxStream) -> String {
    let mut answer = vec![0; 12];
    stream.read_exact(&mut answer).await.unwrap();
    String::from_utf8(answer).unwrap()
}

#[tokio::test(start_paused = true)]
async fn a_cluster_that_fills_its_share_leaves_others_theirs() {
    let options = Options {
        max_body_bytes: 256 << 10,
        max_inflight_body_bytes: 1 << 20,
        ..Options::default()
    };
    let rig = Rig::start_with(options, |connect| connect).await;
    let (_, greedy) = rig.key("acme", Scopes::ALL);
    let (_, other) = rig.key("other", Scopes::ALL);
    let mut slow = Vec::new();
    for _ in 0..16 {
        slow.push(begun(&rig, &greedy, 256 << 10, 250 << 10).await);
    }
    let started = Instant::now();
    let payload = "x".repeat(200 << 10);
    let body = json!({"items": [{"queue": "q", "partition": "0", "payload": payload}]});
    let answer = rig.call(&other, "POST", "/api/v1/push", &body).await;
    assert_eq!(answer.status, 201, "{}", answer.text);
    assert!(started.elapsed() < Duration::from_millis(100), "it waited");
    assert_eq!(status(&mut slow[0]).await, "HTTP/1.1 408");
}

#[tokio::test(start_paused = true)]
async fn a_body_that_stops_coming_is_told_so() {
    let rig = Rig::start().await;
    let (_, secret) = rig.key("acme", Scopes::ALL);
    let mut slow = begun(&rig, &secret, 1000, 1).await;
    let mut answer = String::new();
    slow.read_to_string(&mut answer).await.unwrap();
    assert!(answer.starts_with("HTTP/1.1 408"), "{answer}");
    assert!(answer.contains("request_timeout"), "{answer}");
}

#[rstest]
#[case("wait=true", 429)]
#[case("wait=%74rue", 429)]
#[case("%77ait=true", 429)]
#[case("batch=1&wait=tru%65&timeout=10", 429)]
#[case("wait=TRUE", 429)]
#[case("wait=false&wait=true", 400)]
#[case("wait=false", 204)]
#[case("timeout=10", 204)]
#[tokio::test(start_paused = true)]
async fn a_wait_is_one_in_every_spelling(#[case] query: &str, #[case] status: u16) {
    let rig = Rig::start().await;
    let (_, secret) = rig.key("acme", Scopes::ALL);
    let plan = Plan {
        max_parked: Some(0),
        ..Plan::default()
    };
    rig.cell.set_plan("acme", plan).unwrap();
    let path = format!("/api/v1/pop/queue/q?{query}");
    let answer = rig.call(&secret, "GET", &path, &Value::Null).await;
    assert_eq!(answer.status, status, "{}", answer.text);
}

#[tokio::test(start_paused = true)]
async fn two_hosts_are_refused() {
    let rig = Rig::start().await;
    let (_, secret) = rig.key("acme", Scopes::ALL);
    let mut stream = rig.proxy.0.connect().await.unwrap();
    let head = format!(
        "GET /auth/me HTTP/1.1\r\nhost: acme.test\r\nhost: other.test\r\n\
         authorization: Bearer {}\r\n\r\n",
        secret.expose()
    );
    stream.write_all(head.as_bytes()).await.unwrap();
    assert_eq!(status(&mut stream).await, "HTTP/1.1 400");
}

#[tokio::test(start_paused = true)]
async fn what_was_refused_takes_no_name_of_the_plan() {
    let rig = Rig::start().await;
    let (_, secret) = rig.key("acme", Scopes::ALL);
    let plan = Plan {
        messages: Some(Rate {
            per_second: 1,
            burst: 1,
        }),
        max_queues: Some(2),
        ..Plan::default()
    };
    rig.cell.set_plan("acme", plan).unwrap();
    assert_eq!(rig.push(&secret, "a").await.status, 201);
    refused(&rig.push(&secret, "b").await, 429, "rate_limited");
    tokio::time::sleep(Duration::from_secs(2)).await;
    // The broker takes no such name.
    let too_long = rig.push(&secret, &"q".repeat(1000)).await;
    assert_eq!(too_long.json()[0]["status"], "error");
    tokio::time::sleep(Duration::from_secs(2)).await;
    assert_eq!(rig.push(&secret, "c").await.status, 201);
    tokio::time::sleep(Duration::from_secs(2)).await;
    refused(&rig.push(&secret, "d").await, 403, "quota_exceeded");
}

#[rstest]
#[case::case(&["Acme", "acme"], "acme is there twice")]
#[case::same(&["acme", "acme"], "acme is there twice")]
#[case::empty(&[""], "\"\" is none")]
#[case::dots(&["acme.eu"], "\"acme.eu\" is none")]
#[case::long(&["a23456789012345678901234567890123456789012345678901234567890abcd"], "is none")]
fn clusters_of_one_host_are_refused(#[case] slugs: &[&str], #[case] said: &str) {
    let tenant = |n: usize| format!("{n:08}-0000-4000-8000-000000000000");
    let clusters: Vec<Value> = (slugs.iter().enumerate())
        .map(|(n, slug)| json!({"slug": slug, "tenant": tenant(n)}))
        .collect();
    let file = json!({ "clusters": clusters }).to_string();
    let error = CellFile::parse(file.as_bytes()).unwrap_err().to_string();
    assert!(error.contains(said), "{error}");
}
