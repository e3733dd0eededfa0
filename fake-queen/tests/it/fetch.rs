//! `fetch`: bounds, budgets, errors, parking (contract sections 4.4 to 4.7).

use std::time::Duration;

use fake_queen::Options;
use serde_json::{Value, json};

use crate::world::{START_MS, World};

#[tokio::test(start_paused = true)]
async fn bounds_are_those_of_the_log() {
    let client = World::default().await.client;
    for n in 0..3 {
        client.push("q", "0", json!(n)).await;
    }
    let entry = client.fetch("q", "0", 0).await;
    assert_eq!(entry["records"].as_array().unwrap().len(), 3);
    assert_eq!(entry["records"][2]["offset"], 2);
    let ts = entry["records"][0]["ts"].as_str().unwrap();
    assert_eq!(ts, "2023-11-14T22:13:20.000000Z");
    assert_eq!(fake_queen::time::parse_ms(ts), Some(START_MS));

    let entry = client.fetch("q", "0", 3).await;
    assert_eq!(
        (&entry["records"], &entry["highWatermark"]),
        (&json!([]), &json!(3))
    );
    assert!(entry.get("error").is_none());

    for offset in [4, i64::MAX] {
        let entry = client.fetch("q", "0", offset).await;
        assert_eq!(entry["error"], "OFFSET_OUT_OF_RANGE");
        assert_eq!(
            (&entry["logStartOffset"], &entry["highWatermark"]),
            (&json!(0), &json!(3))
        );
    }
}

#[tokio::test(start_paused = true)]
async fn unknown_queues_are_errors_and_unknown_lanes_empty_logs() {
    let client = World::default().await.client;
    client.push("q", "0", json!(1)).await;
    let body = json!({"entries": [
        {"queue": "r", "partition": 0, "offset": 0},
        {"queue": "q", "partition": 7, "offset": 0},
        {"queue": "q", "partition": "7", "offset": 1},
        {"queue": "q", "offset": 0},
        {"queue": "q", "partition": 0, "offset": 0},
    ], "maxWaitMs": 30_000});
    let entries = client.post("fetch", 200, body).await["entries"].clone();
    assert_eq!(entries[0]["error"], "UNKNOWN_TOPIC_OR_PARTITION");
    assert_eq!(entries[0]["highWatermark"], 0);
    assert_eq!(
        entries[1],
        json!({"queue": "q", "partition": "7", "records": [],
        "highWatermark": 0, "logStartOffset": 0})
    );
    assert_eq!(entries[2]["error"], "OFFSET_OUT_OF_RANGE");
    assert_eq!(entries[3]["partition"], "Default");
    assert_eq!(entries[4]["records"][0]["payload"], 1);
}

#[tokio::test(start_paused = true)]
async fn bad_batches_are_refused_whole() {
    let client = World::default().await.client;
    assert_eq!(
        client.post("fetch", 200, json!({"entries": []})).await,
        json!({"entries": []})
    );
    let entry = json!({"queue": "q", "offset": 0});
    let entries = |n: usize| json!({"entries": vec![entry.clone(); n]});
    client.post("fetch", 200, entries(1024)).await;
    client.post("fetch", 400, entries(1025)).await;
    for entry in [
        json!({"queue": "q", "offset": -1}),
        json!({"queue": "q"}),
        json!({"queue": "q", "offset": "0"}),
        json!({"queue": "q", "offset": 0, "partition": {}}),
    ] {
        let body = json!({"entries": [{"queue": "q", "offset": 0}, entry]});
        client.post("fetch", 400, body).await;
    }
}

fn payloads(entry: &Value) -> usize {
    entry["records"].as_array().unwrap().len()
}

#[tokio::test(start_paused = true)]
async fn budgets_are_spent_in_stored_bytes_and_the_first_record_is_always_delivered() {
    let client = World::default().await.client;
    // Compresses to a small part of its JSON.
    let item = json!({"queue": "q", "partition": "0", "payload": "x".repeat(1000)});
    client
        .post("push", 201, json!({"items": vec![item; 100]}))
        .await;
    let fetch = |max_bytes: usize| {
        let client = client.clone();
        async move {
            let entry = json!({"queue": "q", "partition": "0", "offset": 0, "maxBytes": max_bytes});
            let body = json!({"entries": [entry, entry]});
            client.post("fetch", 200, body).await["entries"].clone()
        }
    };
    let both = fetch(1).await;
    assert_eq!((payloads(&both[0]), payloads(&both[1])), (1, 0));
    assert_eq!(both[1]["highWatermark"], 100);
    let both = fetch(20_000).await;
    assert_eq!((payloads(&both[0]), payloads(&both[1])), (100, 100));
    let some = payloads(&fetch(400).await[0]);
    assert!((2..100).contains(&some), "{some}");
}

