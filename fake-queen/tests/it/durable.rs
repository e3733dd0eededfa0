//! What survives: a clean stop, a power cut, a store that fails.

use std::time::Duration;

use fake_queen::store::Backend;
use fake_queen::{Options, Storage};
use serde_json::{Value, json};

use crate::disk::Disk;
use crate::world::World;

fn on(disk: &Disk) -> Options {
    Options {
        storage: Storage::Backend(Box::new(disk.clone())),
        kv_rates: None,
        segment_cache_bytes: 2000,
        ..Options::default()
    }
}

#[tokio::test]
async fn a_directory_is_reopened_with_everything_in_it() {
    let directory = tempfile::tempdir().unwrap();
    let mut ids = Vec::new();
    for round in 0..3 {
        let service = fake_queen::embed(host::os::host(), Some(directory.path().join("data")))
            .await
            .unwrap();
        let client = crate::client::Client(service.connector.clone());
        let item = json!({"queue": "q", "partition": "0", "payload": {"round": round}, "transactionId": format!("r-{round}")});
        let first = json!({"queue": "q", "partition": "0", "payload": 0, "transactionId": "r-0"});
        let results = client
            .post("push", 201, json!({"items": [first, item]}))
            .await;
        assert_eq!(
            results[0]["status"],
            if round == 0 { "queued" } else { "duplicate" }
        );
        assert_eq!(results[0]["offset"], 0);
        ids.push(results[0]["message_id"].clone());
        client
            .post("configure", 200, json!({"queue": "q", "ttl": 100}))
            .await;
        client.post("kv", 200, json!([{"op": "put", "ns": "n", "key": format!("k{round}"), "value": round, "forever": true}])).await;
        let all = client
            .post(
                "kv",
                200,
                json!([{"op": "getPrefix", "ns": "n", "prefix": "k"}]),
            )
            .await;
        let versions: std::collections::BTreeSet<u64> = all["results"][0]["rows"]
            .as_array()
            .unwrap()
            .iter()
            .map(|row| row["version"].as_u64().unwrap())
            .collect();
        assert_eq!(versions.len(), round + 1, "versions are never drawn twice");
        assert_eq!(
            client.get("resources/queues/q").await["options"]["ttl"],
            100
        );
        (service.stop)().await;
    }
    assert!(
        ids.iter().all(|id| *id == ids[0]),
        "a duplicate names its original"
    );
}

#[tokio::test(start_paused = true)]
async fn records_older_than_the_cache_come_from_the_disk() {
    let disk = Disk::default();
    let world = World::new(on(&disk)).await;
    for n in 0..50 {
        let payload = json!({"n": n, "noise": format!("{:x}", u128::from(n as u64).wrapping_mul(0x9e37_79b9_7f4a_7c15_f39c_c060_5ced_c834))});
        world.client.push("q", "0", payload).await;
    }
    for offset in [0, 7, 30, 49] {
        let entry = world.client.fetch("q", "0", offset).await;
        let records = entry["records"].as_array().unwrap();
        for (record, expected) in records.iter().zip(offset..) {
            assert_eq!(
                (&record["offset"], &record["payload"]["n"]),
                (&json!(expected), &json!(expected))
            );
        }
        assert!(!records.is_empty());
        if offset > 0 {
            assert_eq!(records.len() as i64, 50 - offset);
        }
    }
}

#[tokio::test(start_paused = true)]
async fn nothing_is_answered_before_it_is_synced() {
    let disk = Disk::default();
    let world = World::new(on(&disk)).await;
    for n in 0..20 {
        world.client.push("q", "0", json!(n)).await;
        let after = World::new(on(&disk.after_power_cut(|nth| (nth + n) % 3 == 0))).await;
        let entry = after.client.fetch("q", "0", 0).await;
        assert_eq!(entry["highWatermark"], n + 1);
        assert_eq!(entry["records"].as_array().unwrap().len(), n + 1);
    }
}

