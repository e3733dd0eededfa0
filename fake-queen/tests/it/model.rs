//! Random calls against a model of plain lists and maps: every answer and, after every call, all
//! that can be read must be the model's, in memory and over a disk that loses power now and then.

use std::collections::BTreeMap;

use fake_queen::{Options, Storage};
use proptest::prelude::*;
use serde_json::{Value, json};

use crate::client::Client;
use crate::disk::Disk;
use crate::world::{self, World, unlimited};

#[derive(Clone, Debug)]
struct Item {
    queue: u8,
    lane: u8,
    id: Option<u8>,
    payload: u16,
}

#[derive(Clone, Debug)]
enum Expect {
    Nothing,
    Absent,
    Current,
    Wrong,
}

#[derive(Clone, Debug)]
enum Kv {
    Put {
        key: u8,
        value: u8,
        ttl_s: Option<u8>,
        expect: Expect,
        required: bool,
    },
    Delete {
        key: u8,
        expect: Expect,
        required: bool,
    },
    Incr {
        key: u8,
        delta: i8,
    },
}

#[derive(Clone, Debug)]
enum Step {
    Push(Vec<Item>),
    Kv(Vec<Kv>),
    Transaction(Vec<Item>, Vec<Kv>),
    DeleteQueue(u8),
    Configure(u8, bool),
    Sleep(u8),
    PowerCut(u64),
}

fn item() -> impl Strategy<Value = Item> {
    (
        0..2_u8,
        0..3_u8,
        proptest::option::of(0..12_u8),
        any::<u16>(),
    )
        .prop_map(|(queue, lane, id, payload)| Item {
            queue,
            lane,
            id,
            payload,
        })
}

fn expect() -> impl Strategy<Value = Expect> {
    prop_oneof![
        3 => Just(Expect::Nothing),
        2 => Just(Expect::Absent),
        3 => Just(Expect::Current),
        1 => Just(Expect::Wrong),
    ]
}

fn kv() -> impl Strategy<Value = Kv> {
    prop_oneof![
        4 => (0..5_u8, any::<u8>(), proptest::option::of(1..20_u8), expect(), prop::bool::weighted(0.3))
            .prop_map(|(key, value, ttl_s, expect, required)| Kv::Put { key, value, ttl_s, expect, required }),
        2 => (0..5_u8, expect(), prop::bool::weighted(0.2))
            .prop_map(|(key, expect, required)| Kv::Delete { key, expect, required }),
        1 => (0..5_u8, any::<i8>()).prop_map(|(key, delta)| Kv::Incr { key, delta }),
    ]
}

fn distinct_keys(operations: Vec<Kv>) -> Vec<Kv> {
    let mut by_key = BTreeMap::new();
    for operation in operations {
        by_key.entry(operation.key()).or_insert(operation);
    }
    by_key.into_values().collect()
}

fn step() -> impl Strategy<Value = Step> {
    let items = || proptest::collection::vec(item(), 1..6);
    let operations = || proptest::collection::vec(kv(), 1..4).prop_map(distinct_keys);
    prop_oneof![
        6 => items().prop_map(Step::Push),
        4 => operations().prop_map(Step::Kv),
        4 => (items(), operations()).prop_map(|(items, kv)| Step::Transaction(items, kv)),
        1 => (0..2_u8).prop_map(Step::DeleteQueue),
        1 => (0..2_u8, any::<bool>()).prop_map(|(queue, on)| Step::Configure(queue, on)),
        1 => (1..30_u8).prop_map(Step::Sleep),
        2 => any::<u64>().prop_map(Step::PowerCut),
    ]
}

impl Kv {
    fn key(&self) -> u8 {
        match self {
            Self::Put { key, .. } | Self::Delete { key, .. } | Self::Incr { key, .. } => *key,
        }
    }
}

#[derive(Clone, Debug, Default)]
struct Model {
    /// By queue; lanes by name; payloads and ids by offset.
    queues: BTreeMap<u8, Queue>,
    rows: BTreeMap<u8, Row>,
    now_ms: i64,
}

#[derive(Clone, Debug)]
struct Queue {
    dedup: bool,
    lanes: BTreeMap<u8, Vec<(u16, Option<u8>)>>,
    /// Ids appended while the window was on.
    ids: BTreeMap<(u8, u8), usize>,
}