#[tokio::test(start_paused = true)]
async fn a_fetch_parks_until_a_push() {
    let client = World::default().await.client;
    client.push("q", "0", json!(0)).await;
    let started = tokio::time::Instant::now();
    let parked = tokio::spawn({
        let client = client.clone();
        async move {
            let body = json!({"entries": [
                {"queue": "q", "partition": "1", "offset": 0},
                {"queue": "q", "partition": "0", "offset": 1},
            ], "maxWaitMs": 10_000});
            client.post("fetch", 200, body).await
        }
    });
    tokio::time::sleep(Duration::from_millis(700)).await;
    client.push("q", "2", json!("elsewhere")).await;
    tokio::time::sleep(Duration::from_millis(700)).await;
    assert!(!parked.is_finished());
    client.push("q", "1", json!("here")).await;
    let answer = parked.await.unwrap();
    assert_eq!(answer["entries"][0]["records"][0]["payload"], "here");
    assert_eq!(started.elapsed().as_millis(), 1400);
}

#[tokio::test(start_paused = true)]
async fn waiting_ends_with_time_and_is_never_begun_without_need() {
    let client = World::default().await.client;
    client.push("q", "0", json!("12345678")).await;
    let fetch = |offset: i64, min_bytes: i64, wait_ms: u64| {
        let client = client.clone();
        async move {
            let started = tokio::time::Instant::now();
            let body = json!({"entries": [{"queue": "q", "partition": "0", "offset": offset}],
                "maxWaitMs": wait_ms, "minBytes": min_bytes});
            client.post("fetch", 200, body).await;
            started.elapsed().as_millis()
        }
    };
    assert_eq!(fetch(1, 1, 500).await, 500);
    assert_eq!(fetch(1, 0, 500).await, 0);
    assert_eq!(fetch(1, -4, 500).await, 0);
    assert_eq!(fetch(0, 10, 500).await, 0);
    assert_eq!(fetch(0, 11, 500).await, 500);
    assert_eq!(fetch(1, 1, 90_000).await, 30_000);
}

#[tokio::test(start_paused = true)]
async fn deleting_the_queue_wakes_who_waits_for_it() {
    let client = World::default().await.client;
    client.push("q", "0", json!(1)).await;
    let parked = tokio::spawn({
        let client = client.clone();
        async move {
            let body = json!({"entries": [{"queue": "q", "partition": "9", "offset": 0}],
                "maxWaitMs": 30_000});
            client.post("fetch", 200, body).await
        }
    });
    tokio::time::sleep(Duration::from_secs(1)).await;
    client
        .call("DELETE", "/api/v1/resources/queues/q", &Value::Null)
        .await;
    let answer = parked.await.unwrap();
    assert_eq!(answer["entries"][0]["error"], "UNKNOWN_TOPIC_OR_PARTITION");
}

#[tokio::test(start_paused = true)]
async fn records_per_entry_are_bounded() {
    let client = World::default().await.client;
    let item = json!({"queue": "q", "partition": "0", "payload": 0});
    client
        .post("push", 201, json!({"items": vec![item; 10_001]}))
        .await;
    assert_eq!(payloads(&client.fetch("q", "0", 0).await), 10_000);
    assert_eq!(payloads(&client.fetch("q", "0", 10_000).await), 1);
}

#[tokio::test(start_paused = true)]
async fn fetch_offsets_is_off_on_1_x_and_finds_by_append_time() {
    let client = World::default().await.client;
    client
        .post("fetch/offsets", 404, json!({"entries": []}))
        .await;
    let client = World::new(Options {
        fetch_offsets: true,
        ..Options::default()
    })
    .await
    .client;
    let mut instants = Vec::new();
    for n in 0..5 {
        client.push("q", "0", json!(n)).await;
        let ts = client.fetch("q", "0", n).await["records"][0]["ts"].clone();
        instants.push(fake_queen::time::parse_ms(ts.as_str().unwrap()).unwrap());
        tokio::time::advance(Duration::from_secs(10)).await;
    }
    let find = |timestamp: Value| {
        let client = client.clone();
        async move {
            let body = json!({"entries": [{"queue": "q", "partition": 0, "timestamp": timestamp}]});
            client.post("fetch/offsets", 200, body).await["entries"][0].clone()
        }
    };
    for (n, instant) in instants.iter().enumerate() {
        assert_eq!(find(json!(instant)).await["offset"], n);
        assert_eq!(find(json!(instant - 1)).await["offset"], n);
    }
    assert_eq!(find(json!(0)).await["offset"], 0);
    let none = find(json!(instants[4] + 1)).await;
    assert_eq!(
        (&none["offset"], &none["ts"], &none["highWatermark"]),
        (&json!(null), &json!(null), &json!(5))
    );
    let iso = fake_queen::time::millis_string(instants[2]);
    assert_eq!(find(json!(iso)).await["offset"], 2);
    for bad in [json!(-1), json!("soon"), json!(null)] {
        let body = json!({"entries": [{"queue": "q", "timestamp": bad}]});
        client.post("fetch/offsets", 400, body).await;
    }
}
