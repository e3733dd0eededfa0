//! Removal by age (contract section 2.2).

use std::time::Duration;

use fake_queen::{Options, Storage};
use rstest::rstest;
use serde_json::json;

use crate::disk::Disk;
use crate::world::{self, World};

fn options(durable: bool) -> Options {
    let storage = if durable {
        Storage::Backend(Box::new(Disk::default()))
    } else {
        Storage::Memory
    };
    Options {
        storage,
        // So small that older segments are read back from the disk.
        segment_cache_bytes: 40,
        ..Options::default()
    }
}

#[rstest]
#[case(false)]
#[case(true)]
#[tokio::test(start_paused = true)]
async fn whole_segments_go_and_the_log_start_moves(#[case] durable: bool) {
    let client = World::new(options(durable)).await.client;
    let retention = json!({"queue": "q", "retentionEnabled": true, "retentionSeconds": 60});
    client.post("configure", 200, retention).await;
    let item = json!({"queue": "q", "partition": "0", "payload": "x"});
    for _ in 0..4 {
        client
            .post("push", 201, json!({"items": [item, item]}))
            .await;
        tokio::time::sleep(Duration::from_secs(20)).await;
    }
    // Ages now: 80, 60, 40 and 20 seconds.
    tokio::time::sleep(Duration::from_secs(6)).await;
    let entry = client.fetch("q", "0", 0).await;
    assert_eq!(entry["error"], "OFFSET_OUT_OF_RANGE");
    assert_eq!(
        (&entry["logStartOffset"], &entry["highWatermark"]),
        (&json!(4), &json!(8))
    );
    let entry = client.fetch("q", "0", 4).await;
    let offsets: Vec<_> = entry["records"]
        .as_array()
        .unwrap()
        .iter()
        .map(|r| r["offset"].clone())
        .collect();
    assert_eq!(offsets, [4, 5, 6, 7]);
    let list = client.get("resources/queues").await["queues"][0].clone();
    assert_eq!(list["segments"], json!({"segments": 2, "messages": 4}));

    tokio::time::sleep(Duration::from_secs(120)).await;
    let entry = client.fetch("q", "0", 8).await;
    assert_eq!(
        (&entry["logStartOffset"], &entry["records"]),
        (&json!(8), &json!([]))
    );
    assert_eq!(client.push("q", "0", json!(1)).await["offset"], 8);
}

#[rstest]
#[case(json!({}))]
#[case(json!({"retentionSeconds": 60}))]
#[case(json!({"retentionEnabled": true}))]
#[tokio::test(start_paused = true)]
async fn retention_is_off_unless_enabled_with_a_time(#[case] options: serde_json::Value) {
    let client = World::default().await.client;
    client
        .post("configure", 200, json!({"queue": "q", "options": options}))
        .await;
    client.push("q", "0", json!(1)).await;
    tokio::time::sleep(Duration::from_secs(100_000)).await;
    assert_eq!(
        client.fetch("q", "0", 0).await["records"]
            .as_array()
            .unwrap()
            .len(),
        1
    );
}

#[rstest]
#[case(false)]
#[case(true)]
#[tokio::test(start_paused = true)]
async fn an_empty_idle_lane_is_removed_and_starts_over(#[case] durable: bool) {
    let client = World::new(Options {
        // A virtual month of five-second rounds would be many.
        retention_interval: Duration::from_secs(3600),
        ..options(durable)
    })
    .await
    .client;
    client
        .post(
            "configure",
            200,
            json!({"queue": "q", "maxWaitTimeSeconds": 60}),
        )
        .await;
    client.push("q", "0", json!(1)).await;
    tokio::time::sleep(Duration::from_secs(29 * 86_400)).await;
    assert_eq!(
        client.get("resources/queues").await["queues"][0]["partitions"],
        1
    );
    assert_eq!(client.fetch("q", "0", 0).await["logStartOffset"], 1);
    tokio::time::sleep(Duration::from_secs(2 * 86_400)).await;
    assert_eq!(
        client.get("resources/queues").await["queues"][0]["partitions"],
        0
    );
    assert_eq!(client.push("q", "0", json!(1)).await["offset"], 0);
}

#[tokio::test(start_paused = true)]
async fn what_retention_removed_stays_removed_after_a_power_cut() {
    let (host, disk) = (world::host(), Disk::default());
    let on = |disk: &Disk| Options {
        storage: Storage::Backend(Box::new(disk.clone())),
        ..Options::default()
    };
    let before = World::on(host.clone(), on(&disk)).await;
    let retention = json!({"queue": "q", "retentionEnabled": true, "retentionSeconds": 60});
    before.client.post("configure", 200, retention).await;
    for lane in ["0", "1"] {
        for _ in 0..3 {
            before.client.push("q", lane, json!("old")).await;
        }
    }
    tokio::time::sleep(Duration::from_secs(50)).await;
    before.client.push("q", "1", json!("new")).await;
    tokio::time::sleep(Duration::from_secs(20)).await;

    let after = World::on(host, on(&disk.after_power_cut(|_| false))).await;
    let emptied = after.client.fetch("q", "0", 3).await;
    assert_eq!(
        (&emptied["logStartOffset"], &emptied["records"]),
        (&json!(3), &json!([]))
    );
    assert_eq!(after.client.push("q", "0", json!(1)).await["offset"], 3);
    let kept = after.client.fetch("q", "1", 3).await;
    assert_eq!(
        (&kept["logStartOffset"], &kept["records"][0]["payload"]),
        (&json!(3), &json!("new"))
    );
}