#[derive(Clone, Debug, PartialEq)]
struct Row {
    value: i64,
    version: u64,
    expires_ms: Option<i64>,
}

impl Model {
    fn queue(&mut self, queue: u8) -> &mut Queue {
        self.queues.entry(queue).or_insert(Queue {
            dedup: true,
            lanes: BTreeMap::new(),
            ids: BTreeMap::new(),
        })
    }

    /// Offset, and whether it was there before.
    fn append(&mut self, item: &Item) -> (usize, bool) {
        let queue = self.queue(item.queue);
        if let (true, Some(id)) = (queue.dedup, item.id)
            && let Some(offset) = queue.ids.get(&(item.lane, id))
        {
            return (*offset, true);
        }
        let log = queue.lanes.entry(item.lane).or_default();
        log.push((item.payload, item.id));
        let offset = log.len() - 1;
        if let (true, Some(id)) = (queue.dedup, item.id) {
            queue.ids.insert((item.lane, id), offset);
        }
        (offset, false)
    }

    fn knows(&self, item: &Item) -> bool {
        item.id.is_some_and(|id| {
            self.queues
                .get(&item.queue)
                .is_some_and(|queue| queue.dedup && queue.ids.contains_key(&(item.lane, id)))
        })
    }

    fn live(&self, key: u8) -> Option<&Row> {
        self.rows
            .get(&key)
            .filter(|row| row.expires_ms.is_none_or(|at| at > self.now_ms))
    }

    fn expected_version(&self, key: u8, expect: &Expect) -> Option<u64> {
        match expect {
            Expect::Nothing => None,
            Expect::Absent => Some(0),
            Expect::Current => Some(self.live(key).map_or(0, |row| row.version)),
            Expect::Wrong => Some(u64::MAX / 4),
        }
    }

    /// The operation as JSON, and the reason for which it is lost.
    fn judge(&self, operation: &Kv) -> (Value, Option<&'static str>) {
        let key = operation.key();
        let live = self.live(key);
        let condition = |expect: &Expect| match (self.expected_version(key, expect), live) {
            (Some(0), Some(_)) => Some("exists"),
            (Some(1..), None) => Some("absent"),
            (Some(wanted @ 1..), Some(row)) if row.version != wanted => Some("version"),
            _ => None,
        };
        let name = format!("k{key}");
        let (mut json, expect, required, lost) = match operation {
            Kv::Put {
                value,
                ttl_s,
                expect,
                required,
                ..
            } => {
                let mut json = json!({"op": "put", "value": value});
                match ttl_s {
                    Some(ttl) => json["ttlSeconds"] = json!(ttl),
                    None => json["forever"] = json!(true),
                }
                (json, expect, *required, condition(expect))
            }
            Kv::Delete {
                expect, required, ..
            } => {
                let expects_none = self.expected_version(key, expect) == Some(0);
                let lost = condition(expect)
                    .or_else(|| (live.is_none() && !expects_none).then_some("absent"));
                (json!({"op": "delete"}), expect, *required, lost)
            }
            Kv::Incr { delta, .. } => (
                json!({"op": "incr", "delta": delta, "forever": true}),
                &Expect::Nothing,
                false,
                None,
            ),
        };
        json["ns"] = json!("model");
        json["key"] = json!(name);
        json["required"] = json!(required);
        if let Some(version) = self.expected_version(key, expect) {
            json["expect"] = json!(version);
        }
        (json, lost)
    }

    /// Takes over what an answer says was applied.
    fn apply(&mut self, operation: &Kv, result: &Value) {
        let key = operation.key();
        let version = result["version"].as_u64().unwrap();
        match operation {
            Kv::Delete { .. } => {
                self.rows.remove(&key);
            }
            Kv::Put { value, ttl_s, .. } => {
                let row = Row {
                    value: i64::from(*value),
                    version,
                    expires_ms: ttl_s.map(|ttl| self.now_ms + i64::from(ttl) * 1000),
                };
                self.rows.insert(key, row);
            }
            Kv::Incr { delta, .. } => {
                let before = self.live(key).cloned();
                let row = Row {
                    value: before.as_ref().map_or(0, |row| row.value) + i64::from(*delta),
                    version,
                    expires_ms: before.and_then(|row| row.expires_ms),
                };
                self.rows.insert(key, row);
            }
        }
    }
}