#[tokio::test(start_paused = true)]
async fn writers_that_come_together_share_a_sync() {
    let disk = Disk::default();
    let world = World::new(on(&disk)).await;
    world.client.push("q", "0", json!(0)).await;
    let before = disk.syncs();
    let calls: Vec<_> = (0..50)
        .map(|n| {
            let client = world.client.clone();
            tokio::spawn(async move { client.push("q", "0", json!(n)).await })
        })
        .collect();
    for call in calls {
        assert_eq!(call.await.unwrap()["status"], "queued");
    }
    let syncs = disk.syncs() - before;
    assert!(syncs <= 10, "{syncs} syncs for 50 pushes");
}

/// A disk that fails from a switch on.
#[derive(Clone, Debug)]
struct Failing(Disk, std::sync::Arc<std::sync::atomic::AtomicBool>);

impl Failing {
    fn check(&self) -> std::io::Result<()> {
        if self.1.load(std::sync::atomic::Ordering::Relaxed) {
            return Err(std::io::Error::other("the disk is gone"));
        }
        Ok(())
    }
}

impl Backend for Failing {
    fn len(&self) -> std::io::Result<u64> {
        self.0.len()
    }
    fn read(&self, offset: u64, out: &mut [u8]) -> std::io::Result<()> {
        self.0.read(offset, out)
    }
    fn set_len(&self, len: u64) -> std::io::Result<()> {
        self.check()?;
        self.0.set_len(len)
    }
    fn sync_data(&self) -> std::io::Result<()> {
        self.check()?;
        self.0.sync_data()
    }
    fn write(&self, offset: u64, data: &[u8]) -> std::io::Result<()> {
        self.check()?;
        self.0.write(offset, data)
    }
}

#[tokio::test(start_paused = true)]
async fn a_failing_disk_refuses_writes_and_goes_on_reading() {
    let disk = Failing(Disk::default(), std::sync::Arc::default());
    let world = World::new(Options {
        storage: Storage::Backend(Box::new(disk.clone())),
        ..Options::default()
    })
    .await;
    world.client.push("q", "0", json!(1)).await;
    disk.1.store(true, std::sync::atomic::Ordering::Relaxed);
    let item = json!({"items": [{"queue": "q", "partition": "0", "payload": 2}]});
    for _ in 0..2 {
        world.client.post("push", 500, item.clone()).await;
    }
    let entry = world.client.fetch("q", "0", 0).await;
    assert_eq!(entry["highWatermark"], 1, "what isn't durable isn't shown");
    let health = world.client.call("GET", "/health", &Value::Null).await;
    assert_eq!(
        (health.status, health.json()["status"].clone()),
        (503, json!("unhealthy"))
    );
    tokio::time::timeout(Duration::from_secs(30), world.queen.stop())
        .await
        .expect("stops all the same");
}

#[tokio::test(start_paused = true)]
async fn the_deduplication_window_survives_a_power_cut() {
    let disk = Disk::default();
    let before = World::new(on(&disk)).await;
    let item =
        |id: &str| json!({"queue": "q", "partition": "0", "payload": id, "transactionId": id});
    // One segment whose ids count up, one with too many runs for its header.
    let counting: Vec<Value> = (0..100)
        .map(|n| item(&format!("AAAAAAAAAAAAAAAA{n:08}")))
        .collect();
    let scattered: Vec<Value> = (0..100).map(|n| item(&format!("{}-x", n * 7))).collect();
    let mut known = Vec::new();
    for items in [&counting, &scattered] {
        let results = before
            .client
            .post("push", 201, json!({ "items": items }))
            .await;
        known.extend(results.as_array().unwrap().clone());
    }
    let after = World::new(on(&disk.after_power_cut(|_| false))).await;
    let again: Vec<Value> = counting.into_iter().chain(scattered).rev().collect();
    let results = after
        .client
        .post("push", 201, json!({ "items": again }))
        .await;
    for (result, known) in results.as_array().unwrap().iter().rev().zip(known) {
        assert_eq!(result["status"], "duplicate");
        assert_eq!(
            (&result["offset"], &result["message_id"]),
            (&known["offset"], &known["message_id"])
        );
    }
    assert_eq!(after.client.fetch("q", "0", 0).await["highWatermark"], 200);
}
