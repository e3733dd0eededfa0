//! Groups 2, 3 and 4: what fetch refuses, how it answers for many, how it waits.

use std::time::Duration;

use serde_json::{Value, json};
use tokio::time::Instant;

use crate::conformance::client::{Failure, Probe, ensure};

/// An answer that comes later than this has waited.
const AT_ONCE: Duration = Duration::from_secs(3);

pub async fn bounds_probe(probe: &Probe) -> Result<(), Failure> {
    let queue = probe.fresh();
    probe.push(&queue, "0", &[json!(1), json!(2)]).await?;
    let entry = json!({"queue": queue, "partition": "0", "offset": i64::MAX, "maxBytes": 1});
    let answer = probe
        .post("fetch", 200, json!({ "entries": [entry] }))
        .await?;
    let entry = &answer["entries"][0];
    ensure!(
        entry["error"] == "OFFSET_OUT_OF_RANGE"
            && entry["logStartOffset"] == 0
            && entry["highWatermark"] == 2,
        "the probe answered {entry}"
    );
    Ok(())
}

pub async fn negative_offset(probe: &Probe) -> Result<(), Failure> {
    let queue = probe.fresh();
    probe.push(&queue, "0", &[json!(1)]).await?;
    let entries = json!([
        {"queue": queue, "partition": "0", "offset": 0},
        {"queue": queue, "partition": "0", "offset": -1},
    ]);
    probe
        .post("fetch", 400, json!({ "entries": entries }))
        .await?;
    Ok(())
}

pub async fn numeric_partition(probe: &Probe) -> Result<(), Failure> {
    let queue = probe.fresh();
    probe.push(&queue, "12", &[json!("x")]).await?;
    let entry = json!({"queue": queue, "partition": 12, "offset": 0});
    let answer = probe
        .post("fetch", 200, json!({ "entries": [entry] }))
        .await?;
    let entry = &answer["entries"][0];
    ensure!(
        entry["partition"] == "12" && entry["records"][0]["payload"] == "x",
        "partition 12 answered {entry}"
    );
    Ok(())
}

pub async fn too_many_entries(probe: &Probe) -> Result<(), Failure> {
    let queue = probe.fresh();
    let entry = json!({"queue": queue, "partition": "0", "offset": 0});
    let entries = |count| json!({"entries": vec![entry.clone(); count]});
    probe.post("fetch", 400, entries(1025)).await?;
    let answer = probe.post("fetch", 200, entries(1024)).await?;
    let count = answer["entries"].as_array().map_or(0, Vec::len);
    ensure!(count == 1024, "{count} entries answer 1024");
    Ok(())
}

pub async fn never_pushed(probe: &Probe) -> Result<(), Failure> {
    let queue = probe.fresh();
    probe.push(&queue, "0", &[json!(1)]).await?;
    let entry = probe.fetch(&queue, "1", 0).await?;
    ensure!(
        entry.get("error").is_none() && entry["highWatermark"] == 0 && entry["logStartOffset"] == 0,
        "a lane never pushed to answered {entry}"
    );
    Ok(())
}

pub async fn mixed_entries(probe: &Probe) -> Result<(), Failure> {
    let (a, b, missing) = (probe.fresh(), probe.fresh(), probe.fresh());
    probe.push(&a, "1", &[json!("a")]).await?;
    probe.push(&b, "2", &[json!("b")]).await?;
    let entries = json!([
        {"queue": b, "partition": "2", "offset": 1},
        {"queue": missing, "partition": "0", "offset": 0},
        {"queue": a, "partition": "1", "offset": 0},
    ]);
    let started = Instant::now();
    let body = json!({"entries": entries, "maxWaitMs": 20_000, "minBytes": 1_000_000});
    let answer = probe.post("fetch", 200, body).await?;
    let took = started.elapsed();
    ensure!(took < AT_ONCE, "an error was told after {took:?}");
    let names: Vec<(&Value, &Value)> = answer["entries"]
        .as_array()
        .into_iter()
        .flatten()
        .map(|entry| (&entry["queue"], &entry["partition"]))
        .collect();
    let expected = [
        (&json!(b), &json!("2")),
        (&json!(missing), &json!("0")),
        (&json!(a), &json!("1")),
    ];
    ensure!(names == expected, "asked {expected:?}, answered {names:?}");
    ensure!(
        answer["entries"][1]["error"] == "UNKNOWN_TOPIC_OR_PARTITION",
        "a missing queue answered {}",
        answer["entries"][1]
    );
    ensure!(
        answer["entries"][2]["records"][0]["payload"] == "a",
        "beside a missing queue: {}",
        answer["entries"][2]
    );
    Ok(())
}

pub async fn long_poll(probe: &Probe) -> Result<(), Failure> {
    let queue = probe.fresh();
    probe.push(&queue, "0", &[json!(1)]).await?;
    let entry = json!({"queue": queue, "partition": "0", "offset": 1});
    let body = json!({"entries": [entry], "maxWaitMs": 20_000});
    let started = Instant::now();
    let parked = probe.post("fetch", 200, body);
    let pushed = async {
        tokio::time::sleep(Duration::from_millis(400)).await;
        let early = started.elapsed();
        let payload = [json!("wakes")];
        probe.push(&queue, "0", &payload).await.map(|_| early)
    };
    let (answer, pushed) = tokio::join!(parked, pushed);
    let (answer, pushed) = (answer?, pushed?);
    let took = started.elapsed();
    ensure!(
        answer["entries"][0]["records"][0]["payload"] == "wakes",
        "the parked fetch answered {answer}"
    );
    ensure!(
        pushed <= took && took < pushed + AT_ONCE,
        "pushed after {pushed:?}, woken after {took:?}"
    );
    Ok(())
}

pub async fn no_park(probe: &Probe) -> Result<(), Failure> {
    let queue = probe.fresh();
    probe.push(&queue, "0", &[json!(1)]).await?;
    let entry = json!({"queue": queue, "partition": "0", "offset": 1});
    let body = json!({"entries": [entry], "maxWaitMs": 20_000, "minBytes": 0});
    let started = Instant::now();
    probe.post("fetch", 200, body).await?;
    let took = started.elapsed();
    ensure!(took < AT_ONCE, "it waited {took:?}");
    Ok(())
}
