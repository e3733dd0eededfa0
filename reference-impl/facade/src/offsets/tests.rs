//! Offsets over a scripted Queen. Time is paused: it moves when everybody waits.

use std::sync::Arc;
use std::time::Duration;

use futures::future::{BoxFuture, join_all};
use host::Host;
use host::shutdown::{Trigger, shutdown};
use rstest::rstest;
use serde_json::{Value, json};

mod fenced;
mod late;

use super::*;
use crate::queen::kv::{MAX_KEYS, MAX_OPERATIONS};
use crate::queen::{Class, Credential, Scope};
use crate::scripted_queen::{Fault, ScriptedQueen, test_host};

struct World {
    queen: ScriptedQueen,
    host: Host,
    offsets: Offsets,
    registry: Registry,
    stop: Trigger,
}

impl World {
    fn new() -> Self {
        Self::over(ScriptedQueen::start())
    }

    /// A fresh process in front of the same Queen.
    fn over(queen: ScriptedQueen) -> Self {
        let host = test_host();
        let registry = Registry::default();
        let (stop, shutdown) = shutdown();
        let offsets = Offsets::new(&host, queen.client(&host), shutdown, &registry);
        Self {
            queen,
            host,
            offsets,
            registry,
            stop,
        }
    }

    fn calls(&self) -> usize {
        self.queen.calls("kv").len()
    }

    fn stored(&self, group: &str, topic: &str, partition: i32) -> Option<i64> {
        let key = key(group, topic, partition);
        let rows = self.queen.rows(key.as_str());
        rows.iter().find(|(k, _)| k == key.as_str())?.1["offset"].as_i64()
    }

    /// A commit of partition 0.. of topic `t`, at these offsets.
    fn commit(&self, group: &str, offsets: &[i64]) -> Receipt {
        self.offsets.commit(commit(tenant("token"), group, offsets))
    }
}

fn tenant(token: &str) -> Tenant {
    Tenant {
        scope: Scope::new("scope"),
        credential: Credential {
            bearer: Some(host::Secret::new(token.to_owned())),
            host: None,
        },
    }
}

fn key(group: &str, topic: &str, partition: i32) -> OffsetKey {
    OffsetKey::new(group, topic, partition).unwrap()
}

fn row(offset: i64) -> OffsetRow {
    OffsetRow {
        offset,
        metadata: Some("m".into()),
        ts: 1,
    }
}

fn commit(tenant: Tenant, group: &str, offsets: &[i64]) -> Commit {
    let change = |(partition, &offset): (usize, &i64)| {
        (key(group, "t", partition as i32), Change::Put(row(offset)))
    };
    Commit {
        tenant,
        group: group.into(),
        protocol_type: "consumer".into(),
        changes: offsets.iter().enumerate().map(change).collect(),
    }
}

fn all_written(verdicts: &Verdicts) -> bool {
    verdicts.iter().all(Result::is_ok)
}

/// The operations of call `n`.
fn operations(world: &World, n: usize) -> Vec<Value> {
    world.queen.calls("kv")[n].body["operations"]
        .as_array()
        .unwrap()
        .clone()
}

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
    // Once over what it expects, once over what is there.
    let calls = fresh.queen.calls("kv");
    assert_eq!(calls.iter().filter(|call| index(call)).count(), 3);
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

#[rstest]
#[case::refused(Fault::Status(403), Class::Forbidden, false)]
#[case::unavailable(Fault::Status(503), Class::Unavailable, false)]
#[case::throttled(Fault::Throttled(2), Class::Throttled, false)]
#[case::failed(Fault::Status(500), Class::Unknown, false)]
#[tokio::test(start_paused = true)]
async fn a_failed_call_fails_everybody_in_it_and_nobody_after(
    #[case] fault: Fault,
    #[case] class: Class,
    #[case] applied: bool,
) {
    let world = World::new();
    world
        .queen
        .script("kv", [Fault::Slow(Duration::from_millis(50)), fault]);
    let before = world.commit("a", &[1]);
    tokio::time::sleep(Duration::from_millis(1)).await;
    let failed = [world.commit("b", &[2, 3]), world.commit("c", &[4])];
    assert!(all_written(&before.verdicts().await));
    for receipt in failed {
        for verdict in receipt.verdicts().await {
            let Err(WriteError::Queen(error)) = verdict else {
                panic!("{verdict:?}")
            };
            assert_eq!(error.class(), class);
        }
    }
    assert_eq!(world.stored("b", "t", 0).is_some(), applied);
    assert!(all_written(&world.commit("d", &[5]).verdicts().await));
}

