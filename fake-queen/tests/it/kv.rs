//! The KV store over HTTP (contract section 7).

use std::time::Duration;

use fake_queen::Options;
use serde_json::{Value, json};

use crate::world::{World, unlimited};

fn put(key: &str, value: Value) -> Value {
    json!({"op": "put", "ns": "n", "key": key, "value": value, "forever": true})
}

fn with(mut operation: Value, fields: Value) -> Value {
    let more = fields.as_object().unwrap().clone();
    operation.as_object_mut().unwrap().extend(more);
    operation
}

async fn kv(client: &crate::client::Client, operations: Value) -> Value {
    client.post("kv", 200, operations).await
}

#[tokio::test(start_paused = true)]
async fn conditions_name_their_winner() {
    let client = World::new(unlimited()).await.client;
    let first = kv(
        &client,
        json!([with(put("k", json!({"a": 1})), json!({"expect": 0}))]),
    )
    .await;
    let version = first["results"][0]["version"].clone();
    assert_eq!(first["results"][0]["applied"], true);

    let lost = kv(
        &client,
        json!([with(put("k", json!(2)), json!({"expect": 0}))]),
    )
    .await;
    let lost = &lost["results"][0];
    assert_eq!(
        (&lost["applied"], &lost["reason"]),
        (&json!(false), &json!("exists"))
    );
    assert_eq!(
        (&lost["version"], &lost["value"]),
        (&version, &json!({"a": 1}))
    );

    let wrong = kv(
        &client,
        json!([with(put("k", json!(2)), json!({"expect": 999_999}))]),
    )
    .await;
    assert_eq!(wrong["results"][0]["reason"], "version");
    let absent = kv(
        &client,
        json!([with(put("l", json!(2)), json!({"expect": 5}))]),
    )
    .await;
    assert_eq!(absent["results"][0]["reason"], "absent");
    assert_eq!(absent["results"][0]["version"], 0);
    assert_eq!(absent["results"][0]["value"], json!(null));

    let won = kv(
        &client,
        json!([with(put("k", json!(2)), json!({"expect": version}))]),
    )
    .await;
    assert_eq!(won["results"][0]["applied"], true);
    assert_ne!(won["results"][0]["version"], version);
}

#[tokio::test(start_paused = true)]
async fn deletes_tell_what_was_there() {
    let client = World::new(unlimited()).await.client;
    kv(&client, json!([put("k", json!(1))])).await;
    let delete = |fields: Value| with(json!({"op": "delete", "ns": "n", "key": "k"}), fields);
    let gone = kv(&client, json!([delete(json!({}))])).await;
    assert_eq!(
        (&gone["results"][0]["applied"], &gone["results"][0]["value"]),
        (&json!(true), &json!(1))
    );
    let absent = kv(&client, json!([delete(json!({}))])).await;
    assert_eq!(absent["results"][0]["reason"], "absent");
    let expected = kv(&client, json!([delete(json!({"expect": 0}))])).await;
    assert_eq!(
        (
            &expected["results"][0]["applied"],
            &expected["results"][0]["version"]
        ),
        (&json!(true), &json!(0))
    );
}

#[tokio::test(start_paused = true)]
async fn a_required_loss_applies_nothing() {
    let client = World::new(unlimited()).await.client;
    kv(&client, json!([put("k", json!("winner"))])).await;
    let lost = kv(
        &client,
        json!([
            put("a", json!(1)),
            with(put("k", json!(2)), json!({"expect": 0, "required": true}))
        ]),
    )
    .await;
    assert_eq!(lost["ok"], false);
    assert_eq!(lost["reason"], "kv_precondition");
    assert_eq!(
        (&lost["failedIndex"], &lost["kvReason"]),
        (&json!(1), &json!("exists"))
    );
    assert_eq!(lost["value"], "winner");
    assert!(lost["version"].as_u64().unwrap() > 0);
    assert!(lost.get("results").is_none());
    let read = kv(&client, json!([{"op": "get", "ns": "n", "key": "a"}])).await;
    assert_eq!(read["results"][0]["found"], false);
}

