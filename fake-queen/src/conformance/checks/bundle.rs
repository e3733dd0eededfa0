//! Group 9: transactions.

use serde_json::{Value, json};

use crate::conformance::client::{Failure, Probe, ensure};

fn push(queue: &str, count: usize) -> Value {
    let item = json!({"queue": queue, "partition": "0", "payload": "x"});
    json!({"type": "push", "items": vec![item; count]})
}

fn fence(key: &str, expect: &Value) -> Value {
    json!({"op": "put", "ns": "conformance", "key": key, "value": {"seq": 1}, "ttlSeconds": 120,
        "expect": expect, "required": true})
}

pub async fn commits(probe: &Probe) -> Result<(), Failure> {
    let (queue, key) = (probe.fresh(), probe.fresh());
    let body = json!({"operations": [push(&queue, 2)], "kv": [fence(&key, &json!(0))]});
    let done = probe.post("transaction", 200, body).await?;
    let results = done["results"].as_array().cloned().unwrap_or_default();
    ensure!(
        done["success"] == true && results.len() == 3,
        "the bundle answered {done}"
    );
    ensure!(
        results[2]["type"] == "kv"
            && results[2]["index"] == 2
            && results[2]["opIndex"] == 0
            && results[2]["applied"] == true,
        "the row's result is {}",
        results[2]
    );
    let entry = probe.fetch(&queue, "0", 0).await?;
    ensure!(entry["highWatermark"] == 2, "two were pushed: {entry}");
    Ok(())
}

pub async fn lost_fence(probe: &Probe) -> Result<(), Failure> {
    let (queue, key) = (probe.fresh(), probe.fresh());
    probe.push(&queue, "0", &[json!(1)]).await?;
    let body = json!({"operations": [push(&queue, 3)], "kv": [fence(&key, &json!(9))]});
    let lost = probe.post("transaction", 200, body).await?;
    ensure!(
        lost["success"] == false
            && lost["reason"] == "kv_precondition"
            && lost["failedIndex"] == 3
            && lost["kvReason"] == "absent",
        "the bundle answered {lost}"
    );
    let entry = probe.fetch(&queue, "0", 0).await?;
    ensure!(
        entry["highWatermark"] == 1,
        "nothing was to be pushed: {entry}"
    );
    Ok(())
}

pub async fn refusals(probe: &Probe) -> Result<(), Failure> {
    let prefix = json!({"op": "getPrefix", "ns": "conformance", "prefix": "p"});
    let read = json!({"op": "get", "ns": "conformance", "key": "k"});
    for rider in [json!([prefix]), json!(vec![read; 65])] {
        let body = json!({"operations": [], "kv": rider});
        let refused = probe.post("transaction", 400, body).await?;
        ensure!(
            refused["success"] == false && refused["reason"] == "bad_request",
            "the rider answered {refused}"
        );
    }
    Ok(())
}