#[tokio::test(start_paused = true)]
async fn a_throttle_of_queen_holds_the_next_call_back() {
    let world = World::new();
    world.queen.script("kv", [Fault::Throttled(2)]);
    assert!(!all_written(&world.commit("g", &[1]).verdicts().await));
    let start = tokio::time::Instant::now();
    assert!(all_written(&world.commit("g", &[1]).verdicts().await));
    assert_eq!(start.elapsed(), Duration::from_secs(2));
}

#[tokio::test(start_paused = true)]
async fn an_answer_lost_after_the_rows_were_stored_is_a_failure_that_can_be_repeated() {
    let world = World::new();
    world.queen.script("kv", [Fault::LostAfter]);
    let verdicts = world.commit("g", &[7]).verdicts().await;
    let Err(WriteError::Queen(error)) = &verdicts[0] else {
        panic!("{verdicts:?}")
    };
    assert_eq!(error.class(), Class::Unknown);
    assert_eq!(world.stored("g", "t", 0), Some(7));
    assert!(all_written(&world.commit("g", &[7]).verdicts().await));
}

#[tokio::test(start_paused = true)]
async fn a_call_refused_for_its_content_is_halved_until_only_the_offender_hears() {
    let world = World::new();
    // Five rows: index and four offsets. Halves: [index, 0], [1, 2, 3]; then [1], [2, 3].
    let refused = Fault::Status(400);
    world.queen.script(
        "kv",
        [
            refused.clone(),
            Fault::None,
            refused.clone(),
            refused,
            Fault::None,
        ],
    );
    let verdicts = world.commit("g", &[10, 11, 12, 13]).verdicts().await;
    let written: Vec<bool> = verdicts.iter().map(Result::is_ok).collect();
    assert_eq!(written, [true, false, true, true]);
    assert_eq!(world.stored("g", "t", 1), None);
    assert_eq!(world.stored("g", "t", 3), Some(13));
}

#[tokio::test(start_paused = true)]
async fn too_much_waiting_is_refused_at_once() {
    let world = World::new();
    world
        .queen
        .script("kv", [Fault::Slow(Duration::from_secs(1))]);
    let first = world.commit("g", &[1]);
    tokio::time::sleep(Duration::from_millis(1)).await;
    let offsets: Vec<i64> = (0..40_000).collect();
    let waiting = world.commit("wide", &offsets);
    let refused = world.commit("wider", &offsets).verdicts().await;
    assert_eq!(refused.len(), offsets.len());
    assert!(
        refused
            .iter()
            .all(|verdict| matches!(verdict, Err(WriteError::Busy)))
    );
    assert!(all_written(&first.verdicts().await));
    assert!(
        all_written(&waiting.verdicts().await),
        "what was accepted is written"
    );
    assert!(all_written(&world.commit("wider", &[1]).verdicts().await));
}

#[tokio::test(start_paused = true)]
async fn a_client_that_left_does_not_take_its_commit_back() {
    let world = World::new();
    drop(world.commit("g", &[7]));
    tokio::time::sleep(Duration::from_secs(1)).await;
    assert_eq!(world.stored("g", "t", 0), Some(7));
}

#[tokio::test(start_paused = true)]
async fn a_drain_waits_for_what_was_accepted() {
    let world = World::new();
    world
        .queen
        .script("kv", [Fault::Slow(Duration::from_millis(700))]);
    let receipt = world.commit("g", &[7]);
    let start = tokio::time::Instant::now();
    assert!(world.stop.stop(Duration::from_secs(2)).await);
    assert_eq!(start.elapsed(), Duration::from_millis(700));
    assert!(all_written(&receipt.verdicts().await));
}