#[tokio::test(start_paused = true)]
async fn bulk_reads_see_the_calls_own_writes() {
    let client = World::new(unlimited()).await.client;
    kv(
        &client,
        json!([
            put("p:1", json!(1)),
            put("p:2", json!(2)),
            put("q", json!(0))
        ]),
    )
    .await;
    let seen = kv(
        &client,
        json!([
            {"op": "getPrefix", "ns": "n", "prefix": "p:"},
            {"op": "getMany", "ns": "n", "keys": ["x", "p:3", "p:1", "p:1"]},
            {"op": "delete", "ns": "n", "key": "p:2"},
            put("p:3", json!(3)),
        ]),
    )
    .await;
    let keys = |result: &Value| -> Vec<Value> {
        let rows = result["rows"].as_array().unwrap();
        rows.iter().map(|row| row["key"].clone()).collect()
    };
    assert_eq!(keys(&seen["results"][0]), ["p:1", "p:3"]);
    assert_eq!(keys(&seen["results"][1]), ["p:1", "p:3"]);
    assert_eq!(seen["results"][1]["missing"], json!(["x"]));
    assert_eq!(seen["results"][1]["truncated"], false);
    assert_eq!(seen["results"][2]["index"], 2);
}

#[tokio::test(start_paused = true)]
async fn prefixes_are_paged_in_byte_order() {
    let client = World::new(unlimited()).await.client;
    let keys = ["p:B", "p:a", "p:é", "p:", "o", "q"];
    kv(&client, keys.iter().map(|key| put(key, json!(1))).collect()).await;
    let (mut after, mut seen) = (json!(null), Vec::new());
    loop {
        let page = kv(
            &client,
            json!([{"op": "getPrefix", "ns": "n", "prefix": "p:", "limit": 2, "after": after,
                "keysOnly": true}]),
        )
        .await["results"][0]
            .clone();
        for row in page["rows"].as_array().unwrap() {
            assert!(row.get("value").is_none());
            seen.push(row["key"].clone());
        }
        after = page["nextAfter"].clone();
        assert_eq!(page["truncated"], json!(!after.is_null()));
        if after.is_null() {
            break;
        }
    }
    assert_eq!(seen, ["p:", "p:B", "p:a", "p:é"]);
}

#[tokio::test(start_paused = true)]
async fn an_expired_row_is_absent_at_once() {
    let client = World::new(unlimited()).await.client;
    let ttl = json!({"op": "put", "ns": "n", "key": "k", "value": 1, "ttlSeconds": 10});
    let row = kv(
        &client,
        json!([ttl, {"op": "getMany", "ns": "n", "keys": ["k"]}]),
    )
    .await;
    assert_eq!(
        row["results"][1]["rows"][0]["expiresAt"],
        "2023-11-14T22:13:30.000Z"
    );
    tokio::time::advance(Duration::from_millis(9_999)).await;
    let get = json!([{"op": "get", "ns": "n", "key": "k"}]);
    assert_eq!(kv(&client, get.clone()).await["results"][0]["found"], true);
    tokio::time::advance(Duration::from_millis(1)).await;
    assert_eq!(kv(&client, get).await["results"][0]["found"], false);
    let again = json!([{"op": "putIfAbsent", "ns": "n", "key": "k", "value": 2, "forever": true}]);
    let again = kv(&client, again).await;
    assert_eq!(
        (&again["results"][0]["applied"], &again["results"][0]["op"]),
        (&json!(true), &json!("putIfAbsent"))
    );
    // The sweep of the old expiry must not take the new row.
    tokio::time::sleep(Duration::from_secs(20)).await;
    assert_eq!(
        client.get("resources/kv/namespaces").await["namespaces"][0]["rows"],
        1
    );
}

#[tokio::test(start_paused = true)]
async fn incr_counts_within_bounds() {
    let client = World::new(unlimited()).await.client;
    let incr = |delta: i64| json!([{"op": "incr", "ns": "n", "key": "k", "delta": delta, "max": 5, "min": -1, "forever": true}]);
    assert_eq!(kv(&client, incr(4)).await["results"][0]["value"], 4);
    let lost = kv(&client, incr(2)).await["results"][0].clone();
    assert_eq!(
        (&lost["reason"], &lost["value"]),
        (&json!("limit"), &json!(4))
    );
    assert_eq!(kv(&client, incr(-5)).await["results"][0]["value"], -1);
    kv(&client, json!([put("k", json!("text"))])).await;
    assert_eq!(kv(&client, incr(1)).await["results"][0]["reason"], "type");
}

