//! Group 12: native consumers, as far as records cross between them and Kafka's.

use http::Method;
use serde_json::{Value, json};

use crate::conformance::client::{Failure, Probe, ensure};

async fn pop(probe: &Probe, queue: &str, group: &str, more: &str) -> Result<Value, Failure> {
    let route = format!("pop/queue/{queue}?consumerGroup={group}&batch=10&{more}");
    probe
        .expect(Method::GET, &route, 200, &Value::Null)
        .await?
        .json()
}

async fn nothing(probe: &Probe, queue: &str, group: &str) -> Result<(), Failure> {
    let route = format!("pop/queue/{queue}?consumerGroup={group}&batch=10");
    let answer = probe.expect(Method::GET, &route, 204, &Value::Null).await?;
    ensure!(answer.text.is_empty(), "204 with a body: {}", answer.text);
    Ok(())
}

async fn ack(probe: &Probe, message: &Value, group: &str, status: &str) -> Result<Value, Failure> {
    let body = json!({"transactionId": message["transactionId"], "status": status,
        "partitionId": message["partitionId"], "leaseId": message["leaseId"],
        "consumerGroup": group});
    let answer = probe.post("ack", 200, body).await?;
    Ok(answer[0].clone())
}

pub async fn pop_and_ack(probe: &Probe) -> Result<(), Failure> {
    let (queue, group) = (probe.fresh(), probe.fresh());
    probe.push(&queue, "0", &[json!("before")]).await?;
    nothing(probe, &queue, &group).await?;
    probe.push(&queue, "0", &[json!("a"), json!("b")]).await?;
    let popped = pop(probe, &queue, &group, "").await?;
    let messages = popped["messages"].as_array().cloned().unwrap_or_default();
    let data: Vec<&Value> = messages.iter().map(|message| &message["data"]).collect();
    ensure!(data == [&json!("a"), &json!("b")], "popped {popped}");
    let acked = ack(probe, &messages[1], &group, "completed").await?;
    ensure!(
        acked["success"] == true && acked["leaseReleased"] == true,
        "the ack of the last answered {acked}"
    );
    nothing(probe, &queue, &group).await?;
    let again = ack(probe, &messages[0], &group, "completed").await?;
    ensure!(
        again["success"] == false && again["error"] == "invalid or expired lease",
        "an ack under a released lease answered {again}"
    );
    Ok(())
}

pub async fn lease_and_failure(probe: &Probe) -> Result<(), Failure> {
    let (queue, group) = (probe.fresh(), probe.fresh());
    probe.push(&queue, "0", &[json!(1), json!(2)]).await?;
    let popped = pop(probe, &queue, &group, "subscriptionMode=all").await?;
    nothing(probe, &queue, &group).await?;
    let lease = popped["leaseId"].as_str().unwrap_or_default();
    let extended = probe
        .post(
            &format!("lease/{lease}/extend"),
            200,
            json!({"seconds": 90}),
        )
        .await?;
    ensure!(
        extended["success"] == true && extended["renewed"] == 1,
        "extending answered {extended}"
    );
    let failed = ack(probe, &popped["messages"][0], &group, "failed").await?;
    ensure!(
        failed["success"] == true && failed["leaseReleased"] == true && failed["dlq"] == false,
        "the first failure answered {failed}"
    );
    let again = pop(probe, &queue, &group, "").await?;
    ensure!(
        again["messages"][0]["data"] == 1 && again["leaseId"] != popped["leaseId"],
        "after a failure: {again}"
    );
    let gone = probe
        .post(&format!("lease/{lease}/extend"), 200, json!({}))
        .await?;
    ensure!(
        gone["success"] == false && gone["renewed"] == 0,
        "extending what is gone answered {gone}"
    );
    Ok(())
}

pub async fn both_sides(probe: &Probe) -> Result<(), Failure> {
    let (queue, group) = (probe.fresh(), probe.fresh());
    let envelope = json!({"h": [{"k": "a", "v": "eA=="}], "k": null, "t": 5, "v": "dmFsdWU="});
    probe
        .push(&queue, "0", &[envelope.clone(), json!({"native": true})])
        .await?;
    let popped = pop(probe, &queue, &group, "subscriptionMode=all").await?;
    ensure!(
        popped["messages"][0]["data"] == envelope,
        "an envelope was popped as {}",
        popped["messages"][0]
    );
    let entry = probe.fetch(&queue, "0", 1).await?;
    ensure!(
        entry["records"][0]["payload"] == json!({"native": true}),
        "a native record was fetched as {entry}"
    );
    Ok(())
}