#[tokio::test(start_paused = true)]
async fn deletions_and_commits_keep_their_order() {
    let world = World::new();
    world
        .queen
        .script("kv", [Fault::Slow(Duration::from_millis(50))]);
    let mut receipts = vec![world.commit("g", &[1, 1])];
    tokio::time::sleep(Duration::from_millis(1)).await;
    let mut delete = commit(tenant("token"), "g", &[0, 0]);
    for (_, change) in &mut delete.changes {
        *change = Change::Delete;
    }
    receipts.push(world.offsets.commit(delete));
    receipts.push(world.commit("g", &[2]));
    for receipt in receipts {
        assert!(all_written(&receipt.verdicts().await));
    }
    assert_eq!(world.stored("g", "t", 0), Some(2));
    assert_eq!(world.stored("g", "t", 1), None);
}

#[tokio::test(start_paused = true)]
async fn deleting_an_offset_that_is_not_there_succeeds() {
    let world = World::new();
    let mut delete = commit(tenant("token"), "g", &[0]);
    delete.changes[0].1 = Change::Delete;
    assert!(all_written(&world.offsets.commit(delete).verdicts().await));
    assert_eq!(
        world.queen.rows("qk:groups:"),
        vec![],
        "a deletion does not list the group"
    );
}

#[tokio::test(start_paused = true)]
async fn reads_of_many_members_share_calls() {
    let world = World::new();
    let offsets: Vec<i64> = (0..3).collect();
    for n in 0..600 {
        world.commit(&format!("g-{n}"), &offsets).verdicts().await;
    }
    let before = world.calls();
    let reads = (0..600).map(|n| {
        let keys = (0..4).map(|p| key(&format!("g-{n}"), "t", p)).collect();
        let world = &world;
        async move { world.offsets.read(&tenant("token"), keys).await.unwrap() }
    });
    for read in join_all(reads).await {
        let offset = |n| Offset::Committed(row(n));
        assert_eq!(read, [offset(0), offset(1), offset(2), Offset::Absent]);
    }
    let calls = world.calls() - before;
    // 2400 keys, 1024 to a call, and the first few leave alone.
    assert!(calls <= 10, "{calls} calls");
    for call in &world.queen.calls("kv")[before..] {
        let operations = call.body["operations"].as_array().unwrap();
        let keys = |op: &Value| op["keys"].as_array().map_or(0, Vec::len);
        // What waits to be folded is looked for in the same call, and counts as its limit.
        let limit = |op: &Value| op["limit"].as_u64().unwrap_or(0) as usize;
        assert!(operations.iter().all(|op| keys(op) <= 128));
        let all = operations.iter().map(|op| keys(op) + limit(op));
        assert!(all.sum::<usize>() <= MAX_KEYS);
    }
}

#[tokio::test(start_paused = true)]
async fn a_failed_read_fails_everybody_in_it() {
    let world = World::new();
    world.queen.script("kv", [Fault::Status(403)]);
    let read = world
        .offsets
        .read(&tenant("token"), vec![key("g", "t", 0)])
        .await;
    let Err(ReadError::Queen(error)) = read else {
        panic!("{read:?}")
    };
    assert_eq!(error.class(), Class::Forbidden);
    let read = world
        .offsets
        .read(&tenant("token"), vec![key("g", "t", 0)])
        .await;
    assert_eq!(read.unwrap(), [Offset::Absent]);
    assert_eq!(
        world.offsets.read(&tenant("token"), vec![]).await.unwrap(),
        []
    );
}

/// Reads nothing of anything.
#[derive(Debug)]
struct Unreadable;

impl Store for Unreadable {
    fn run<'a>(&'a self, _: &'a Credential, _: &'a Batch) -> BoxFuture<'a, Result<Outcome, Error>> {
        Box::pin(async { Err(Error::Busy) })
    }

    fn read<'a>(
        &'a self,
        _: &'a Credential,
        keys: &'a [String],
    ) -> BoxFuture<'a, Result<Readout, Error>> {
        let readout = Readout {
            rows: vec![],
            unread: keys.to_vec(),
        };
        Box::pin(async { Ok(readout) })
    }

    fn scan<'a>(
        &'a self,
        _: &'a Credential,
        _: &'a str,
        _: bool,
        _: usize,
    ) -> BoxFuture<'a, Result<Scan, Error>> {
        Box::pin(async {
            Ok(Scan {
                rows: vec![],
                cut: true,
            })
        })
    }
}