fn required(operation: &Kv) -> bool {
    matches!(
        operation,
        Kv::Put { required: true, .. } | Kv::Delete { required: true, .. }
    )
}

fn item_json(item: &Item) -> Value {
    let mut json = json!({"queue": format!("q{}", item.queue), "partition": item.lane.to_string(),
        "payload": {"n": item.payload}});
    if let Some(id) = item.id {
        json["transactionId"] = json!(format!("id-{id}"));
    }
    json
}

async fn push(client: &Client, model: &mut Model, items: &[Item]) {
    let body = json!({"items": items.iter().map(item_json).collect::<Vec<_>>()});
    let results = client.post("push", 201, body).await;
    // Groups stand in order of first appearance, items in order within them; lanes are apart, so
    // item order gives the same.
    for (index, item) in items.iter().enumerate() {
        let (offset, duplicate) = model.append(item);
        let status = if duplicate { "duplicate" } else { "queued" };
        let result = &results[index];
        assert_eq!(
            (&result["offset"], &result["status"]),
            (&json!(offset), &json!(status)),
            "{results}"
        );
    }
}

/// The first required loss in key order, which is the order of running.
fn first_required_loss(model: &Model, operations: &[Kv]) -> Option<(usize, &'static str)> {
    let mut order: Vec<usize> = (0..operations.len()).collect();
    order.sort_by_key(|index| operations[*index].key());
    order.into_iter().find_map(|index| {
        let lost = model.judge(&operations[index]).1?;
        required(&operations[index]).then_some((index, lost))
    })
}

fn check_kv_results(model: &mut Model, operations: &[Kv], results: &[Value]) {
    for (operation, result) in operations.iter().zip(results) {
        match model.judge(operation).1 {
            Some(reason) => {
                assert_eq!(result["applied"], false, "{operation:?} {result}");
                assert_eq!(result["reason"], reason);
                let version = model.live(operation.key()).map_or(0, |row| row.version);
                assert_eq!(result["version"], version);
            }
            None => {
                assert_eq!(result["applied"], true, "{operation:?} {result}");
                model.apply(operation, result);
            }
        }
    }
}

async fn kv_call(client: &Client, model: &mut Model, operations: &[Kv]) {
    let body: Value = operations.iter().map(|op| model.judge(op).0).collect();
    let answer = client.post("kv", 200, body).await;
    match first_required_loss(model, operations) {
        Some((index, reason)) => {
            assert_eq!(answer["ok"], false);
            assert_eq!(
                (&answer["failedIndex"], &answer["kvReason"]),
                (&json!(index), &json!(reason))
            );
        }
        None => check_kv_results(model, operations, answer["results"].as_array().unwrap()),
    }
}

async fn transaction(client: &Client, model: &mut Model, items: &[Item], operations: &[Kv]) {
    let body = json!({
        "operations": [{"type": "push", "items": items.iter().map(item_json).collect::<Vec<_>>()}],
        "kv": operations.iter().map(|op| model.judge(op).0).collect::<Vec<_>>(),
    });
    let answer = client.post("transaction", 200, body).await;
    if let Some((index, reason)) = first_required_loss(model, operations) {
        assert_eq!(answer["reason"], "kv_precondition");
        assert_eq!(answer["failedIndex"], items.len() + index);
        assert_eq!(answer["kvReason"], reason);
    } else if items.iter().any(|item| model.knows(item)) {
        assert_eq!(answer["reason"], "duplicate");
    } else {
        assert_eq!(answer["success"], true, "{answer}");
        let results = answer["results"].as_array().unwrap();
        for (item, result) in items.iter().zip(results) {
            let (_, duplicate) = model.append(item);
            assert_eq!(result["duplicate"] == json!(true), duplicate);
        }
        check_kv_results(model, operations, &results[items.len()..]);
    }
}

