//! A first walk through the routes, as the embedded default is used.

use serde_json::json;

use crate::client::Client;

#[tokio::test]
async fn a_record_goes_in_and_comes_out() {
    let service = fake_queen::embed(host::os::host(), None).await.unwrap();
    let client = Client(service.connector.clone());
    client
        .post("configure", 200, json!({"queue": "orders"}))
        .await;
    let queues = client.get("resources/queues").await;
    assert_eq!(queues["queues"][0]["name"], "orders");
    assert_eq!(queues["queues"][0]["partitions"], 0);
    let pushed = client
        .post(
            "push",
            201,
            json!({"items": [
                {"queue": "orders", "partition": "3", "payload": {"k": null, "v": "aGk="}},
                {"queue": "orders", "partition": "3", "payload": null},
            ]}),
        )
        .await;
    assert_eq!(pushed[0]["offset"], 0);
    assert_eq!(pushed[1]["offset"], 1);
    assert_eq!(pushed[1]["transaction_id"], pushed[1]["message_id"]);
    let fetched = client
        .post(
            "fetch",
            200,
            json!({"entries": [{"queue": "orders", "partition": 3, "offset": 0}]}),
        )
        .await;
    let entry = &fetched["entries"][0];
    assert_eq!(
        entry["records"][0]["payload"],
        json!({"k": null, "v": "aGk="})
    );
    assert_eq!(entry["records"][1]["payload"], json!(null));
    assert_eq!(
        entry["records"][1]["transactionId"],
        pushed[1]["message_id"]
    );
    assert_eq!(entry["highWatermark"], 2);
    let kv = client
        .post(
            "kv",
            200,
            json!([{"op": "put", "ns": "queen-kafka", "key": "k", "value": {"a": 1}, "forever": true},
                   {"op": "getMany", "ns": "queen-kafka", "keys": ["k", "l"]}]),
        )
        .await;
    assert_eq!(kv["results"][0]["applied"], true);
    assert_eq!(kv["results"][1]["rows"][0]["value"], json!({"a": 1}));
    assert_eq!(kv["results"][1]["missing"], json!(["l"]));
    (service.stop)().await;
}