#[tokio::test(start_paused = true)]
async fn what_queen_left_unread_is_not_absent() {
    let host = test_host();
    let (_stop, shutdown) = shutdown();
    let offsets = Offsets::over(
        &host,
        Arc::new(Unreadable),
        shutdown,
        &Registry::default(),
        None,
    );
    let read = offsets.read(&tenant("token"), vec![key("g", "t", 0)]).await;
    assert_eq!(read.unwrap(), [Offset::Unread]);
    assert!(offsets.read_all(&tenant("token"), "g").await.unwrap().cut);
    let index = offsets.group_indexes(&tenant("token"), &["g"]).await;
    assert!(matches!(index, Err(Error::Unreadable(_))));
}

#[tokio::test(start_paused = true)]
async fn every_offset_of_a_group_is_read_page_by_page() {
    let world = World::new();
    let offsets: Vec<i64> = (0..2500).collect();
    world.commit("g", &offsets).verdicts().await;
    world.commit("g2", &[1]).verdicts().await;
    let all = world.offsets.read_all(&tenant("token"), "g").await.unwrap();
    assert!(!all.cut);
    let partitions = &all.topics["t"];
    assert_eq!(all.topics.len(), 1);
    assert_eq!(partitions.len(), 2500);
    assert_eq!(partitions[&2499], row(2499));
    let none = world
        .offsets
        .read_all(&tenant("token"), "nobody")
        .await
        .unwrap();
    assert_eq!(none, AllOffsets::default());
}

#[tokio::test(start_paused = true)]
async fn a_deleted_group_leaves_nothing_and_begins_anew() {
    let world = World::new();
    let offsets: Vec<i64> = (0..1500).collect();
    world.commit("g", &offsets).verdicts().await;
    world.commit("other", &[1]).verdicts().await;
    let tenant = tenant("token");
    assert!(world.offsets.delete_group(&tenant, "g").await.is_ok());
    assert_eq!(world.queen.rows("qk:group:g:"), vec![]);
    assert_eq!(
        world
            .offsets
            .group_indexes(&tenant, &["g", "other"])
            .await
            .unwrap()[0],
        None
    );
    assert_eq!(world.stored("other", "t", 0), Some(1));
    let again = world.offsets.delete_group(&tenant, "g").await;
    assert!(matches!(again, Err(SweepError::Unknown)), "{again:?}");
    world.commit("g", &[9]).verdicts().await;
    let listed = world.offsets.list_groups(&tenant).await.unwrap();
    let names: Vec<&str> = listed
        .groups
        .iter()
        .map(|(name, _)| name.as_str())
        .collect();
    assert_eq!(names, ["g", "other"]);
    assert_eq!(listed.groups[0].1.pt, "consumer");
}

#[tokio::test(start_paused = true)]
async fn a_deletion_that_fails_half_way_says_so_and_can_be_repeated() {
    let world = World::new();
    world.commit("g", &[1, 2]).verdicts().await;
    let tenant = tenant("token");
    // The scans work, the deletion of the rows does not.
    let faults = [Fault::None, Fault::None, Fault::Status(503)];
    world.queen.script("kv", faults);
    let deleted = world.offsets.delete_group(&tenant, "g").await;
    assert!(matches!(deleted, Err(SweepError::Write(_))), "{deleted:?}");
    assert!(world.offsets.group_indexes(&tenant, &["g"]).await.unwrap()[0].is_some());
    assert!(world.offsets.delete_group(&tenant, "g").await.is_ok());
}

#[tokio::test(start_paused = true)]
async fn a_commit_in_the_middle_of_a_deletion_stays_listed() {
    let world = World::new();
    world.commit("g", &[1, 2]).verdicts().await;
    let tenant = tenant("token");
    // Two scans; the rows are deleted, and the answer takes its time.
    let faults = [
        Fault::None,
        Fault::None,
        Fault::Slow(Duration::from_secs(1)),
    ];
    world.queen.script("kv", faults);
    let commit = async {
        tokio::time::sleep(Duration::from_millis(500)).await;
        world.commit("g", &[3]).verdicts().await
    };
    let (deleted, committed) = tokio::join!(world.offsets.delete_group(&tenant, "g"), commit);
    assert!(deleted.is_ok(), "{deleted:?}");
    assert!(all_written(&committed));
    assert_eq!(world.stored("g", "t", 0), Some(3));
    let listed = world.offsets.list_groups(&tenant).await.unwrap();
    let groups: Vec<_> = listed.groups.iter().map(|(name, _)| name).collect();
    assert_eq!(groups, ["g"]);
}
