//! Injected faults (contract section 12.3), in process and over the admin route.

use fake_queen::Options;
use fake_queen::faults::{AuthMe, Effect, ItemStatus, RetryAfter, Rule};
use serde_json::{Value, json};

use crate::world::{World, unlimited};

const PUSH: &str = r#"{"items":[{"queue":"q","partition":"0","payload":1}]}"#;

async fn high(world: &World) -> Value {
    world.client.fetch("q", "0", 0).await["highWatermark"].clone()
}

#[tokio::test(start_paused = true)]
async fn a_status_override_does_nothing_else() {
    let world = World::new(unlimited()).await;
    for (retry_after, expected) in [
        (None, None),
        (Some(RetryAfter::Seconds(7)), Some("7")),
        (
            Some(RetryAfter::DateIn(60)),
            Some("Tue, 14 Nov 2023 22:14:20 GMT"),
        ),
    ] {
        let effect = Effect::Status {
            code: 429,
            retry_after,
            body: None,
        };
        world.queen.faults().add(Rule::once("push", effect));
        let answer = world
            .client
            .try_call("POST", "/api/v1/push", PUSH)
            .await
            .unwrap();
        assert_eq!(
            (answer.status, answer.retry_after.as_deref()),
            (429, expected)
        );
    }
    let answer = world
        .client
        .try_call("POST", "/api/v1/push", PUSH)
        .await
        .unwrap();
    assert_eq!(answer.status, 201);
    assert_eq!(high(&world).await, 1);
}

#[tokio::test(start_paused = true)]
async fn connections_are_cut_before_or_after_the_work() {
    let world = World::new(unlimited()).await;
    world
        .queen
        .faults()
        .add(Rule::once("push", Effect::DropBefore));
    assert!(
        world
            .client
            .try_call("POST", "/api/v1/push", PUSH)
            .await
            .is_none()
    );
    world
        .queen
        .faults()
        .add(Rule::once("push", Effect::DropAfter));
    assert!(
        world
            .client
            .try_call("POST", "/api/v1/push", PUSH)
            .await
            .is_none()
    );
    world
        .queen
        .faults()
        .add(Rule::once("push", Effect::StatusAfter { code: 504 }));
    let answer = world
        .client
        .try_call("POST", "/api/v1/push", PUSH)
        .await
        .unwrap();
    assert_eq!(answer.status, 504);
    assert_eq!(high(&world).await, 2, "the last two were done");
}

#[tokio::test(start_paused = true)]
async fn a_call_can_be_done_after_its_connection_was_cut() {
    let world = World::new(unlimited()).await;
    let late = Effect::Late { ms: 5000 };
    world.queen.faults().add(Rule::once("push", late));
    let answer = world.client.try_call("POST", "/api/v1/push", PUSH).await;
    assert!(answer.is_none(), "cut at once");
    assert_eq!(high(&world).await, 0);
    tokio::time::sleep(std::time::Duration::from_secs(6)).await;
    assert_eq!(high(&world).await, 1);
}

#[tokio::test(start_paused = true)]
async fn answers_can_be_slow() {
    let world = World::new(unlimited()).await;
    for effect in [Effect::Delay { ms: 5000 }, Effect::DelayAfter { ms: 5000 }] {
        world.queen.faults().add(Rule::once("push", effect));
        let started = tokio::time::Instant::now();
        world
            .client
            .try_call("POST", "/api/v1/push", PUSH)
            .await
            .unwrap();
        assert_eq!(started.elapsed().as_secs(), 5);
    }
}

#[tokio::test(start_paused = true)]
async fn items_can_have_another_status() {
    let world = World::new(unlimited()).await;
    let statuses = [
        (ItemStatus::Error, "error", false),
        (ItemStatus::Failed, "failed", false),
        (ItemStatus::Buffered, "buffered", true),
        (ItemStatus::Duplicate, "duplicate", true),
    ];
    let items: Vec<Value> = (0..3)
        .map(|n| json!({"queue": "q", "partition": "0", "payload": n}))
        .collect();
    let mut expected = 0;
    for (status, text, stored) in statuses {
        let effect = Effect::PushItem {
            index: Some(1),
            status,
        };
        world.queen.faults().add(Rule::once("push", effect));
        let results = world
            .client
            .post("push", 201, json!({ "items": items }))
            .await;
        assert_eq!(results[0]["status"], "queued");
        assert_eq!(results[1]["status"], text);
        assert_eq!(results[2]["status"], "queued");
        assert_eq!(
            results[1].get("offset").is_some(),
            status == ItemStatus::Duplicate
        );
        // The spool's replay runs after the answer.
        tokio::time::sleep(std::time::Duration::from_secs(1)).await;
        expected += if stored { 3 } else { 2 };
        assert_eq!(high(&world).await, expected, "{text}");
    }
}

