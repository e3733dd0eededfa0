//! What a commit writes, and how commits share calls.

use super::*;

#[tokio::test(start_paused = true)]
async fn a_commit_is_the_rows_of_the_contract_in_one_call() {
    let world = World::new();
    assert!(all_written(
        &world.commit("my group", &[7]).verdicts().await
    ));
    let ts = world.host.clock.wall().epoch_ms();
    let expected = json!([
        {"op": "put", "ns": "queen-kafka", "key": "qk:groups:my%20group",
         "value": {"pt": "consumer", "ts": ts}, "forever": true, "expect": 0},
        {"op": "put", "ns": "queen-kafka", "key": "qk:group:my%20group:t:0",
         "value": {"offset": 7, "metadata": "m", "ts": 1}, "forever": true, "expect": 0},
    ]);
    assert_eq!(Value::Array(operations(&world, 0)), expected);
    assert_eq!(world.calls(), 1);
}

#[derive(Debug, serde::Deserialize)]
struct Golden {
    group: String,
    protocol_type: String,
    index_key: String,
    index_row: Value,
    topic: String,
    partition: i32,
    offset_key: String,
    offset_row: Value,
}

#[test]
fn keys_and_rows_are_those_of_an_existing_deployment() {
    let golden: Vec<Golden> = fixtures::json("queen/offset_rows.json").expect("the fixture");
    for row in golden {
        let key = key(&row.group, &row.topic, row.partition);
        assert_eq!(key.as_str(), row.offset_key);
        let prefix = group_prefix(&row.group);
        let read = keys::parse(&prefix, &row.offset_key);
        assert_eq!(read, Some((row.topic, row.partition)));
        assert_eq!(index_key(&row.group), row.index_key);
        assert_eq!(keys::indexed_group(&row.index_key), Some(row.group));
        let offset: OffsetRow = serde_json::from_value(row.offset_row.clone()).unwrap();
        assert_eq!(serde_json::to_value(&offset).unwrap(), row.offset_row);
        let index: IndexRow = serde_json::from_value(row.index_row.clone()).unwrap();
        assert_eq!(index.pt, row.protocol_type);
        assert_eq!(serde_json::to_value(&index).unwrap(), row.index_row);
    }
}

#[tokio::test(start_paused = true)]
async fn the_index_row_is_written_once_per_group_and_process() {
    let world = World::new();
    for _ in 0..3 {
        world.commit("g", &[1]).verdicts().await;
    }
    let index = |call: &crate::scripted_queen::Call| call.body.to_string().contains("qk:groups:");
    let calls = world.queen.calls("kv");
    assert_eq!(calls.iter().filter(|call| index(call)).count(), 1);
    let fresh = World::over(world.queen.clone());
    fresh.commit("g", &[2]).verdicts().await;
    // Once over what it expects, and once over what is there unless that is the same to the
    // millisecond: sockets are real, so time may stand still.
    let calls = fresh.queen.calls("kv");
    let written = calls.iter().filter(|call| index(call)).count();
    assert!((2..=3).contains(&written), "{written}");
}

#[tokio::test(start_paused = true)]
async fn an_index_row_that_failed_is_written_with_the_next_commit() {
    let world = World::new();
    world.queen.script("kv", [Fault::Status(503)]);
    assert!(!all_written(&world.commit("g", &[1]).verdicts().await));
    assert!(all_written(&world.commit("g", &[2]).verdicts().await));
    assert_eq!(world.queen.rows("qk:groups:").len(), 1);
}

#[tokio::test(start_paused = true)]
async fn under_load_commits_share_calls_at_least_fifty_to_one() {
    let world = World::new();
    let (groups, rounds) = (500, 40);
    let consumer = |n: usize| {
        let world = &world;
        async move {
            for round in 0..rounds {
                let group = format!("group-{n}");
                let verdicts = world.commit(&group, &[round]).verdicts().await;
                assert!(all_written(&verdicts));
                assert_eq!(
                    world.stored(&group, "t", 0),
                    Some(round),
                    "answered when stored"
                );
            }
        }
    };
    join_all((0..groups).map(consumer)).await;
    let commits = groups * rounds as usize;
    let calls = world.calls();
    assert!(commits >= 50 * calls, "{commits} commits in {calls} calls");
    let counted = world.registry.counter("offset_write_calls_total", "", &[]);
    assert_eq!(counted.get(), calls as u64);
}