#[tokio::test(start_paused = true)]
async fn bad_calls_say_why() {
    let client = World::new(unlimited()).await.client;
    for body in [json!([]), json!({"operations": []})] {
        assert_eq!(kv(&client, body).await, json!({"results": []}));
    }
    let bad = client
        .post(
            "kv",
            400,
            json!([{"op": "put", "ns": "n", "key": "k", "value": 1}]),
        )
        .await;
    assert_eq!(
        (&bad["error"], &bad["reason"]),
        (&json!("kv_bad_request"), &json!("kv_expiry_not_specified"))
    );
    let large = client
        .post("kv", 413, json!([put(&"k".repeat(513), json!(1))]))
        .await;
    assert_eq!(
        (&large["error"], &large["reason"]),
        (&json!("payload_too_large"), &json!("kv_key_too_large"))
    );
    client.post("kv", 400, json!("text")).await;
}

#[tokio::test(start_paused = true)]
async fn calls_are_rated_unless_told_otherwise() {
    let client = World::default().await.client;
    let write = json!([put("k", json!(1))]);
    for _ in 0..200 {
        kv(&client, write.clone()).await;
    }
    let answer = client.call("POST", "/api/v1/kv", &write).await;
    assert_eq!(
        (answer.status, answer.retry_after.as_deref()),
        (429, Some("1"))
    );
    assert_eq!(answer.json()["error"], "rate_limited");
    let bundle = client
        .call(
            "POST",
            "/api/v1/transaction",
            &json!({"operations": [], "kv": write}),
        )
        .await;
    assert_eq!(
        (bundle.status, bundle.json()["reason"].clone()),
        (429, json!("rate_limited"))
    );
    tokio::time::advance(Duration::from_secs(1)).await;
    kv(&client, write).await;
}

#[tokio::test(start_paused = true)]
async fn grants_and_the_kill_switch() {
    let client = World::new(Options {
        kv_require_grant: true,
        ..Options::default()
    })
    .await
    .client;
    let write = json!([put("k", json!(1))]);
    let gated = client.post("kv", 403, write.clone()).await;
    assert_eq!(gated["error"], "feature_gated");
    kv(&client, json!([{"op": "get", "ns": "n", "key": "k"}])).await;
    let grant = json!({"grantTenant": "00000000-0000-0000-0000-000000000001"});
    client.post("system/kv-timers", 200, grant).await;
    kv(&client, write.clone()).await;
    client
        .post("system/kv-timers", 200, json!({"kvEnabled": false}))
        .await;
    assert_eq!(
        client.post("kv", 503, write.clone()).await["error"],
        "kv_disabled"
    );
    let bundle = client.post("transaction", 403, json!({"kv": write})).await;
    assert_eq!(bundle["reason"], "kv_disabled");
}

#[tokio::test(start_paused = true)]
async fn rows_by_path() {
    let client = World::new(unlimited()).await.client;
    let path = "/api/v1/kv/n/a/b%3Ac";
    let answer = client.call("GET", path, &Value::Null).await;
    assert_eq!(
        (answer.status, answer.json()["found"].clone()),
        (200, json!(false))
    );
    let written = client
        .call("PUT", path, &json!({"value": {"x": [1]}, "forever": true}))
        .await
        .json();
    assert_eq!(
        (&written["applied"], &written["key"]),
        (&json!(true), &json!("a/b:c"))
    );
    let answer = client.call("GET", path, &Value::Null).await;
    assert_eq!(answer.etag, Some(format!("\"{}\"", written["version"])));
    assert_eq!(answer.json()["value"], json!({"x": [1]}));
    for (path, body, reason) in [
        ("/api/v1/kv/n/k?x=1", json!(null), "kv_no_query_string"),
        (
            path,
            json!({"key": "k", "value": 1, "forever": true}),
            "kv_field_in_path",
        ),
    ] {
        let answer = client.call("PUT", path, &body).await;
        assert_eq!(
            (answer.status, &answer.json()["reason"]),
            (400, &json!(reason))
        );
    }
    let gone = client.call("DELETE", path, &Value::Null).await.json();
    assert_eq!(gone["applied"], true);
}

#[tokio::test(start_paused = true)]
async fn the_console_lists_rows() {
    let client = World::new(unlimited()).await.client;
    kv(&client, json!([put("a", json!(1)), put("b", json!(2))])).await;
    let body = json!({"namespace": "n", "limit": 1});
    let page = client.post("resources/kv/list", 200, body).await;
    assert_eq!(
        (&page["rows"][0]["key"], &page["nextAfter"]),
        (&json!("a"), &json!("a"))
    );
    client
        .post("resources/kv/list", 400, json!({"namespace": "N!"}))
        .await;
}
