//! Differences between releases (contract section 11).

use fake_queen::{Options, Version};
use serde_json::{Value, json};

use crate::client::Client;
use crate::world::World;

async fn client(version: Version) -> Client {
    let options = Options {
        version,
        ..Options::default()
    };
    World::new(options).await.client
}

#[tokio::test(start_paused = true)]
async fn before_1_4_offsets_and_never_pushed_lanes_are_unknown() {
    let client = client(Version::V1_3).await;
    assert!(
        client
            .push("q", "0", json!(1))
            .await
            .get("offset")
            .is_none()
    );
    assert_eq!(
        client.fetch("q", "1", 0).await["error"],
        "UNKNOWN_TOPIC_OR_PARTITION"
    );
}

#[tokio::test(start_paused = true)]
async fn before_1_5_there_is_no_partitions_changed() {
    client(Version::V1_4)
        .await
        .post("partitions/changed", 404, json!({"entries": []}))
        .await;
    client(Version::V1_5)
        .await
        .post("partitions/changed", 200, json!({"entries": []}))
        .await;
}

#[tokio::test(start_paused = true)]
async fn before_1_6_configure_replaces_and_detail_hides_options() {
    let client = client(Version::V1_5).await;
    client
        .post("configure", 200, json!({"queue": "q", "ttl": 5}))
        .await;
    let blind = client.post("configure", 200, json!({"queue": "q"})).await;
    assert_eq!(blind["options"]["ttl"], 3600);
    assert!(
        client
            .get("resources/queues/q")
            .await
            .get("options")
            .is_none()
    );
    let console = client
        .call("GET", "/api/v1/resources/kv/namespaces", &Value::Null)
        .await;
    assert_eq!(console.status, 404);
}

#[tokio::test(start_paused = true)]
async fn health_tells_the_version() {
    let answer = client(Version::V1_6)
        .await
        .call("GET", "/health", &Value::Null)
        .await;
    assert_eq!(
        answer.json(),
        json!({"status": "healthy", "database": "connected", "engine": "segments-rust", "version": "1.6.0"})
    );
}
