//! Native consumers: pop, ack, leases, retries, dead letters (contract section 4.10).

mod ack;
mod given_up;
mod lease;
mod model;
mod pop;
mod state;
mod wait;

use serde_json::{Value, json};

use crate::client::Client;

/// What a pop answers; `None` for 204.
pub async fn pop(client: &Client, path: &str) -> Option<Value> {
    let answer = client
        .call("GET", &format!("/api/v1/pop/{path}"), &Value::Null)
        .await;
    match answer.status {
        204 => {
            assert_eq!(answer.text, "");
            None
        }
        200 => Some(answer.json()),
        status => panic!("{path}: {status} {}", answer.text),
    }
}

/// The data of what was popped.
pub fn data(popped: &Option<Value>) -> Vec<Value> {
    popped
        .iter()
        .flat_map(|popped| popped["messages"].as_array().unwrap())
        .map(|message| message["data"].clone())
        .collect()
}

pub fn ack_of(message: &Value, status: &str) -> Value {
    json!({"transactionId": message["transactionId"], "partitionId": message["partitionId"],
        "leaseId": message["leaseId"], "status": status})
}

pub async fn ack(client: &Client, message: &Value, status: &str) -> Value {
    let mut body = ack_of(message, status);
    body["consumerGroup"] = message["consumerGroup"].clone();
    client.post("ack", 200, body).await[0].clone()
}

pub async fn push_all(client: &Client, queue: &str, lane: &str, payloads: &[i64]) {
    let items: Vec<Value> = payloads
        .iter()
        .map(|n| json!({"queue": queue, "partition": lane, "payload": n}))
        .collect();
    client.post("push", 201, json!({ "items": items })).await;
}

pub fn ints(values: &[i64]) -> Vec<Value> {
    values.iter().map(|n| json!(n)).collect()
}