#[tokio::test(start_paused = true)]
async fn answers_can_lack_what_clients_hope_for() {
    let world = World::new(unlimited()).await;
    let faults = world.queen.faults();
    faults.add(Rule::always("push", Effect::OmitOffsets));
    faults.add(Rule::always("kv", Effect::TruncateGetMany { rows: 1 }));
    faults.add(Rule::always("kv", Effect::OmitWinner));
    faults.add(Rule::always("fetch", Effect::UnknownLane { error: true }));
    assert!(
        world
            .client
            .push("q", "0", json!(1))
            .await
            .get("offset")
            .is_none()
    );
    let operations = json!([
        {"op": "put", "ns": "n", "key": "a", "value": 1, "forever": true},
        {"op": "put", "ns": "n", "key": "b", "value": 1, "forever": true},
        {"op": "getMany", "ns": "n", "keys": ["a", "b", "c"]},
    ]);
    let many = world.client.post("kv", 200, operations).await["results"][2].clone();
    assert_eq!(many["rows"].as_array().unwrap().len(), 1);
    assert_eq!(
        (&many["missing"], &many["truncated"]),
        (&json!(["c"]), &json!(true))
    );
    let lost = json!([{"op": "put", "ns": "n", "key": "a", "value": 1, "forever": true, "expect": 0, "required": true}]);
    let lost = world.client.post("kv", 200, lost).await;
    assert_eq!(lost, json!({"ok": false, "reason": "kv_precondition"}));
    let entry = world.client.fetch("q", "9", 0).await;
    assert_eq!(entry["error"], "UNKNOWN_TOPIC_OR_PARTITION");
}

#[tokio::test(start_paused = true)]
async fn callers_can_be_shown_as_others() {
    let world = World::new(unlimited()).await;
    let me = || world.client.call("GET", "/auth/me", &Value::Null);
    assert_eq!(me().await.json()["acting_cluster"]["id"], "local");
    for (mode, status) in [(AuthMe::ApiKey, 200), (AuthMe::Unauthorized, 401)] {
        world.queen.faults().clear();
        world
            .queen
            .faults()
            .add(Rule::always("auth_me", Effect::AuthMe { mode }));
        let answer = me().await;
        assert_eq!(answer.status, status);
        assert_eq!(
            answer.json().get("principal").is_some(),
            mode == AuthMe::ApiKey
        );
    }
}

#[tokio::test(start_paused = true)]
async fn the_admin_route_is_off_unless_asked_for() {
    let world = World::new(unlimited()).await;
    let answer = world.client.call("GET", "/fake/faults", &Value::Null).await;
    assert_eq!(
        (answer.status, answer.json()["code"].clone()),
        (404, json!("no_such_route"))
    );

    let world = World::new(Options {
        faults_route: true,
        ..unlimited()
    })
    .await;
    let rules = json!([{"route": "push", "skip": 1, "count": 1, "effect": {"status": {"code": 503}}},
        {"route": "fetch", "body_contains": "poison", "effect": "drop_before"}]);
    let added = world.client.call("POST", "/fake/faults", &rules).await;
    assert_eq!(added.status, 204);
    let mut seen = Vec::new();
    for _ in 0..3 {
        let answer = world
            .client
            .try_call("POST", "/api/v1/push", PUSH)
            .await
            .unwrap();
        seen.push(answer.status);
    }
    assert_eq!(seen, [201, 503, 201]);
    let poison = r#"{"entries":[{"queue":"poison","offset":0}]}"#;
    assert!(
        world
            .client
            .try_call("POST", "/api/v1/fetch", poison)
            .await
            .is_none()
    );
    let shown = world
        .client
        .call("GET", "/fake/faults", &Value::Null)
        .await
        .json();
    assert_eq!(
        (&shown["rules"][0]["seen"], &shown["rules"][1]["seen"]),
        (&json!(3), &json!(1))
    );
    let bad = world
        .client
        .call("POST", "/fake/faults", &json!({"effect": "explode"}))
        .await;
    assert_eq!(bad.status, 400);
    world
        .client
        .call("DELETE", "/fake/faults", &Value::Null)
        .await;
    let shown = world
        .client
        .call("GET", "/fake/faults", &Value::Null)
        .await
        .json();
    assert_eq!(shown["rules"], json!([]));
}
