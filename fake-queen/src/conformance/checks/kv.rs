//! Groups 7 and 8: KV rows, their conditions and ceilings.

use serde_json::{Value, json};

use crate::conformance::client::{Failure, Probe, ensure};

const NAMESPACE: &str = "conformance";
/// Rows go by themselves.
const TTL_S: u32 = 120;

fn put(key: &str, value: Value) -> Value {
    json!({"op": "put", "ns": NAMESPACE, "key": key, "value": value, "ttlSeconds": TTL_S})
}

fn with(mut operation: Value, fields: Value) -> Value {
    if let (Value::Object(operation), Value::Object(fields)) = (&mut operation, fields) {
        operation.extend(fields);
    }
    operation
}

async fn call(probe: &Probe, status: u16, operations: Value) -> Result<Value, Failure> {
    probe.post("kv", status, operations).await
}

async fn get(probe: &Probe, key: &str) -> Result<Value, Failure> {
    let answer = call(
        probe,
        200,
        json!([{"op": "get", "ns": NAMESPACE, "key": key}]),
    )
    .await?;
    Ok(answer["results"][0].clone())
}

pub async fn expiry(probe: &Probe) -> Result<(), Failure> {
    let key = probe.fresh();
    let bare = json!({"op": "put", "ns": NAMESPACE, "key": key, "value": 1});
    let both = with(put(&key, json!(1)), json!({"forever": true}));
    let no = with(bare.clone(), json!({"forever": false}));
    for operation in [bare, both, no] {
        let refused = call(probe, 400, json!([operation])).await?;
        ensure!(
            refused["error"] == "kv_bad_request" && refused["reason"].is_string(),
            "{operation} answered {refused}"
        );
    }
    let found = get(probe, &key).await?;
    ensure!(found["found"] == false, "a refused put wrote {found}");
    Ok(())
}

pub async fn conditions(probe: &Probe) -> Result<(), Failure> {
    let key = probe.fresh();
    let create = with(put(&key, json!("first")), json!({"expect": 0}));
    let won = call(probe, 200, json!([create.clone()])).await?["results"][0].clone();
    ensure!(won["applied"] == true, "expect 0 on nothing: {won}");
    let lost = call(probe, 200, json!([create])).await?["results"][0].clone();
    ensure!(
        lost["applied"] == false
            && lost["reason"] == "exists"
            && lost["version"] == won["version"]
            && lost["value"] == "first",
        "expect 0 again: {lost}"
    );
    let other = probe.fresh();
    // Any version that is not the row's: where a Queen starts to count is its own affair.
    let current = won["version"].as_u64().unwrap_or_default();
    let wrong = with(put(&key, json!(2)), json!({"expect": current + 1}));
    let absent = with(put(&other, json!(2)), json!({"expect": 1}));
    let delete = json!({"op": "delete", "ns": NAMESPACE, "key": other});
    for (operation, reason) in [(wrong, "version"), (absent, "absent"), (delete, "absent")] {
        let lost = call(probe, 200, json!([operation])).await?["results"][0].clone();
        ensure!(
            lost["applied"] == false && lost["reason"] == reason,
            "{operation} answered {lost}"
        );
    }
    let right = with(put(&key, json!(3)), json!({"expect": won["version"]}));
    let won_again = call(probe, 200, json!([right])).await?["results"][0].clone();
    ensure!(
        won_again["applied"] == true && won_again["version"] != won["version"],
        "the right version: {won_again}"
    );
    Ok(())
}

pub async fn required(probe: &Probe) -> Result<(), Failure> {
    let (a, b) = (probe.fresh(), probe.fresh());
    let fence = with(put(&b, json!(1)), json!({"expect": 5, "required": true}));
    let lost = call(probe, 200, json!([put(&a, json!(1)), fence])).await?;
    ensure!(
        lost["ok"] == false
            && lost["reason"] == "kv_precondition"
            && lost["failedIndex"] == 1
            && lost["kvReason"] == "absent"
            && lost.get("results").is_none(),
        "a lost fence answered {lost}"
    );
    let found = get(probe, &a).await?;
    ensure!(found["found"] == false, "beside a lost fence: {found}");
    Ok(())
}

pub async fn duplicate_key(probe: &Probe) -> Result<(), Failure> {
    let key = probe.fresh();
    let refused = call(
        probe,
        400,
        json!([put(&key, json!(1)), put(&key, json!(2))]),
    )
    .await?;
    ensure!(
        refused["reason"] == "kv_duplicate_key_in_call",
        "two writes to a key: {refused}"
    );
    Ok(())
}

pub async fn ceilings(probe: &Probe) -> Result<(), Failure> {
    let read = json!({"op": "get", "ns": NAMESPACE, "key": "k"});
    let refused = call(probe, 400, json!(vec![read; 257])).await?;
    ensure!(
        refused["reason"] == "kv_too_many_ops",
        "257 operations: {refused}"
    );
    let refused = call(probe, 413, json!([put(&"k".repeat(513), json!(1))])).await?;
    ensure!(
        refused["reason"] == "kv_key_too_large",
        "a key of 513 bytes: {refused}"
    );
    Ok(())
}

pub async fn heartbeat(probe: &Probe) -> Result<(), Failure> {
    let prefix = format!("{}:", probe.fresh());
    let key = format!("{prefix}1");
    let operations = json!([
        with(put(&key, json!({"nodeId": 1})), json!({"expect": 0})),
        {"op": "getPrefix", "ns": NAMESPACE, "prefix": prefix, "limit": 64},
    ]);
    let answer = call(probe, 200, operations).await?;
    let (written, seen) = (&answer["results"][0], &answer["results"][1]);
    ensure!(written["applied"] == true, "the put answered {written}");
    ensure!(
        seen["rows"][0]["key"] == key.as_str()
            && seen["rows"][0]["version"] == written["version"]
            && seen["truncated"] == false,
        "the read beside it answered {seen}"
    );
    Ok(())
}
