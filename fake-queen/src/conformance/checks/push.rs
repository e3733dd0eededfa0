//! Groups 1 and 5: offsets, bounds, payloads.

use serde_json::{Value, json};

use crate::conformance::client::{Failure, Probe, ensure};

pub async fn first_offset(probe: &Probe) -> Result<(), Failure> {
    let queue = probe.fresh();
    let results = probe.push(&queue, "0", &[json!({"n": 1})]).await?;
    let first = &results[0];
    ensure!(
        first["status"] == "queued" && first["offset"] == 0 && first["index"] == 0,
        "the first push answered {first}"
    );
    ensure!(
        first["queueName"] == queue.as_str() && first["message_id"].is_string(),
        "the first push answered {first}"
    );
    Ok(())
}

pub async fn offsets_and_bounds(probe: &Probe) -> Result<(), Failure> {
    let queue = probe.fresh();
    let payloads = [
        json!({"text": "ü\"\\"}),
        json!([1, 2.5, null]),
        json!("three"),
    ];
    let results = probe.push(&queue, "7", &payloads).await?;
    let offsets: Vec<&Value> = results.iter().map(|result| &result["offset"]).collect();
    ensure!(
        offsets == [&json!(0), &json!(1), &json!(2)],
        "offsets {offsets:?}"
    );
    let entry = probe.fetch(&queue, "7", 0).await?;
    let read: Vec<Value> = entry["records"]
        .as_array()
        .into_iter()
        .flatten()
        .map(|record| record["payload"].clone())
        .collect();
    ensure!(read == payloads, "pushed {payloads:?}, read {read:?}");
    for (record, result) in entry["records"]
        .as_array()
        .into_iter()
        .flatten()
        .zip(&results)
    {
        ensure!(
            record["offset"] == result["offset"]
                && record["transactionId"] == result["transaction_id"]
                && record["ts"].as_str().is_some_and(|ts| ts.ends_with('Z')),
            "{record} was pushed as {result}"
        );
    }
    let end = probe.fetch(&queue, "7", 3).await?;
    ensure!(
        end["records"] == json!([]) && end["highWatermark"] == 3 && end.get("error").is_none(),
        "at the end: {end}"
    );
    let behind = probe.fetch(&queue, "7", 4).await?;
    ensure!(
        behind["error"] == "OFFSET_OUT_OF_RANGE"
            && behind["logStartOffset"] == 0
            && behind["highWatermark"] == 3,
        "behind the end: {behind}"
    );
    Ok(())
}

pub async fn null_payload(probe: &Probe) -> Result<(), Failure> {
    let queue = probe.fresh();
    probe.push(&queue, "0", &[Value::Null]).await?;
    let entry = probe.fetch(&queue, "0", 0).await?;
    ensure!(
        entry["highWatermark"] == 1 && entry["records"][0]["payload"].is_null(),
        "null was read as {entry}"
    );
    let item = json!({"queue": queue, "partition": "0", "data": 1});
    probe.post("push", 400, json!({"items": [item]})).await?;
    Ok(())
}

pub async fn envelope(probe: &Probe) -> Result<(), Failure> {
    let queue = probe.fresh();
    let payloads = [
        json!({"h": [{"k": "a", "v": ""}, {"k": "a", "v": null}], "k": null, "t": 1, "v": ""}),
        json!({"k": "", "v": null}),
    ];
    probe.push(&queue, "0", &payloads).await?;
    let entry = probe.fetch(&queue, "0", 0).await?;
    for (nth, payload) in payloads.iter().enumerate() {
        let read = &entry["records"][nth]["payload"];
        ensure!(read == payload, "pushed {payload}, read {read}");
    }
    Ok(())
}