/// All that can be read is the model's.
async fn check(client: &Client, model: &Model) {
    let list = client.get("resources/queues").await;
    let mut counts: Vec<(String, u64)> = list["queues"]
        .as_array()
        .unwrap()
        .iter()
        .map(|queue| {
            (
                queue["name"].as_str().unwrap().to_owned(),
                queue["partitions"].as_u64().unwrap(),
            )
        })
        .collect();
    counts.sort();
    let expected: Vec<(String, u64)> = model
        .queues
        .iter()
        .map(|(name, queue)| (format!("q{name}"), queue.lanes.len() as u64))
        .collect();
    assert_eq!(counts, expected);
    for (name, queue) in &model.queues {
        for (lane, log) in &queue.lanes {
            for from in [0, log.len() / 2, log.len()] {
                let entry = client
                    .fetch(&format!("q{name}"), &lane.to_string(), from as i64)
                    .await;
                assert_eq!(
                    (&entry["highWatermark"], &entry["logStartOffset"]),
                    (&json!(log.len()), &json!(0))
                );
                let records = entry["records"].as_array().unwrap();
                assert_eq!(records.len(), log.len() - from);
                for (record, offset) in records.iter().zip(from..) {
                    let (payload, id) = &log[offset];
                    assert_eq!(
                        (&record["offset"], &record["payload"]),
                        (&json!(offset), &json!({"n": payload}))
                    );
                    if let Some(id) = id {
                        assert_eq!(record["transactionId"], format!("id-{id}"));
                    }
                }
            }
        }
    }
    let keys: Vec<String> = (0..5).map(|key| format!("k{key}")).collect();
    let read = json!([{"op": "getMany", "ns": "model", "keys": keys}]);
    let rows = client.post("kv", 200, read).await["results"][0]["rows"].clone();
    let seen: Vec<(String, i64, u64)> = rows
        .as_array()
        .unwrap()
        .iter()
        .map(|row| {
            (
                row["key"].as_str().unwrap().to_owned(),
                row["value"].as_i64().unwrap(),
                row["version"].as_u64().unwrap(),
            )
        })
        .collect();
    let expected: Vec<(String, i64, u64)> = (0..5)
        .filter_map(|key| {
            model
                .live(key)
                .map(|row| (format!("k{key}"), row.value, row.version))
        })
        .collect();
    assert_eq!(seen, expected);
}

async fn run(steps: Vec<Step>, durable: bool) {
    let host = world::host();
    let mut disk = Disk::default();
    let options = |disk: &Disk| Options {
        storage: if durable {
            Storage::Backend(Box::new(disk.clone()))
        } else {
            Storage::Memory
        },
        segment_cache_bytes: 60,
        ..unlimited()
    };
    let mut world = World::on(host.clone(), options(&disk)).await;
    let mut model = Model::default();
    for step in steps {
        let client = world.client.clone();
        model.now_ms = host.clock.wall().epoch_ms();
        match &step {
            Step::Push(items) => push(&client, &mut model, items).await,
            Step::Kv(operations) => kv_call(&client, &mut model, operations).await,
            Step::Transaction(items, operations) => {
                transaction(&client, &mut model, items, operations).await;
            }
            Step::DeleteQueue(queue) => {
                let path = format!("/api/v1/resources/queues/q{queue}");
                let answer = client.call("DELETE", &path, &Value::Null).await.json();
                assert_eq!(answer["deleted"], model.queues.remove(queue).is_some());
            }
            Step::Configure(queue, dedup) => {
                let seconds = if *dedup { 3600 } else { 0 };
                let body = json!({"queue": format!("q{queue}"), "dedupWindowSeconds": seconds});
                client.post("configure", 200, body).await;
                model.queue(*queue).dedup = *dedup;
            }
            Step::Sleep(seconds) => {
                tokio::time::sleep(std::time::Duration::from_secs(u64::from(*seconds))).await;
            }
            Step::PowerCut(keep) if durable => {
                disk = disk.after_power_cut(|nth| keep >> (nth % 64) & 1 == 1);
                world = World::on(host.clone(), options(&disk)).await;
            }
            Step::PowerCut(_) => {}
        }
        model.now_ms = host.clock.wall().epoch_ms();
        check(&world.client, &model).await;
    }
}

fn simulate(steps: Vec<Step>, durable: bool) {
    tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .start_paused(true)
        .build()
        .unwrap()
        .block_on(run(steps, durable));
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 24, ..ProptestConfig::default() })]

    #[test]
    fn in_memory_it_is_the_model(steps in proptest::collection::vec(step(), 1..30)) {
        simulate(steps, false);
    }

    #[test]
    fn over_a_disk_that_loses_power_it_is_the_model(steps in proptest::collection::vec(step(), 1..30)) {
        simulate(steps, true);
    }
}