#[tokio::test(start_paused = true)]
async fn a_lone_commit_does_not_wait() {
    let world = World::new();
    let start = tokio::time::Instant::now();
    for n in 0..50 {
        world.commit("g", &[n]).verdicts().await;
    }
    assert_eq!(start.elapsed(), Duration::ZERO);
}

#[tokio::test(start_paused = true)]
async fn calls_stay_below_the_rate_queen_grants() {
    let world = World::new();
    let start = tokio::time::Instant::now();
    for n in 0..1000 {
        world.commit("g", &[n]).verdicts().await;
    }
    // Queen: a burst of 200, then 100 a second.
    let granted = 200.0 + 100.0 * start.elapsed().as_secs_f64();
    assert!(
        world.calls() as f64 <= granted,
        "{} > {granted}",
        world.calls()
    );
}

#[tokio::test(start_paused = true)]
async fn the_newest_of_a_key_wins_and_everybody_is_answered() {
    let world = World::new();
    world
        .queen
        .script("kv", [Fault::Slow(Duration::from_millis(50))]);
    let first = world.commit("g", &[0]);
    tokio::time::sleep(Duration::from_millis(1)).await;
    // Gathered while the first is in flight.
    let later: Vec<Receipt> = (1..=300).map(|n| world.commit("g", &[n])).collect();
    assert!(all_written(&first.verdicts().await));
    for receipt in later {
        assert!(all_written(&receipt.verdicts().await));
    }
    assert_eq!(world.stored("g", "t", 0), Some(300));
    assert_eq!(world.calls(), 2);
    assert_eq!(operations(&world, 1).len(), 1, "one write per key");
}

#[tokio::test(start_paused = true)]
async fn a_key_twice_in_one_commit_ends_with_the_last() {
    let world = World::new();
    let mut twice = commit(tenant("token"), "g", &[1]);
    twice.changes.push((key("g", "t", 0), Change::Put(row(2))));
    let verdicts = world.offsets.commit(twice).verdicts().await;
    assert_eq!(verdicts.len(), 2);
    assert!(all_written(&verdicts));
    assert_eq!(world.stored("g", "t", 0), Some(2));
}

#[tokio::test(start_paused = true)]
async fn a_wide_commit_takes_several_calls_within_queens_bounds() {
    let world = World::new();
    let offsets: Vec<i64> = (0..1000).collect();
    let verdicts = world.commit("g", &offsets).verdicts().await;
    assert_eq!(verdicts.len(), 1000);
    assert!(all_written(&verdicts));
    assert_eq!(world.calls(), 1001_usize.div_ceil(MAX_OPERATIONS));
    for n in 0..world.calls() {
        assert!(operations(&world, n).len() <= MAX_OPERATIONS);
    }
    assert_eq!(world.stored("g", "t", 999), Some(999));
}

#[tokio::test(start_paused = true)]
async fn credentials_of_a_scope_never_share_a_call_and_keep_a_groups_order() {
    let world = World::new();
    world
        .queen
        .script("kv", [Fault::Slow(Duration::from_millis(50))]);
    let mut receipts = vec![world.commit("first", &[0])];
    tokio::time::sleep(Duration::from_millis(1)).await;
    for n in 1..=20 {
        let token = if n % 2 == 0 { "even" } else { "odd" };
        receipts.push(world.offsets.commit(commit(tenant(token), "shared", &[n])));
        receipts.push(
            world
                .offsets
                .commit(commit(tenant(token), &format!("own-{token}"), &[n])),
        );
    }
    for receipt in receipts {
        assert!(all_written(&receipt.verdicts().await));
    }
    assert_eq!(world.stored("shared", "t", 0), Some(20));
    assert_eq!(world.stored("own-odd", "t", 0), Some(19));
    let mut last = 0;
    for call in world.queen.calls("kv") {
        let text = call.body.to_string();
        let bearer = call.bearer.unwrap();
        assert!(!(text.contains("own-odd") && text.contains("own-even")));
        assert_eq!(
            text.contains("own-odd"),
            bearer.contains("odd") && text.contains("own-")
        );
        for operation in call.body["operations"].as_array().unwrap() {
            if operation["key"] == "qk:group:shared:t:0" {
                let offset = operation["value"]["offset"].as_i64().unwrap();
                assert!(
                    offset > last,
                    "commits of a group never overtake each other"
                );
                last = offset;
            }
        }
    }
}
